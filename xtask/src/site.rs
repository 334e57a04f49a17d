//! `cargo xtask site --out DIR`: all of `docs/` and the references of Rust, C, C++ and Python as
//! static pages, which need no server: by mdBook, rustdoc, Doxygen and `python/reference.py`.
//! Tables of benchmarks have pictures there.

mod book;
mod links;
mod pictures;

use crate::command::{self, cargo};
use crate::host;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time for building all documentation.
const BUILD: Duration = Duration::from_secs(2400);
/// The release of mdBook, and those of its features that static pages need.
const MDBOOK: [&str; 6] =
    ["mdbook", "--version", "^0.5", "--no-default-features", "--features", "search"];
/// Crates whose items a program imports; `clump` passes most of them on.
const CRATES: [&str; 8] = [
    "clump",
    "clump-am",
    "clump-coll",
    "clump-conn",
    "clump-loggp",
    "clump-pgas",
    "clump-rma",
    "clump-svm",
];

/// Settings of mdBook. Each page and its search work from `file://`.
const SETTINGS: &str = "[book]
title = \"clump\"
language = \"en\"
src = \"src\"

[output.html]
no-section-label = true
fold = { enable = true, level = 0 }
print = { enable = false }
";

/// Parses the options, and builds the site.
///
/// # Errors
/// Fails on a wrong option, or if something cannot be built.
pub fn run(root: &Path, options: &[String]) -> Result<bool> {
    let out = match options {
        [] => host::target(root).join("site"),
        [option, folder] if option == "--out" => PathBuf::from(folder),
        _ => bail!("unknown options `{}`; there is --out DIR", options.join(" ")),
    };
    let program = match mdbook(root)? {
        Ok(program) => program,
        Err(why) => bail!(why),
    };
    let wrong = build(root, &out, &program)?;
    for finding in &wrong {
        println!("{finding}");
    }
    println!("{}: {} links lead nowhere", out.join("index.html").display(), wrong.len());
    Ok(wrong.is_empty())
}

/// Returns mdBook's program, installed below the target folder where the system has none, or the
/// reason why there is none.
///
/// # Errors
/// Fails if cargo cannot be started.
pub fn mdbook(root: &Path) -> Result<std::result::Result<PathBuf, String>> {
    if let Some(program) = host::program("mdbook") {
        return Ok(Ok(program));
    }
    let tools = host::target(root).join("site-tools");
    let program = tools.join("bin/mdbook");
    if program.is_file() {
        return Ok(Ok(program));
    }
    let mut install = cargo(root, &["install", "--locked", "--root"]);
    let ended = command::run(install.arg(&tools).args(MDBOOK), BUILD)?;
    let why = format!("mdBook cannot be installed ({}): cargo install mdbook", ended.why);
    Ok(if ended.success { Ok(program) } else { Err(why) })
}

/// Builds the site in `out`; returns links that lead nowhere.
///
/// # Errors
/// Fails if something cannot be built or written.
pub fn build(root: &Path, out: &Path, mdbook: &Path) -> Result<Vec<String>> {
    fs::remove_dir_all(out).ok();
    let source = host::target(root).join("site-source");
    fs::remove_dir_all(&source).ok();
    fs::create_dir_all(source.join("src"))?;
    fs::write(source.join("book.toml"), SETTINGS)?;
    let has_c = host::program("doxygen").is_some();
    if !has_c {
        println!(
            "SKIPPED the reference of C and C++: there is no doxygen (apt-get install doxygen)"
        );
    }
    let python = python_reference(root)?;
    let pictures = pictures::write(root, &source.join("src"))?;
    book::write((root, &source.join("src")), has_c, python.as_deref(), &pictures)?;
    let mut pages = Command::new(mdbook);
    pages.arg("build").arg(&source).arg("--dest-dir").arg(out);
    command::make(&mut pages, BUILD, "mdbook")?;
    let out = out.canonicalize().with_context(|| out.display().to_string())?;
    rust_reference(root, &out.join("api/rust"))?;
    if has_c {
        c_reference(root, &out.join("api/c"))?;
    }
    links::check(&out)
}

/// Returns the page of the Python package; `None`, and a notice, without a Python.
fn python_reference(root: &Path) -> Result<Option<String>> {
    let Some(python) = host::program("python3") else {
        println!("SKIPPED the reference of Python: there is no python3");
        return Ok(None);
    };
    let mut reference = Command::new(python);
    reference.arg("-B").arg(root.join("python/reference.py"));
    let ended = command::run_read(&mut reference, BUILD)?;
    if !ended.success {
        bail!("python/reference.py: {}", ended.why);
    }
    Ok(Some(ended.stdout))
}

fn rust_reference(root: &Path, to: &Path) -> Result<()> {
    let target = host::target(root).join("site-rust");
    fs::remove_dir_all(target.join("doc")).ok();
    let mut doc = cargo(root, &["doc", "--no-deps"]);
    doc.args(CRATES.iter().flat_map(|name| ["--package", name]));
    doc.env("CARGO_TARGET_DIR", &target);
    command::make(&mut doc, BUILD, "rustdoc")?;
    copied(&target.join("doc"), to)
}

fn c_reference(root: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let headers = root.join("crates/clump-capi/include");
    let settings = to.join("Doxyfile");
    let text = format!(
        "PROJECT_NAME = clump\nINPUT = {0}\nSTRIP_FROM_PATH = {0}\nSTRIP_FROM_INC_PATH = {0}\n\
         RECURSIVE = YES\nEXTRACT_ALL = YES\nJAVADOC_AUTOBRIEF = YES\nGENERATE_LATEX = NO\n\
         OPTIMIZE_OUTPUT_FOR_C = YES\nHTML_OUTPUT = .\nOUTPUT_DIRECTORY = {1}\nQUIET = YES\n\
         WARNINGS = NO\nWARN_IF_DOC_ERROR = NO\nEXTRACT_STATIC = YES\nHAVE_DOT = NO\nTYPEDEF_HIDES_STRUCT = YES\n",
        headers.display(),
        to.display()
    );
    fs::write(&settings, text)?;
    command::make(Command::new("doxygen").arg(&settings).current_dir(to), BUILD, "doxygen")?;
    fs::remove_file(settings)?;
    Ok(())
}

/// Copies a folder with all that is in it.
fn copied(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut copy = Command::new("cp");
    command::make(copy.arg("-r").arg(from.join(".")).arg(to), BUILD, "the copy")
}
