//! `cargo xtask tidy`: house rules that neither the compiler nor clippy can check.
//!
//! Each rule is one module with one function `check(&Tree) -> Vec<Finding>`; a finding names the
//! place, the defect and the remedy. To add a rule, add a module and a line in [`RULES`].

mod assertions;
mod bugs;
mod circles;
mod counted;
mod finding;
mod floors;
mod front;
mod glossary;
mod heads;
mod layers;
mod links;
mod methods;
mod names;
mod owners;
mod prose;
mod ratchet;
mod sizes;
mod sync_pairs;
#[cfg(test)]
mod tests;
mod threads;
mod tree;
mod type_names;
mod unrun;
mod words;

use anyhow::Result;
pub use finding::Finding;
use std::path::Path;
pub use tree::Tree;

/// The treatment of sizes that shrank below the ratchet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ratchet {
    /// Report it.
    Compare,
    /// Store the smaller number in the ratchet file.
    Lower,
}

/// A rule: its name and its function.
type Rule = (&'static str, fn(&Tree) -> Result<Vec<Finding>>);

/// Every rule.
const RULES: &[Rule] = &[
    ("layers", layers::check),
    ("sizes", sizes::check),
    ("words", words::check),
    ("names", names::check),
    ("type names", type_names::check),
    ("glossary", glossary::check),
    ("prose", prose::check),
    ("assertions", assertions::check),
    ("circles", circles::check),
    ("heads", heads::check),
    ("sync pairs", sync_pairs::check),
    ("front pages", front::check),
    ("links", links::check),
    ("unrun tests", unrun::check),
    ("threads", threads::check),
    ("bugs", bugs::check),
    ("floors", floors::check),
    ("methods", methods::check),
    ("owners", owners::check),
    ("planted bugs", bugs::planted),
];

/// Checks the tree at `root` and prints the findings; returns true if there are none.
///
/// # Errors
/// Fails if the tree or the ratchet cannot be read, or the ratchet cannot be written.
pub fn run(root: &Path, ratchet: Ratchet) -> Result<bool> {
    let tree = Tree::read(root)?;
    if ratchet == Ratchet::Lower {
        let mut sections = sizes::sections(&tree);
        sections.extend(glossary::sections(&tree));
        sections.extend(prose::sections(&tree));
        sections.extend(assertions::sections(&tree));
        sections.extend(circles::sections(&tree));
        sections.extend(floors::sections(&tree));
        sections.extend(methods::sections(&tree));
        ratchet::lower(root, &tree, &sections)?;
    }
    let findings = findings(&tree)?;
    for finding in &findings {
        println!("{finding}");
    }
    let files = tree.files.len();
    println!("tidy: {files} files, {} rules, {} findings", RULES.len(), findings.len());
    Ok(findings.is_empty())
}

/// Returns all findings in reading order.
///
/// # Errors
/// Fails if the ratchet cannot be read.
pub fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let mut all = Vec::new();
    for (_, check) in RULES {
        all.extend(check(tree)?);
    }
    all.sort();
    all.dedup();
    Ok(all)
}
