//! Release and acquire sides name each other: `SYNC n: pairs with <function>`, and the function exists.

use super::{Finding, Tree};
use crate::source::words;
use anyhow::Result;
use std::collections::BTreeSet;

const FORM: &str = "write `// SYNC n: pairs with <function>`, so that both sides can be found";

/// Malformed marks, and marks that name a function nobody wrote.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let functions: BTreeSet<String> =
        tree.rust().flat_map(|(_, s)| s.functions()).map(|f| f.name).collect();
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        for (number, line) in source.lines.iter().enumerate() {
            let comment = line.comment.trim();
            let doc = comment.starts_with("///") || comment.starts_with("//!");
            let Some(at) = comment.find("SYNC ").filter(|_| !doc) else { continue };
            // The mark may run over the end of its line.
            let next = source.lines.get(number + 1).map_or("", |l| l.comment.trim());
            let rest = format!("{} {}", &comment[at + 5..], next.trim_start_matches('/').trim());
            match partner(&rest) {
                None => findings.push(Finding::at(&file.path, number, FORM)),
                Some(name) if !functions.contains(&name) => findings.push(Finding::at(
                    &file.path,
                    number,
                    format!("pairs with `{name}`, which is no function of this tree; {FORM}"),
                )),
                Some(_) => {}
            }
        }
    }
    Ok(findings)
}

/// The function named by `3: pairs with `Type::function` ...`.
fn partner(mark: &str) -> Option<String> {
    let (number, rest) = mark.split_once(':')?;
    let digits = number.trim();
    if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    let (_, named) = rest.split_once("pairs with ")?;
    // `lane::Sender::push` names push; a sentence may go on after it.
    let named = named.trim_start_matches(['`', '[', '<', ' ']);
    let path: String =
        named.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect();
    words(&path).last().map(|(_, word)| word.to_owned())
}
