//! Pages: their fenced blocks, and what a snippet takes for given.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Beginning of the comment in front of a snippet that declares what it takes for given: parameters
/// in Rust, declarations in C and C++. A browser does not show it.
const GIVEN: &str = "<!-- given:";
/// First characters of the lines that open and close a block.
pub const FENCE: &str = "```";

/// Fenced block of a page.
#[derive(Debug, Clone)]
pub struct Block {
    /// Line of the page where the fence opens, from 1.
    pub line: usize,
    /// Language behind the fence; empty if there is none.
    pub language: String,
    /// Declarations of what it takes for given.
    pub given: String,
    /// Lines between the fences.
    pub lines: Vec<String>,
}

/// Markdown file.
#[derive(Debug, Clone)]
pub struct Page {
    /// Path from the root of the tree.
    pub path: String,
    /// Whole text.
    pub text: String,
}

impl Page {
    /// Returns the fenced blocks, from the top.
    pub fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open, mut given) = (Vec::new(), None::<Block>, String::new());
        let mut in_given = false;
        let mut indent = 0;
        for (at, line) in self.text.lines().enumerate() {
            // A block of a list item is indented as the item is.
            let bare = line.trim_start();
            if let Some(mut block) = open.take() {
                if bare.starts_with(FENCE) {
                    blocks.push(block);
                } else {
                    let blanks = line.len() - bare.len();
                    block.lines.push(line[blanks.min(indent)..].to_owned());
                    open = Some(block);
                }
            } else if let Some(language) = bare.strip_prefix(FENCE) {
                indent = line.len() - bare.len();
                let (given, language) = (std::mem::take(&mut given), language.trim().to_owned());
                open = Some(Block { line: at + 1, language, given, lines: Vec::new() });
            } else if in_given || line.starts_with(GIVEN) {
                let text = line.trim_start_matches(GIVEN);
                in_given = !text.contains("-->");
                given.push_str(text.trim_end().trim_end_matches("-->"));
                given.push(' ');
            } else if !line.trim().is_empty() {
                given.clear();
            }
        }
        blocks
    }

    /// Returns a file of Rust in which each snippet stands at the lines that it has in the page, so
    /// that an error of the compiler names them.
    pub fn rust(&self) -> String {
        let mut lines = vec![String::new(); self.text.lines().count()];
        for block in self.blocks().iter().filter(|block| block.language == "rust") {
            let last = block.line + block.lines.len();
            let program = block.lines.iter().any(|line| line.starts_with("fn main()"));
            let name = format!("line_{}", block.line);
            let (start, end) = if program {
                (format!("mod {name} {{"), "}".to_owned())
            } else {
                let given = &block.given;
                (
                    format!("fn {name}({given}) -> Compiled {{"),
                    "#[allow(unreachable_code)] Ok(()) }".to_owned(),
                )
            };
            lines[block.line - 1] = start;
            lines[last] = end;
            lines[block.line..last].clone_from_slice(&block.lines);
        }
        lines.join("\n") + "\n"
    }
}

/// Returns the pages for users: README and all below `docs` but decisions and measurements.
///
/// # Errors
/// Fails if one cannot be read.
pub fn pages(root: &Path) -> Result<Vec<Page>> {
    let mut paths = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "md") => paths.push(path),
                false => {}
            }
        }
    }
    paths.sort();
    paths.iter().map(|path| read(root, path)).collect()
}

fn read(root: &Path, path: &Path) -> Result<Page> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(Page { path: path.strip_prefix(root)?.display().to_string(), text })
}

/// Returns the root of the tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
