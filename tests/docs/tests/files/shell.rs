//! Scripts and command lines, by `sh -n`.

use super::{Verdict, fed, padded};
use anyhow::Result;
use clump_docs_tests::page::{Block, Page};
use clump_docs_tests::printed::of_blocks;
use std::process::Command;

/// Reads a script without running it.
///
/// # Errors
/// Fails if its syntax is wrong.
pub fn syntax(script: &str) -> Result<Verdict> {
    fed(Command::new("sh").arg("-n"), script)?;
    Ok(Verdict::Right)
}

/// Reads a block that is a script.
pub fn script(_: &Page, block: &Block) -> Result<Verdict> {
    syntax(&padded(block))
}

/// Reads the command lines of a block that shows them, behind `$ `, with their output.
pub fn commands(page: &Page, block: &Block) -> Result<Verdict> {
    let all = of_blocks(page);
    let lines = all.iter().filter(|line| line.block == Some(block.line));
    lines.map(|line| syntax(&line.text)).find(Result::is_err).unwrap_or(Ok(Verdict::Right))
}

#[test]
fn syntax_errors_of_scripts_are_refused() {
    super::accepted("sh", "for i in 1 2; do\n    echo $i\ndone");
    super::refused("sh", "true\nif true; then\n    echo a", "");
    super::refused("sh", "echo 'a", "");
    super::accepted("", "$ echo (\n".replace('(', "a").as_str());
    super::refused("", "$ echo (\nany (output", "");
}
