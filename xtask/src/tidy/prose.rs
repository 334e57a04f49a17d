//! Prose of comments: doc comments and descriptions in tables begin with the thing or the verb,
//! public functions that can fail document how, and comments stay within 100 columns.

use super::counted::Counted;
use super::finding::Finding;
use super::ratchet::Section;
use super::tree::{File, Tree, is_test_file};
use crate::source::Source;
use anyhow::Result;

/// Beginnings of doc comments that mean nothing in an editor's tooltip.
const BEGINNINGS: &[&str] = &[
    "What ",
    "Whether ",
    "How ",
    "Who ",
    "Whose ",
    "Whom ",
    "Where ",
    "When ",
    "The same",
    "See the module",
    "Says ",
    "See [`",
];
/// Beginnings of texts that describe a setting or an option.
const TEXT_BEGINNINGS: &[&str] = &["What ", "Whether ", "How ", "Who ", "The same"];
/// Columns of a line that holds a comment.
const COLUMNS: usize = 100;

/// Returns what this rule counts.
pub fn sections(tree: &Tree) -> Vec<Section> {
    counted(tree).iter().map(Counted::section).collect()
}

/// Reports doc comments with banned beginnings, missing `# Errors`, comments that are too wide.
///
/// # Errors
/// Fails if the ratchet cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for rule in counted(tree) {
        findings.extend(rule.findings(tree)?);
    }
    Ok(findings)
}

fn counted(tree: &Tree) -> [Counted; 3] {
    let mut beginnings = Counted::new("beginnings");
    let mut errors = Counted::new("errors");
    let mut width = Counted::new("width");
    for (file, source) in tree.rust() {
        for (number, line) in source.lines.iter().enumerate() {
            let comment = line.comment.trim();
            let whole = file.text.lines().nth(number).map_or(0, |text| text.chars().count());
            if !comment.is_empty() && whole > COLUMNS {
                width.add(
                    &file.path,
                    number,
                    format!("a comment of {whole} columns; wrap it at {COLUMNS}"),
                );
            }
            if let Some(start) = text_begins_badly(&line.text).filter(|_| !is_test_file(&file.path))
            {
                let what =
                    format!("a description begins with `{}`: begin with the thing", start.trim());
                beginnings.add(&file.path, number, what);
            }
            if let Some(start) = begins_badly(source, number) {
                let what = format!(
                    "a doc comment begins with `{}`: begin with what the thing is, or with what it does",
                    start.trim()
                );
                beginnings.add(&file.path, number, what);
            }
        }
        if !is_test_file(&file.path) && file.path.contains("/src/") {
            missing_errors(file, source, &mut errors);
        }
    }
    [beginnings, errors, width]
}

/// Returns the banned beginning of the doc comment that starts at `number`, if one starts there.
fn begins_badly(source: &Source, number: usize) -> Option<&'static str> {
    let mark = ["///", "//!"].into_iter().find(|mark| comment(source, number, mark).is_some())?;
    let text = comment(source, number, mark)?;
    if number.checked_sub(1).and_then(|before| comment(source, before, mark)).is_some() {
        return None;
    }
    BEGINNINGS.iter().find(|start| text.starts_with(*start)).copied()
}

/// Returns the banned beginning of a line's text, if the line is one sentence in quotes.
fn text_begins_badly(text: &str) -> Option<&'static str> {
    let sentence = text.trim().strip_prefix('"')?.strip_suffix(".\"")?;
    TEXT_BEGINNINGS.iter().find(|start| sentence.starts_with(*start)).copied()
}

/// Returns the text of an outer doc comment line.
fn doc(source: &Source, number: usize) -> Option<&str> {
    comment(source, number, "///")
}

/// Returns the text of a comment line that `mark` begins.
fn comment<'a>(source: &'a Source, number: usize, mark: &str) -> Option<&'a str> {
    source.lines.get(number)?.comment.trim().strip_prefix(mark).map(str::trim_start)
}

/// Counts public functions that return a `Result` and do not say in a section when they fail.
fn missing_errors(file: &File, source: &Source, errors: &mut Counted) {
    let tests = source.test_lines();
    for (number, line) in source.lines.iter().enumerate() {
        let code = line.code.trim_start();
        let public = ["pub fn ", "pub unsafe fn ", "pub const fn "]
            .iter()
            .any(|start| code.starts_with(start));
        if !public || tests[number] || !returns_result(source, number) {
            continue;
        }
        let above = (0..number).rev().take_while(|&at| is_head(source, at));
        let said = above
            .into_iter()
            .any(|at| doc(source, at).is_some_and(|text| text.starts_with("# Errors")));
        if !said {
            errors.add(&file.path, number, "a public function that can fail has no `# Errors`");
        }
    }
}

fn is_head(source: &Source, number: usize) -> bool {
    let line = &source.lines[number];
    line.comment.trim_start().starts_with("//") || line.code.trim_start().starts_with("#[")
}

/// Returns true if the signature that begins at `number` returns a `Result`.
fn returns_result(source: &Source, number: usize) -> bool {
    let mut signature = String::new();
    for line in source.lines.iter().skip(number).take(16) {
        let end = line
            .code
            .find('{')
            .or_else(|| line.code.trim_end().ends_with(';').then_some(line.code.len()));
        signature.push_str(&line.code[..end.unwrap_or(line.code.len())]);
        if end.is_some() {
            break;
        }
    }
    signature.rsplit_once("->").is_some_and(|(_, result)| {
        let result = result.trim_start();
        ["Result<", "io::Result<", "std::io::Result<", "anyhow::Result<"]
            .iter()
            .any(|start| result.starts_with(start))
    })
}
