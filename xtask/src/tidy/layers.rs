//! Dependencies between crates point down only: a crate names its layer, and depends on strictly
//! lower ones.

use super::finding::Finding;
use super::tree::{Crate, Tree};
use anyhow::Result;
use std::collections::BTreeMap;

/// Layer of crates that join others for tests and tasks. Nothing may depend on them, so their own
/// dependencies cannot make cycles.
const TOP: i64 = 9;

/// Returns the layer that a crate's manifest names.
pub fn layer_of(item: &Crate) -> Option<i64> {
    item.manifest.get("package")?.get("metadata")?.get("clump")?.get("layer")?.as_integer()
}

/// Reports missing layers, and dependencies that point up or sideways.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut layers = BTreeMap::new();
    for item in &tree.crates {
        match layer_of(item) {
            Some(number) => {
                layers.insert(item.name.as_str(), number);
            }
            None => findings.push(Finding::of(
                &format!("{}/Cargo.toml", item.dir),
                "names no layer; add `layer = N` under [package.metadata.clump] (ARCHITECTURE.md)",
            )),
        }
    }
    for item in &tree.crates {
        let Some(&from) = layers.get(item.name.as_str()) else { continue };
        for (name, table) in dependencies(&item.manifest) {
            let Some(&to) = layers.get(name.as_str()) else { continue };
            // Tests of any crate may stand on the test bed, which is never part of it.
            let bed = table == "dev-dependencies" && is_test_bed(tree, &name);
            let exempt = (from == TOP && to < TOP) || bed;
            if to >= from && !exempt {
                findings.push(Finding::of(
                    &format!("{}/Cargo.toml", item.dir),
                    format!(
                        "{} (layer {from}) may not depend on {name} (layer {to}) in [{table}]: arrows \
                         point down only; move what both need into a lower crate, or join them above",
                        item.name
                    ),
                ));
            }
        }
    }
    Ok(findings)
}

/// Returns true if a crate's manifest says `test-bed = true`.
fn is_test_bed(tree: &Tree, name: &str) -> bool {
    let marked = |item: &Crate| {
        let own = item.manifest.get("package")?.get("metadata")?.get("clump")?;
        own.get("test-bed")?.as_bool()
    };
    tree.crates.iter().any(|item| item.name == name && marked(item) == Some(true))
}

/// Returns every dependency of a manifest by package name, with the table that holds it.
fn dependencies(manifest: &toml::Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        found.extend(packages(manifest.get(kind), kind));
        let targets = manifest.get("target").and_then(|t| t.as_table());
        for (target, tables) in targets.into_iter().flatten() {
            found.extend(packages(tables.get(kind), &format!("target.{target}.{kind}")));
        }
    }
    found
}

fn packages(table: Option<&toml::Value>, name: &str) -> Vec<(String, String)> {
    let entries = table.and_then(|t| t.as_table()).into_iter().flatten();
    entries
        .map(|(key, value)| {
            let package = value.get("package").and_then(|p| p.as_str()).unwrap_or(key);
            (package.to_owned(), name.to_owned())
        })
        .collect()
}
