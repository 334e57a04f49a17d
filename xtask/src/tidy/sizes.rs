//! Files and functions stay readable. What is already too large stands in `xtask/tidy-ratchet.toml` with
//! its number, which may only shrink.

use super::{Finding, Tree};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Lines a file may have: 100 to 350 is the aim, past 500 it holds more than one noun.
const FILE_LINES: usize = 500;
/// Lines of code a function body may have, without blanks and comments.
const FUNCTION_LINES: usize = 70;
/// Where excesses are written down.
pub const RATCHET: &str = "xtask/tidy-ratchet.toml";

/// Size by key: a path for a file, `path::function` for a function.
type Sizes = BTreeMap<String, usize>;

/// The ratchet file.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    #[serde(default)]
    files: Sizes,
    #[serde(default)]
    functions: Sizes,
}

/// Sizes above the limit and above the ratchet, and ratchet entries that are too high.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let allowed = allowed(tree)?;
    let mut findings = Vec::new();
    let remedy = "split it by noun, one file each";
    compare(&files(tree), &allowed.files, FILE_LINES, remedy, &mut findings);
    let remedy = "give its parts names, as functions below it";
    compare(&functions(tree), &allowed.functions, FUNCTION_LINES, remedy, &mut findings);
    Ok(findings)
}

/// Rewrites the ratchet with every entry that shrank; adds none and raises none.
pub fn lower(root: &Path, tree: &Tree) -> Result<()> {
    let old = allowed(tree)?;
    let new = Allowed {
        files: lowered(&old.files, &files(tree), FILE_LINES),
        functions: lowered(&old.functions, &functions(tree), FUNCTION_LINES),
    };
    if new == old {
        return Ok(());
    }
    let head = "# Sizes above the limits of xtask/src/tidy/sizes.rs. Numbers here may only shrink;\n\
                # `cargo xtask tidy --lower` takes smaller ones in.\n\n";
    let path = root.join(RATCHET);
    std::fs::write(&path, format!("{head}{}", toml::to_string(&new)?))
        .with_context(|| format!("writing {}", path.display()))
}

fn lowered(old: &Sizes, now: &Sizes, limit: usize) -> Sizes {
    let kept = old.iter().filter_map(|(key, &was)| {
        let size = now.get(key).copied()?.min(was);
        (size > limit).then(|| (key.clone(), size))
    });
    kept.collect()
}

fn allowed(tree: &Tree) -> Result<Allowed> {
    match tree.file(RATCHET) {
        Some(file) => toml::from_str(&file.text).with_context(|| format!("reading {RATCHET}")),
        None => Ok(Allowed::default()),
    }
}

fn files(tree: &Tree) -> Sizes {
    let code = tree.files.iter().filter(|f| f.path.ends_with(".rs") || f.path.ends_with(".py"));
    code.map(|file| (file.path.clone(), file.text.lines().count())).collect()
}

fn functions(tree: &Tree) -> Sizes {
    let mut sizes = Sizes::new();
    for (file, source) in tree.rust() {
        for function in source.functions() {
            // Functions of one name in one file share an entry: the largest counts.
            let size = sizes.entry(format!("{}::{}", file.path, function.name)).or_default();
            *size = function.body_lines.max(*size);
        }
    }
    sizes
}

fn compare(now: &Sizes, allowed: &Sizes, limit: usize, remedy: &str, findings: &mut Vec<Finding>) {
    for (key, &size) in now.iter().filter(|(_, size)| **size > limit) {
        match allowed.get(key) {
            None => findings
                .push(Finding::of(key, format!("{size} lines, the limit is {limit}; {remedy}"))),
            Some(&was) if size > was => findings.push(Finding::of(
                key,
                format!("grew from {was} to {size} lines, the limit is {limit}; {remedy}"),
            )),
            Some(_) => {}
        }
    }
    for (key, &was) in allowed {
        let size = now.get(key).copied().unwrap_or(0);
        if size < was {
            findings.push(Finding::of(
                RATCHET,
                format!("{key} shrank from {was} to {size} lines; run `cargo xtask tidy --lower`"),
            ));
        }
    }
}
