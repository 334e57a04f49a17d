//! Every block of README.md and docs/ that is a file, a script or a command line is read by what
//! reads it in the field. A block whose language nothing reads fails with its place.

mod cmake;
mod dockerfile;
mod settings;
mod shell;
mod yaml;

use anyhow::{Context, Result, anyhow, ensure};
use clump_cli::hosts::Hosts;
use clump_docs_tests::page::{Block, FENCE, Page, pages, root};
use std::io::Write;
use std::process::{Command, Stdio};

/// Result of reading a block without finding a fault.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    /// It was not read, for that reason.
    Skipped(String),
}

type Reader = fn(&Page, &Block) -> Result<Verdict>;

/// Languages behind fences, each with its reader.
const READERS: &[(&str, Reader)] = &[
    ("", shell::commands),
    ("sh", shell::script),
    ("toml", settings::toml),
    ("json", |_, block| json(block)),
    ("yaml", yaml::read),
    ("cmake", cmake::configure),
    ("dockerfile", |_, block| dockerfile::read(block)),
    ("hostfile", |_, block| hostfile(block)),
    ("python", |_, block| python(block)),
];
/// Languages whose snippets `rust_snippets` and `c_snippets` compile.
const COMPILED: &[&str] = &["rust", "c", "cpp"];

/// Reads a block.
///
/// # Errors
/// Fails if it is wrong, or if nothing reads its language.
fn read(page: &Page, block: &Block) -> Result<Verdict> {
    if COMPILED.contains(&block.language.as_str()) {
        return Ok(Verdict::Right);
    }
    let reader = READERS.iter().find(|(language, _)| *language == block.language);
    let (_, reader) = reader.with_context(|| {
        let known: Vec<&str> = READERS.iter().map(|(name, _)| *name).collect();
        format!("no check reads this language: add one to tests/docs/tests/files.rs ({known:?})")
    })?;
    reader(page, block)
}

/// Returns the text of a block behind as many empty lines as the page has in front of it, so that
/// an error names the line of the page.
fn padded(block: &Block) -> String {
    format!("{}{}\n", "\n".repeat(block.line), block.lines.join("\n"))
}

fn json(block: &Block) -> Result<Verdict> {
    serde_json::from_str::<serde_json::Value>(&padded(block))?;
    Ok(Verdict::Right)
}

/// Reads a file of machines as `clump run --hostfile` does.
fn hostfile(block: &Block) -> Result<Verdict> {
    Hosts::from_file_text(&padded(block)).map_err(|why| anyhow!(why))?;
    Ok(Verdict::Right)
}

/// Compiles a program in Python; the suite of the package executes it (`python/tests`).
fn python(block: &Block) -> Result<Verdict> {
    let mut compiler = Command::new("python3");
    compiler.args(["-c", "import sys; compile(sys.stdin.read(), 'block', 'exec')"]);
    if Command::new("python3").arg("--version").output().is_err() {
        return Ok(Verdict::Skipped(
            "there is no python3 (Debian: apt-get install python3)".into(),
        ));
    }
    fed(&mut compiler, &padded(block))?;
    Ok(Verdict::Right)
}

/// Runs a program with a text as its input; returns its output.
///
/// # Errors
/// Fails if it does, with what it says.
fn fed(command: &mut Command, text: &str) -> Result<String> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("no pipe")?.write_all(text.as_bytes())?;
    let done = child.wait_with_output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(String::from_utf8(done.stdout)?)
}

/// Returns what is wrong with the blocks of pages, with their places; prints what is skipped.
fn faults(pages: &[Page]) -> Vec<String> {
    let mut faults = Vec::new();
    for page in pages {
        for block in page.blocks() {
            let place = format!("{}:{} `{}`", page.path, block.line, block.language);
            match read(page, &block) {
                Ok(Verdict::Right) => {}
                Ok(Verdict::Skipped(why)) => println!("SKIPPED {place}: {why}"),
                Err(why) => faults.push(format!("{place}: {why:#}")),
            }
        }
    }
    faults
}

#[test]
fn every_block_is_read_by_what_reads_such_files() {
    let pages = pages(&root()).unwrap();
    for (language, least) in [("sh", 8), ("toml", 1), ("yaml", 1), ("cmake", 1), ("hostfile", 1)] {
        let blocks = pages.iter().flat_map(Page::blocks);
        let count = blocks.filter(|block| block.language == language).count();
        assert!(count >= least, "only {count} blocks of {language} were found");
    }
    let faults = faults(&pages);
    assert!(faults.is_empty(), "{} blocks are wrong:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn fences_are_closed_and_of_one_form() {
    for page in pages(&root()).unwrap() {
        let fences = page.text.lines().filter(|line| line.trim_start().starts_with(FENCE)).count();
        assert!(fences % 2 == 0, "{}: a block is not closed", page.path);
        let other = page.text.lines().position(|line| line.trim_start().starts_with("~~~"));
        let line = other.map(|at| format!("{}:{}", page.path, at + 1));
        assert_eq!(line, None, "a block whose fence is not {FENCE} is not read");
    }
}

/// Asserts that a block in line 3 of a page is refused, with its place and these words.
fn refused(language: &str, text: &str, says: &str) {
    let text = format!("# A\n\n```{language}\n{text}\n```\n");
    let page = Page { path: "docs/page.md".into(), text };
    let faults = faults(&[page]).join("\n");
    let place = format!("docs/page.md:3 `{language}`: ");
    assert!(faults.starts_with(&place) && faults.contains(says), "{faults}");
}

/// Asserts that a block is read or skipped.
fn accepted(language: &str, text: &str) {
    let page = Page { path: "docs/page.md".into(), text: format!("```{language}\n{text}\n```\n") };
    assert_eq!(faults(&[page]), Vec::<String>::new());
}

#[test]
fn a_language_that_nothing_reads_fails() {
    refused("fortran", "end", "no check reads this language");
    refused("ini", "a = 1", "no check reads this language");
    refused("rust,no_run", "main();", "no check reads this language");
}

#[test]
fn a_wrong_file_is_refused_at_its_place() {
    accepted("json", "{\"a\": [1]}");
    refused("json", "{\n\"a\" 1}", "at line 5");
    accepted("hostfile", "a slots=8\nb:4");
    refused("hostfile", "a slots=many", "");
}

#[test]
fn blocks_of_list_items_are_read_as_others() {
    let text = "- item:\n\n  ```sh\n  clump demo\n    --x\n  ```\nAlso `clump top`.\n";
    let blocks = Page { path: "docs/page.md".into(), text: text.into() }.blocks();
    assert_eq!((blocks.len(), blocks[0].line), (1, 3));
    assert_eq!(blocks[0].lines, ["clump demo", "  --x"]);
}
