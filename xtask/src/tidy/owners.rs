//! The table of facts and their owners is true: each type that a decision names as the owner of a
//! fact is declared in the file that it names.

use super::finding::Finding;
use super::tree::Tree;
use anyhow::Result;

/// Below this, decisions with such a table: rows of `| fact | `Type`, `Type` (`crate/path.rs`) |`.
const DECISIONS: &str = "docs/adr/";

/// Reports rows whose types are declared elsewhere, or nowhere.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(DECISIONS)) {
        let table = file.text.lines().enumerate();
        let table = table.skip_while(|(_, line)| *line != "| fact | owner |").skip(2);
        for (number, row) in table.take_while(|(_, line)| line.starts_with('|')) {
            let owner = row.trim_end_matches([' ', '|']).rsplit("| ").next().unwrap_or_default();
            let (types, path) = owner.split_once(" (`").unwrap_or_default();
            let path = format!("crates/{}", path.trim_end_matches("`)"));
            for name in types.split(", ").map(|name| name.trim_matches('`')) {
                if !declares(tree, &path, name) {
                    let what = format!("`{name}` is not declared in {path}: name the fact's owner");
                    findings.push(Finding::at(&file.path, number, what));
                }
            }
        }
    }
    Ok(findings)
}

fn declares(tree: &Tree, path: &str, name: &str) -> bool {
    let mut sources = tree.rust().filter(|(file, _)| file.path == path);
    sources.any(|(_, source)| {
        let declared = source.declared(&["struct", "enum", "trait"]);
        declared.iter().any(|(_, declared)| *declared == name)
    })
}
