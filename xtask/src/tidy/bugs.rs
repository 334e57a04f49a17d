//! A broken invariant never leaves in silence: it goes through `clump_bug::bug!`, which reports it
//! in release builds, too.

use super::finding::Finding;
use super::tree::{Tree, is_test_file};
use anyhow::Result;

/// The crate that reports bugs.
const REPORTER: &str = "crates/clump-bug/";

/// Reports assertions that always fail, and so are nothing in a release build.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let library = file.path.starts_with("crates/") && file.path.contains("/src/");
        if !library || file.path.starts_with(REPORTER) || is_test_file(&file.path) {
            continue;
        }
        let tests = source.test_lines();
        for (number, line) in source.lines.iter().enumerate() {
            if line.code.contains("debug_assert!(false") && !tests[number] {
                let what = "a bug that a release build does not report; use clump_bug::bug!";
                findings.push(Finding::at(&file.path, number, what));
            }
        }
    }
    Ok(findings)
}
