//! Files that tests compare with: `CLUMP_GOLDEN=write` stores what was made instead.
#![allow(clippy::disallowed_methods, reason = "a variable of tests is no setting of clump")]

use std::path::Path;

/// Compares `text` with the stored file of that name.
pub(crate) fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if std::env::var_os("CLUMP_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = stored.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(
        stored == text,
        "{} differs from line {:?} on; if that is meant, store it by CLUMP_GOLDEN=write",
        path.display(),
        differs.map(|line| line + 1)
    );
}
