//! A broken invariant never leaves in silence: it goes through `clump_bug::bug!`, which reports it
//! in release builds, too. A planted bug has exactly one place.

use super::finding::Finding;
use super::tree::{Tree, is_test_file};
use crate::mutants::{LIST, List};
use anyhow::{Context, Result};

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

/// Reports planted bugs that no longer have exactly one place, and those of files that are gone.
///
/// # Errors
/// Fails if the list is no list of planted bugs.
pub fn planted(tree: &Tree) -> Result<Vec<Finding>> {
    let Some(file) = tree.file(LIST) else { return Ok(Vec::new()) };
    let list: List = toml::from_str(&file.text).with_context(|| format!("reading {LIST}"))?;
    let mut findings = Vec::new();
    for mutant in &list.mutant {
        let planted = match tree.file(&mutant.file) {
            Some(original) => mutant.planted_in(&original.text).map(drop),
            None => Err(format!("{} is gone", mutant.file)),
        };
        if let Err(why) = planted {
            let entry = format!("name = \"{}\"", mutant.name);
            let line = file.text.lines().position(|line| line == entry).unwrap_or_default();
            findings.push(Finding::at(LIST, line, format!("{why}; adapt the planted bug")));
        }
    }
    Ok(findings)
}
