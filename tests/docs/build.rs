//! Writes the snippets in Rust of all pages into one module, which the tests compile, and the files
//! by which CMake finds an installation.

#[path = "src/page.rs"]
mod page;

/// Files by which builds find an installation, for the snippets of CMake.
#[path = "../../xtask/src/install/finders.rs"]
#[allow(dead_code, reason = "only the files for CMake are needed")]
mod finders;

use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

#[allow(clippy::disallowed_methods, reason = "cargo says where by a variable")]
fn main() -> Result<()> {
    let root = page::root();
    println!("cargo:rerun-if-changed={}", root.join("docs").display());
    println!("cargo:rerun-if-changed={}", root.join("README.md").display());
    println!("cargo:rerun-if-changed=src/page.rs");
    println!("cargo:rerun-if-changed=../../xtask/src/install/finders.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    let version = env!("CARGO_PKG_VERSION");
    fs::write(out.join("clump-config.cmake"), finders::cmake(version, "1")).context("CMake")?;
    let versions = finders::cmake_version(version);
    fs::write(out.join("clump-config-version.cmake"), versions).context("CMake")?;
    let mut modules = String::new();
    for page in page::pages(&root)? {
        let text = page.rust();
        if text.trim().is_empty() {
            continue;
        }
        let file = out.join(format!("{}.rs", page.path.replace('/', "_")));
        // `use` stands on the first line, which is the title of a page.
        fs::write(&file, format!("use super::*;{text}")).with_context(|| page.path.clone())?;
        let name = page.path.trim_end_matches(".md").replace(['/', '-'], "_");
        writeln!(modules, "#[path = {file:?}]\npub mod {};", name.to_lowercase())?;
    }
    fs::write(out.join("snippets.rs"), modules).context("snippets.rs")
}
