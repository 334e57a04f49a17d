//! Numbers that may only shrink: the breaches that existed when a rule was introduced, by key, in
//! `xtask/tidy-ratchet.toml`.
//!
//! A rule passes its current counts ([`Sizes`]); [`compare`] turns excesses over limit and ratchet
//! into findings. `cargo xtask tidy --lower` stores smaller numbers and adds none.

use super::finding::Finding;
use super::tree::Tree;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// File of the numbers.
pub const RATCHET: &str = "xtask/tidy-ratchet.toml";

/// Number by key: a path, `path::function`, or a crate.
pub type Sizes = BTreeMap<String, usize>;

/// Numbers of every rule, by its section of the file.
pub type Sections = BTreeMap<String, Sizes>;

/// One section: its name, the largest number that is no breach, and the current counts.
#[derive(Debug)]
pub struct Section {
    /// Name in the file.
    pub name: &'static str,
    /// Largest number that needs no entry.
    pub limit: usize,
    /// Numbers of the tree.
    pub now: Sizes,
}

/// Reads the ratchet of `tree`; empty where there is no file.
///
/// # Errors
/// Fails if the file is no table of tables of numbers.
pub fn read(tree: &Tree) -> Result<Sections> {
    match tree.file(RATCHET) {
        Some(file) => toml::from_str(&file.text).with_context(|| format!("reading {RATCHET}")),
        None => Ok(Sections::new()),
    }
}

/// Returns keys above both the limit and their entry, as (key, number, entry).
pub fn exceeded<'a>(
    section: &'a Section,
    allowed: &'a Sections,
) -> impl Iterator<Item = (&'a str, usize, Option<usize>)> {
    let old = allowed.get(section.name);
    section.now.iter().filter_map(move |(key, &size)| {
        let was = old.and_then(|old| old.get(key)).copied();
        (size > section.limit && was.is_none_or(|was| size > was)).then_some((
            key.as_str(),
            size,
            was,
        ))
    })
}

/// Returns a finding for each entry that is higher than the tree's number.
pub fn slack(section: &Section, allowed: &Sections) -> Vec<Finding> {
    let old = allowed.get(section.name).into_iter().flatten();
    let shrunk = old.filter_map(|(key, &was)| {
        let size = section.now.get(key).copied().unwrap_or(0);
        let what = format!(
            "{}: {key} shrank from {was} to {size}; run `cargo xtask tidy --lower`",
            section.name
        );
        (size < was).then(|| Finding::of(RATCHET, what))
    });
    shrunk.collect()
}

/// Rewrites the file with every entry that shrank; adds none and raises none.
///
/// # Errors
/// Fails if the file cannot be read or written.
pub fn lower(root: &Path, tree: &Tree, sections: &[Section]) -> Result<()> {
    let old = read(tree)?;
    let mut new = Sections::new();
    for section in sections {
        let Some(entries) = old.get(section.name) else { continue };
        let kept = entries.iter().filter_map(|(key, &was)| {
            let size = section.now.get(key).copied()?.min(was);
            (size > section.limit).then(|| (key.clone(), size))
        });
        let kept: Sizes = kept.collect();
        if !kept.is_empty() {
            new.insert(section.name.to_owned(), kept);
        }
    }
    if new == old {
        return Ok(());
    }
    let head = "# Numbers above the limits of the rules in xtask/src/tidy. They may only shrink;\n\
                # `cargo xtask tidy --lower` takes smaller ones in.\n\n";
    let path = root.join(RATCHET);
    std::fs::write(&path, format!("{head}{}", toml::to_string(&new)?))
        .with_context(|| format!("writing {}", path.display()))
}
