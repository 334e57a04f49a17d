//! The tree under check: every text file of the checkout, and the manifests of its crates.

use crate::source::Source;
use anyhow::{Context, Result};
use std::path::Path;

/// A file with its text, and its Rust layers where it is Rust.
#[derive(Debug)]
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Set for `.rs` files.
    pub source: Option<Source>,
}

/// A crate of the workspace.
#[derive(Debug)]
pub struct Crate {
    /// Package name.
    pub name: String,
    /// Folder from the root.
    pub dir: String,
    /// Its manifest.
    pub manifest: toml::Table,
}

/// The files and crates that the rules check.
#[derive(Debug)]
pub struct Tree {
    /// Files in order of their paths.
    pub files: Vec<File>,
    /// Crates in order of their folders.
    pub crates: Vec<Crate>,
}

impl Tree {
    /// Reads everything below `root` except build output, version control and files that are no
    /// text.
    ///
    /// # Errors
    /// Fails if a folder cannot be read or a manifest is no TOML.
    pub fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        walk(root, root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut crates = Vec::new();
        for file in files.iter().filter(|f| f.path.ends_with("/Cargo.toml")) {
            let manifest: toml::Table =
                toml::from_str(&file.text).with_context(|| format!("{} is no TOML", file.path))?;
            let name = manifest.get("package").and_then(|p| p.get("name")).and_then(|n| n.as_str());
            if let Some(name) = name {
                let dir = file.path.trim_end_matches("/Cargo.toml").to_owned();
                crates.push(Crate { name: name.to_owned(), dir, manifest });
            }
        }
        Ok(Self { files, crates })
    }

    /// Returns the file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|f| f.path == path)
    }

    /// Returns Rust files with their layers.
    pub fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|f| Some((f, f.source.as_ref()?)))
    }
}

/// Returns true if all of a Rust file is test code.
pub fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
}

fn walk(root: &Path, dir: &Path, files: &mut Vec<File>) -> Result<()> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() {
            if !skipped(&name) {
                walk(root, &path, files)?;
            }
        } else if kind.is_file() && name != "Cargo.lock" {
            // A file that is not UTF-8 is no text, and no rule applies to it; but links lead to
            // pictures.
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(_) if name.ends_with(".png") => String::new(),
                Err(_) => continue,
            };
            let relative = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
            let source = relative.ends_with(".rs").then(|| Source::parse(&text));
            files.push(File { path: relative, text, source });
        }
    }
    Ok(())
}

fn skipped(dir: &str) -> bool {
    let hidden = dir.starts_with('.') && !matches!(dir, ".ci" | ".cargo");
    hidden || dir == "target" || dir.starts_with("target-") || dir == "__pycache__"
}
