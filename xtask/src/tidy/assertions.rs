//! Invariants are asserted in the code: crates of the protocol have about one and a half
//! assertions per function. Functions of up to three lines do not count: an accessor has no
//! state that its caller does not have, and the functions that change the state assert it.

use super::finding::Finding;
use super::ratchet::{self, Section, Sizes};
use super::tree::{Tree, is_test_file};
use crate::source::Function;
use anyhow::Result;

/// Crates whose broken invariants would lose or duplicate messages or writes, or end the wrong job.
const CRATES: &[&str] = &[
    "crates/clump-control",
    "crates/clump-hlrc",
    "crates/clump-proto",
    "crates/clump-net",
    "crates/clump-shm",
    "crates/clump-onesided",
    "crates/clump-rma",
    "crates/clump-transport",
    "crates/clump-am",
    "crates/clump-agent",
    "crates/clump-coll",
    "crates/clump-conn",
    "crates/clump-interface",
    "crates/clump-pgas",
    "crates/clump-svm",
];

/// Lines of the body from which on a function counts.
const LINES: usize = 4;

/// Returns what this rule counts: assertions that are missing, by crate.
pub fn sections(tree: &Tree) -> Vec<Section> {
    let mut now = Sizes::new();
    for dir in CRATES {
        let (mut functions, mut assertions) = (0, 0);
        let below = format!("{dir}/src/");
        for (file, source) in tree.rust().filter(|(f, _)| f.path.starts_with(&below)) {
            if is_test_file(&file.path) {
                continue;
            }
            let tests = source.test_lines();
            let counts = |f: &&Function| !tests[f.line] && f.body_lines >= LINES;
            functions += source.functions().iter().filter(counts).count();
            let lines = source.lines.iter().zip(&tests).filter(|(_, test)| !**test);
            let counts =
                |code: &str| code.matches("assert").count() + code.matches("bug!(").count();
            assertions += lines.map(|(line, _)| counts(&line.code)).sum::<usize>();
        }
        now.insert((*dir).to_owned(), (functions * 3 / 2).saturating_sub(assertions));
    }
    vec![Section { name: "assertions", limit: 0, now }]
}

/// Reports crates in which more assertions are missing than the ratchet allows.
///
/// # Errors
/// Fails if the ratchet cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let allowed = ratchet::read(tree)?;
    let mut findings = Vec::new();
    for section in sections(tree) {
        findings.extend(ratchet::slack(&section, &allowed));
        for (key, size, was) in ratchet::exceeded(&section, &allowed) {
            let what = format!(
                "{size} assertions short of one and a half a function ({} allowed): assert preconditions and results",
                was.unwrap_or(0)
            );
            findings.push(Finding::of(key, what));
        }
    }
    Ok(findings)
}
