//! One type, one name: no type that other files use has its name twice in a layer, in small or
//! capital letters, and none has a name that does not tell what it is a kind of.

use super::finding::Finding;
use super::layers::layer_of;
use super::tree::{Tree, is_test_file};
use anyhow::Result;
use std::collections::BTreeMap;

/// Names that are too general.
const TOO_WIDE: &[&str] =
    &["Way", "Place", "Kind", "Link", "Interface", "Sort", "Outcome", "Thing"];
/// Names that every library crate may have once.
const SHARED: &[&str] = &["Error", "Result", "ErrorKind"];

/// Reports type names that occur twice in a layer, or say too little.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut seen: BTreeMap<(i64, String), (String, usize)> = BTreeMap::new();
    for item in &tree.crates {
        let Some(layer) = layer_of(item) else { continue };
        let below = format!("{}/src/", item.dir);
        for (file, source) in tree.rust().filter(|(f, _)| f.path.starts_with(&below)) {
            if is_test_file(&file.path) {
                continue;
            }
            let tests = source.test_lines();
            for (line, name) in source.declared(&["struct", "enum", "union", "trait", "type"]) {
                let code = source.lines[line].code.as_str();
                if tests[line] || code.starts_with(' ') {
                    continue;
                }
                if TOO_WIDE.contains(&name) {
                    let what = format!("`{name}` leaves open what of; say so in the name");
                    findings.push(Finding::at(&file.path, line, what));
                }
                if !code.starts_with("pub") || SHARED.contains(&name) {
                    continue;
                }
                let place = (file.path.clone(), line);
                if let Some((path, first)) = seen.insert((layer, name.to_lowercase()), place) {
                    let what = format!(
                        "`{name}` is also a type at {path}:{}, in the same layer; one name, one type",
                        first + 1
                    );
                    findings.push(Finding::at(&file.path, line, what));
                }
            }
        }
    }
    Ok(findings)
}
