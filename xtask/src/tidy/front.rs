//! The pages that a newcomer meets first exist, and README's two commands are the promised ones.

use super::{Finding, Tree};
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

/// What README tells a newcomer to type: see it work, see that it works. CI runs both.
pub const COMMANDS: &[&str] = &["cargo run --release -- demo", "cargo test --workspace"];

/// Missing pages and commands.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for page in PAGES.iter().filter(|page| tree.file(page).is_none()) {
        findings.push(Finding::of(page, "is missing; a newcomer looks for it"));
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

/// Lines inside ``` fences.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        inside && !fence
    })
}
