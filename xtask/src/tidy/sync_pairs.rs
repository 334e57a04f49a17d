//! Release and acquire sides name each other: `SYNC n: pairs with <function>`. The function exists
//! in the same crate, and holds a mark of the same number; so every edge can be followed both
//! ways.

use super::finding::Finding;
use super::tree::Tree;
use crate::source::{Source, words};
use anyhow::Result;

const FORM: &str = "write `// SYNC n: pairs with <function>`, so that both sides can be found";

/// One mark.
struct Mark<'a> {
    path: &'a str,
    line: usize,
    /// Folder of the crate: numbers are a crate's own.
    home: &'a str,
    number: String,
    /// The function that holds it.
    holder: String,
    /// The function that it names.
    partner: String,
}

/// Reports malformed marks, and marks whose other side is missing.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let (mut marks, mut findings) = (Vec::new(), Vec::new());
    for (file, source) in tree.rust() {
        let home = file.path.split_once("/src/").map_or(file.path.as_str(), |(home, _)| home);
        for (line, text) in texts(source) {
            match parse(&text) {
                None => findings.push(Finding::at(&file.path, line, FORM)),
                Some((number, partner)) => {
                    let holder = enclosing(source, line);
                    marks.push(Mark { path: &file.path, line, home, number, holder, partner });
                }
            }
        }
    }
    for mark in &marks {
        let answered = marks.iter().any(|other| {
            other.home == mark.home && other.number == mark.number && other.holder == mark.partner
        });
        if !answered {
            findings.push(Finding::at(
                mark.path,
                mark.line,
                format!(
                    "SYNC {} pairs with `{}`, but no function of that name in {} holds a mark SYNC {}; {FORM}",
                    mark.number, mark.partner, mark.home, mark.number
                ),
            ));
        }
    }
    Ok(findings)
}

/// Returns the text behind `SYNC ` in each comment that has it, with the line; a mark may run over
/// one line end.
fn texts(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in source.lines.iter().enumerate() {
        let comment = line.comment.trim();
        let doc = comment.starts_with("///") || comment.starts_with("//!");
        let Some(at) = comment.find("SYNC ").filter(|_| !doc) else { continue };
        let next = source.lines.get(number + 1).map_or("", |l| l.comment.trim());
        let text = format!("{} {}", &comment[at + 5..], next.trim_start_matches('/').trim());
        found.push((number, text));
    }
    found
}

/// Parses number and function of ``3: pairs with `Type::function` ...``.
fn parse(mark: &str) -> Option<(String, String)> {
    let (number, rest) = mark.split_once(':')?;
    let number = number.trim();
    if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let (_, named) = rest.split_once("pairs with ")?;
    // `lane::Sender::push` names push; a sentence may go on after it.
    let named = named.trim_start_matches(['`', '[', '<', ' ']);
    let path: String =
        named.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect();
    let (_, function) = words(&path).last()?;
    Some((number.to_owned(), function.to_owned()))
}

/// Returns the innermost function around `line`, empty outside of all.
fn enclosing(source: &Source, line: usize) -> String {
    let around = source.functions().into_iter().filter(|f| f.line <= line && line <= f.last);
    around.max_by_key(|f| f.line).map_or_else(String::new, |f| f.name)
}
