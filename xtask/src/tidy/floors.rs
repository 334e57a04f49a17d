//! A file is a room, not a shelf: few files are so short that a reader only passes through.

use super::finding::Finding;
use super::ratchet::{self, Section, Sizes};
use super::tree::{Tree, is_test_file};
use anyhow::Result;

/// Lines from which on a file stands by itself.
const LINES: usize = 40;

/// Returns what this rule counts: short files of libraries, by crate. A crate's root may be short.
pub fn sections(tree: &Tree) -> Vec<Section> {
    let mut now = Sizes::new();
    for item in &tree.crates {
        let below = format!("{}/src/", item.dir);
        let short = tree.rust().filter(|(file, _)| {
            let path = file.path.strip_prefix(&below);
            let root = matches!(path, Some("lib.rs" | "main.rs"));
            path.is_some()
                && !root
                && !is_test_file(&file.path)
                && file.text.lines().count() < LINES
        });
        now.insert(item.dir.clone(), short.count());
    }
    vec![Section { name: "short files", limit: 0, now }]
}

/// Reports crates with more short files than the ratchet allows.
///
/// # Errors
/// Fails if the ratchet cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let allowed = ratchet::read(tree)?;
    let mut findings = Vec::new();
    for section in sections(tree) {
        findings.extend(ratchet::slack(&section, &allowed));
        for (dir, files, was) in ratchet::exceeded(&section, &allowed) {
            let what = format!(
                "{files} files of fewer than {LINES} lines ({} allowed): let what they hold be \
                 where it is used",
                was.unwrap_or(0)
            );
            findings.push(Finding::of(dir, what));
        }
    }
    Ok(findings)
}
