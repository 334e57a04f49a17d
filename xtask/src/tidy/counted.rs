//! Rules that count breaches per crate against the ratchet, so that a rule can be introduced
//! before its last breach is fixed.

use super::finding::Finding;
use super::ratchet::{self, Section, Sizes};
use super::tree::Tree;
use anyhow::Result;
use std::collections::BTreeMap;

/// Breaches that are printed when a crate has more of them than its entry allows.
const MAX_SHOWN: usize = 12;

/// Breaches of one rule, by crate.
#[derive(Debug)]
pub struct Counted {
    name: &'static str,
    places: BTreeMap<String, Vec<Finding>>,
}

impl Counted {
    /// Creates a rule without breaches; `name` is its section of the ratchet.
    pub fn new(name: &'static str) -> Self {
        Self { name, places: BTreeMap::new() }
    }

    /// Counts a breach at `line` (from 0) of `path`.
    pub fn add(&mut self, path: &str, line: usize, what: impl Into<String>) {
        self.places.entry(owner(path)).or_default().push(Finding::at(path, line, what));
    }

    /// Returns the numbers by crate.
    pub fn section(&self) -> Section {
        let now: Sizes = self.places.iter().map(|(key, all)| (key.clone(), all.len())).collect();
        Section { name: self.name, limit: 0, now }
    }

    /// Returns the breaches of every crate with more of them than its entry, and entries that are
    /// too high.
    ///
    /// # Errors
    /// Fails if the ratchet cannot be read.
    pub fn findings(&self, tree: &Tree) -> Result<Vec<Finding>> {
        let allowed = ratchet::read(tree)?;
        let section = self.section();
        let mut findings = ratchet::slack(&section, &allowed);
        for (key, size, was) in ratchet::exceeded(&section, &allowed) {
            let shown = self.places.get(key).into_iter().flatten().take(MAX_SHOWN).cloned();
            findings.extend(shown);
            if let Some(was) = was {
                let what = format!("{}: {size} of them in all, {was} are allowed", self.name);
                findings.push(Finding::of(key, what));
            }
        }
        Ok(findings)
    }
}

/// Returns the crate (or first folder, or file at the root) that a path belongs to.
fn owner(path: &str) -> String {
    let depth =
        if ["crates/", "apps/", "tests/"].iter().any(|dir| path.starts_with(dir)) { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}
