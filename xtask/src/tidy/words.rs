//! Words that do not belong in a finished tree: reminders, one user's paths, tests that test
//! nothing, tests that sleep, prints that panic, and atomics that a model checker cannot see.

use super::finding::Finding;
use super::tree::{Tree, is_test_file};
use crate::source::words;
use anyhow::Result;

/// Reminders; written in two halves here so that this file passes its own rule.
const REMINDERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Starts of paths that exist on one machine only.
const PRIVATE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Banned in test code: the pattern, and the remedy.
const IN_TESTS: &[(&str, &str)] = &[(
    concat!("thread::", "sleep"),
    "a test never sleeps; poll for the condition it waits for, with a generous deadline",
)];

/// Banned in all code: the pattern, and the remedy.
const IN_CODE: &[(&str, &str)] = &[
    (
        concat!("#[ig", "nore"),
        "there are no ignored tests; let it run, or return early saying what would make it run",
    ),
    (concat!("assert!(", "true"), "an assertion that cannot fail tests nothing; delete it"),
];

/// Macros that panic where the stream cannot be written, banned in what users run.
const PRINTING: [&str; 2] = ["println!(", "print!("];

/// The modules that may name the standard library's atomics.
const ATOMICS_HOMES: [&str; 2] = ["crates/clump-os/src/sync.rs", "crates/clump-bug/src/lib.rs"];

/// Crates below which atomics are shared between processes or modelled; tasks and tests are
/// elsewhere.
const ATOMICS_BANNED_BELOW: &[&str] = &["crates/", "apps/"];

/// Reports every banned word with its place.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (number, line) in file.text.lines().enumerate() {
            for reminder in REMINDERS.iter().filter(|r| words(line).any(|(_, word)| word == **r)) {
                findings.push(Finding::at(
                    &file.path,
                    number,
                    format!("{reminder}: do it now, or write it where work is planned"),
                ));
            }
            for start in PRIVATE_PATHS.iter().filter(|start| has_path(line, start)) {
                findings.push(Finding::at(
                    &file.path,
                    number,
                    format!("a path below {start} exists on one machine only; make it relative or a parameter"),
                ));
            }
        }
    }
    for (file, source) in tree.rust() {
        let test_lines = source.test_lines();
        for (number, line) in source.lines.iter().enumerate() {
            let in_test = is_test_file(&file.path) || test_lines[number];
            let banned = IN_CODE.iter().chain(IN_TESTS.iter().filter(|_| in_test));
            for (_, remedy) in banned.filter(|(word, _)| line.code.contains(word)) {
                findings.push(Finding::at(&file.path, number, *remedy));
            }
            let is_run =
                !in_test && ATOMICS_BANNED_BELOW.iter().any(|dir| file.path.starts_with(dir));
            let is_run = is_run && file.path.contains("/src/");
            if is_run && PRINTING.iter().any(|print| line.code.contains(print)) {
                findings.push(Finding::at(
                    &file.path,
                    number,
                    "it panics where the stream is full or closed; use clump_os::console",
                ));
            }
            if names_std_atomics(&file.path, &line.code) {
                findings.push(Finding::at(
                    &file.path,
                    number,
                    "the standard library's atomics are invisible to loom; use clump_os::sync",
                ));
            }
        }
    }
    Ok(findings)
}

/// Returns true if `line` holds a path that begins with `start`, rather than one that only
/// contains it.
fn has_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + start.len()..].chars().next();
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && !"._-~}/$*".contains(c));
        begins && after.is_some_and(|c| c.is_alphanumeric() || c == '.' || c == '_')
    })
}

/// Returns true if `code` names the standard library's atomics. clippy's disallowed-types sees
/// through re-exports and would ban clump_os::sync too; names do not.
fn names_std_atomics(path: &str, code: &str) -> bool {
    let banned = !ATOMICS_HOMES.contains(&path)
        && ATOMICS_BANNED_BELOW.iter().any(|dir| path.starts_with(dir));
    let named = code.contains("std::sync::atomic") || code.contains("core::sync::atomic");
    // Fences of clump-os are compiler and processor fences, which loom replaces by its own there.
    banned && named && !code.contains("atomic::fence") && !code.contains("atomic::compiler_fence")
}
