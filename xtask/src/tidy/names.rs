//! Meaningless names: a file, module or type named after no noun of the field.

use super::finding::Finding;
use super::tree::Tree;
use anyhow::Result;

/// Words that are never part of a name.
const NOWHERE: &[&str] = &["manager", "helper", "helpers", "util", "utils", "common"];
/// Words that are never a whole name nor its last word, where they add nothing (`RankInfo` is a
/// rank).
const NOT_LAST: &[&str] = &["data", "info"];

/// Reports files, folders, modules and types with such names.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for part in file.path.split('/') {
            let stem = part.split('.').next().unwrap_or(part);
            if let Some(word) = empty_word(stem) {
                findings.push(Finding::of(&file.path, complaint(stem, word)));
            }
        }
    }
    for (file, source) in tree.rust() {
        let names = source.declared(&["mod", "struct", "enum", "union", "trait", "type"]);
        for (line, name) in names {
            if let Some(word) = empty_word(name) {
                findings.push(Finding::at(&file.path, line, complaint(name, word)));
            }
        }
    }
    Ok(findings)
}

fn complaint(name: &str, word: &str) -> String {
    format!("`{name}` is named `{word}`, which says nothing; name the noun it is about")
}

/// Returns the meaningless word in `name`.
fn empty_word(name: &str) -> Option<&'static str> {
    let words = split(name);
    let nowhere = NOWHERE.iter().find(|banned| words.iter().any(|word| word == *banned));
    let last = NOT_LAST.iter().find(|banned| words.last().is_some_and(|word| word == *banned));
    nowhere.or(last).copied()
}

/// Returns words of a `snake_case`, `kebab-case` or `CamelCase` name, in lower case.
fn split(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for c in name.chars() {
        if c == '_' || c == '-' {
            words.push(String::new());
        } else {
            if c.is_uppercase() && lower_before {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        lower_before = c.is_lowercase() || c.is_numeric();
    }
    words
}
