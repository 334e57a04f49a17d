//! State is cut by what owns it: no type has so many methods, or has them in so many files, that it
//! is several types; and its files do not call each other in circles through `self`.

use super::circles::{Graph, circles};
use super::finding::Finding;
use super::ratchet::{self, Section, Sizes};
use super::tree::{Tree, is_test_file};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Methods that a type may have, and files that hold them.
const METHODS: usize = 40;
const FILES: usize = 4;

/// Methods of a type: by file, their names and the code of their blocks.
type Owned = BTreeMap<String, (BTreeSet<String>, String)>;

/// Returns what this rule counts, by type: methods, files of them, and files that call each other
/// in circles.
pub fn sections(tree: &Tree) -> Vec<Section> {
    let (mut methods, mut files, mut in_circles) = (Sizes::new(), Sizes::new(), Sizes::new());
    for item in &tree.crates {
        for (name, owned) in types(tree, &item.dir) {
            let key = format!("{}::{name}", item.dir);
            methods.insert(key.clone(), owned.values().map(|(names, _)| names.len()).sum());
            files.insert(key.clone(), owned.len());
            in_circles.insert(key, circles(&calls(&owned)).iter().map(Vec::len).sum());
        }
    }
    vec![
        Section { name: "methods", limit: METHODS, now: methods },
        Section { name: "files of methods", limit: FILES, now: files },
        Section { name: "circles of methods", limit: 0, now: in_circles },
    ]
}

/// Reports types that exceed the limits and the ratchet.
///
/// # Errors
/// Fails if the ratchet cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let allowed = ratchet::read(tree)?;
    let mut findings = Vec::new();
    for section in sections(tree) {
        findings.extend(ratchet::slack(&section, &allowed));
        for (name, size, was) in ratchet::exceeded(&section, &allowed) {
            let what = format!(
                "{size} {} ({} allowed): cut its state by what owns it",
                section.name,
                was.unwrap_or(section.limit)
            );
            findings.push(Finding::of(name, what));
        }
    }
    Ok(findings)
}

/// Returns the types of the crate in `dir` that have methods of their own, tests apart.
fn types(tree: &Tree, dir: &str) -> BTreeMap<String, Owned> {
    let below = format!("{dir}/src/");
    let mut found: BTreeMap<String, Owned> = BTreeMap::new();
    for (file, source) in tree.rust().filter(|(f, _)| f.path.starts_with(&below)) {
        let tests = source.test_lines();
        if is_test_file(&file.path) {
            continue;
        }
        let functions = source.functions();
        for block in source.inherent_impls() {
            if tests[block.first] {
                continue;
            }
            let owned = found.entry(block.type_name).or_default();
            let (names, code) = owned.entry(file.path.clone()).or_default();
            let inside = |line: usize| block.first < line && line < block.last;
            names.extend(functions.iter().filter(|f| inside(f.line)).map(|f| f.name.clone()));
            let lines = source.lines.get(block.first..block.last).unwrap_or_default();
            lines.iter().for_each(|line| code.extend([line.code.as_str(), "\n"]));
        }
    }
    found
}

/// Returns which files of a type call methods in which others.
fn calls(owned: &Owned) -> Graph {
    let mut graph = Graph::new();
    for (file, (own, code)) in owned {
        let used = graph.entry(file.clone()).or_default();
        for (other, (names, _)) in owned.iter().filter(|(other, _)| *other != file) {
            let calls = |name: &String| {
                !own.contains(name)
                    && (code.contains(&format!("self.{name}("))
                        || code.contains(&format!("Self::{name}(")))
            };
            if names.iter().any(calls) {
                used.insert(other.clone());
            }
        }
    }
    graph
}
