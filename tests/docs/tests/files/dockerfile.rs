//! Files for building images: known instructions, and what `RUN` runs.

use super::{Verdict, shell};
use anyhow::{Result, ensure};
use clump_docs_tests::page::Block;

/// Instructions of the reference of Dockerfile but those that are deprecated.
const INSTRUCTIONS: &[&str] = &[
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Reads a file for building an image: each instruction is known and has arguments, the first names
/// an image, and a shell takes what `RUN` says.
///
/// # Errors
/// Fails if one is wrong.
pub fn read(block: &Block) -> Result<Verdict> {
    let mut first = true;
    let mut lines = block.lines.iter().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut text = line.clone();
        while text.ends_with('\\') {
            text.pop();
            text.push_str(lines.next().map_or("", |(_, line)| line));
        }
        let place = block.line + 1 + at;
        let (name, arguments) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        ensure!(INSTRUCTIONS.contains(&name), "line {place}: no instruction is called `{name}`");
        ensure!(!arguments.trim().is_empty(), "line {place}: {name} says nothing");
        ensure!(!first || ["FROM", "ARG"].contains(&name), "line {place}: FROM comes first");
        first = false;
        if name == "RUN" && !arguments.starts_with('[') {
            shell::syntax(&format!("{}{arguments}\n", "\n".repeat(place - 1)))?;
        }
    }
    ensure!(!first, "no instruction");
    Ok(Verdict::Right)
}

#[test]
fn wrong_instructions_are_refused() {
    use super::{accepted, refused};
    accepted("dockerfile", "# image\nFROM debian\nRUN true \\\n && false\nCOPY a /b");
    refused("dockerfile", "FROM debian\nRUM true", "line 5: no instruction is called `RUM`");
    refused("dockerfile", "RUN true", "FROM comes first");
    refused("dockerfile", "FROM debian\nUSER", "USER says nothing");
    refused("dockerfile", "FROM debian\nRUN true \\\n && && true", "");
    refused("dockerfile", "", "no instruction");
}
