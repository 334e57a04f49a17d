//! The first pages for a newcomer exist, and README's two commands are the promised ones.

use super::finding::Finding;
use super::tree::Tree;
use anyhow::Result;

/// Pages at the root.
const PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "BENCHMARKS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];

/// The map of the code, and its most lines: what is more goes to docs/design.
const MAP: &str = "ARCHITECTURE.md";
const MAX_LINES: usize = 250;

/// Commands that README gives a newcomer: a demonstration, and the tests. CI runs both.
pub const COMMANDS: &[&str] = &["cargo run --release -- demo", "cargo test --workspace"];

/// Reports missing pages and commands.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for page in PAGES.iter().filter(|page| tree.file(page).is_none()) {
        findings.push(Finding::of(page, "is missing; a newcomer looks for it"));
    }
    if let Some(lines) = tree.file(MAP).map(|map| map.text.lines().count())
        && lines > MAX_LINES
    {
        let what = format!("has {lines} lines, more than {MAX_LINES}: subjects go to docs/design");
        findings.push(Finding::of(MAP, what));
    }
    if let Some(readme) = tree.file("README.md") {
        for command in COMMANDS {
            if !fenced(&readme.text).any(|line| line.trim_start_matches("$ ").trim() == *command) {
                let what = format!("does not show `{command}` on a line of a code block");
                findings.push(Finding::of(&readme.path, what));
            }
        }
    }
    Ok(findings)
}

/// Returns lines inside ``` fences.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        inside && !fence
    })
}
