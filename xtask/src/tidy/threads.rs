//! Threads that clump starts in a program block all signals, so that handlers of the program run on
//! its own threads: there is one place that starts them.

use super::finding::Finding;
use super::tree::{Tree, is_test_file};
use anyhow::Result;

/// The crate that starts threads.
const STARTER: &str = "crates/clump-os/src/thread.rs";
/// Code that starts a thread with the signals of its creator.
const STARTS: &[&str] =
    &["std::thread::spawn", "thread::Builder", "scope.spawn(", ".spawn_scoped("];

/// Reports threads of the crates that are started elsewhere, tests and examples apart.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let library = file.path.starts_with("crates/") && file.path.contains("/src/");
        if !library || file.path == STARTER || is_test_file(&file.path) {
            continue;
        }
        let tests = source.test_lines();
        for (number, line) in source.lines.iter().enumerate() {
            let found = STARTS.iter().find(|starts| line.code.contains(**starts));
            if let Some(starts) = found.filter(|_| !tests[number]) {
                let what = format!(
                    "`{starts}` starts a thread on which the program's signal handlers run; use \
                     clump_os::thread"
                );
                findings.push(Finding::at(&file.path, number, what));
            }
        }
    }
    Ok(findings)
}
