//! Heads of files: every source file describes itself, every library its invariants, and every
//! crate without a reason for unsafe code forbids it.

use super::finding::Finding;
use super::tree::{Tree, is_test_file};
use anyhow::Result;

/// Crates that may hold unsafe code, and its purpose (ARCHITECTURE.md). All others forbid it.
const UNSAFE_ALLOWED: &[(&str, &str)] = &[
    ("clump-os", "system calls"),
    ("clump-shm", "memory that other processes write"),
    ("clump-am", "payload views into bulk rings"),
    ("clump-trace", "counters in a mapped file"),
    ("clump-driver", "packet rings shared with the kernel"),
    ("clump-onesided", "buffers of gets"),
    ("clump-rma", "remote memory"),
    ("clump-svm", "page faults"),
    ("clump-pgas", "global pointers"),
    ("clump-engines", "libpmix"),
    ("clump-capi", "the C interface"),
    ("clump-ffi", "bindings of other languages"),
    ("clump-python", "arrays over memory of ranks"),
    ("clump-am2", "Active Messages II in C"),
];

/// Reports missing heads, missing invariants, missing `forbid`.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust().filter(|(f, _)| f.path.contains("/src/") && !is_test_file(&f.path))
    {
        if !file.text.starts_with("//!") {
            findings
                .push(Finding::of(&file.path, "begins with no `//!` line that says what it is"));
        }
    }
    for item in &tree.crates {
        let library = format!("{}/src/lib.rs", item.dir);
        // A crate of tests guarantees nothing to callers.
        if let Some(file) = tree.file(&library).filter(|f| !is_test_file(&f.path))
            && !head(&file.text).any(|line| line.trim_end() == "//! # Invariants")
        {
            findings.push(Finding::of(
                &library,
                "the head has no `# Invariants`; number what always holds here, so that SAFETY comments \
                 and assertions can refer to it",
            ));
        }
        if UNSAFE_ALLOWED.iter().any(|(name, _)| *name == item.name) {
            continue;
        }
        for root in [library, format!("{}/src/main.rs", item.dir)] {
            if let Some(file) = tree.file(&root)
                && !file.text.contains("#![forbid(unsafe_code)]")
            {
                findings.push(Finding::of(
                    &root,
                    "add `#![forbid(unsafe_code)]`: ARCHITECTURE.md gives this crate no unsafe code",
                ));
            }
        }
    }
    Ok(findings)
}

fn head(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| line.starts_with("//!"))
}
