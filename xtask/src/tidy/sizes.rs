//! Files and functions stay readable. Those that are already too large are in the ratchet.

use super::finding::Finding;
use super::ratchet::{self, Section, Sizes};
use super::tree::Tree;
use anyhow::Result;

/// Lines a file may have: 100 to 350 is the aim, past 500 it holds more than one noun.
const FILE_LINES: usize = 500;
/// Lines of code a function body may have, without blanks and comments.
const FUNCTION_LINES: usize = 70;

/// Returns what this rule counts.
pub fn sections(tree: &Tree) -> Vec<Section> {
    vec![
        Section { name: "files", limit: FILE_LINES, now: files(tree) },
        Section { name: "functions", limit: FUNCTION_LINES, now: functions(tree) },
    ]
}

/// Reports sizes above the limit and above the ratchet, and ratchet entries that are too high.
///
/// # Errors
/// Fails if the ratchet cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let allowed = ratchet::read(tree)?;
    let mut findings = Vec::new();
    let remedies =
        ["split it by noun, one file each", "give its parts names, as functions below it"];
    for (section, remedy) in sections(tree).iter().zip(remedies) {
        for (key, size, was) in ratchet::exceeded(section, &allowed) {
            let limit = section.limit;
            let what = match was {
                None => format!("{size} lines, the limit is {limit}; {remedy}"),
                Some(was) => {
                    format!("grew from {was} to {size} lines, the limit is {limit}; {remedy}")
                }
            };
            findings.push(Finding::of(key, what));
        }
        findings.extend(ratchet::slack(section, &allowed));
    }
    Ok(findings)
}

fn files(tree: &Tree) -> Sizes {
    let code = tree.files.iter().filter(|f| f.path.ends_with(".rs") || f.path.ends_with(".py"));
    code.map(|file| (file.path.clone(), file.text.lines().count())).collect()
}

fn functions(tree: &Tree) -> Sizes {
    let mut sizes = Sizes::new();
    for (file, source) in tree.rust() {
        for function in source.functions() {
            // Functions of one name in one file share an entry: the largest counts.
            let size = sizes.entry(format!("{}::{}", file.path, function.name)).or_default();
            *size = function.body_lines.max(*size);
        }
    }
    sizes
}
