//! Runs the command lines of README.md, docs/ and the helps, each block by a shell, in a folder
//! that has what a reader would have by then: `printed-commands PREFIX TARGET`. PREFIX is an
//! installation, TARGET the target folder, with programs and examples of the release profile.
//! `--only PAGE` chooses.

use anyhow::{Context, Result, bail, ensure};
use clump_docs_tests::exceptions::reason;
use clump_docs_tests::help;
use clump_docs_tests::page::{pages, root};
use clump_docs_tests::printed::{Printed, of_blocks};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Limit of a block, in seconds: each line has to take less than ten on a quiet machine.
const LIMIT_S: &str = "100";
/// Examples in C that pages compile under other names.
const RENAMED: &[(&str, &str)] = &[("ping_pong.c", "prog.c"), ("parmacs_tasks.c", "tasks.c")];
/// Machines in the file that a page shows.
const MACHINES: &str = "a slots=8\nb slots=8\nc slots=4\n";

struct Reader {
    prefix: PathBuf,
    target: PathBuf,
    work: PathBuf,
}

/// Returns the examples of each help that has some: its name, their text, and the command lines.
fn helps() -> impl Iterator<Item = (String, String, Vec<Printed>)> {
    let examples = help::examples();
    let helps: Vec<_> = examples.chunk_by(|one, other| one.page == other.page).collect();
    let of = |lines: &[Printed]| {
        let text = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        (lines[0].page.clone(), text, lines.to_vec())
    };
    helps.into_iter().map(of).collect::<Vec<_>>().into_iter()
}

fn main() -> Result<()> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let only = words.iter().position(|word| word == "--only").map(|at| words.split_off(at));
    let [prefix, target] = words.as_slice() else { bail!("printed-commands PREFIX TARGET") };
    let work = std::env::temp_dir().join(format!("clump-printed-{}", std::process::id()));
    let (prefix, target) = (Path::new(prefix).canonicalize()?, Path::new(target).canonicalize()?);
    let reader = Reader { prefix, target, work };
    let only = only.and_then(|words| Some(words.get(1)?.to_string_lossy().into_owned()));
    let done = reader.read(only.as_deref());
    fs::remove_dir_all(&reader.work).ok();
    let (run, failed) = done?;
    println!("{run} blocks were run, {} failed", failed.len());
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

impl Reader {
    /// Runs the blocks of all pages and the examples of all helps, or of one; returns how many, and
    /// what failed.
    fn read(&self, only: Option<&str>) -> Result<(usize, Vec<String>)> {
        let (mut run, mut failed) = (0, Vec::new());
        let chosen = |path: &str| only.is_none_or(|only| path == only);
        let pages = pages(&root())?;
        let pages =
            pages.iter().map(|page| (page.path.clone(), page.text.clone(), of_blocks(page)));
        for (path, text, lines) in pages.chain(helps()).filter(|(path, ..)| chosen(path)) {
            let folder = self.folder(&path, &text)?;
            for block in lines.chunk_by(|one, other| one.block == other.block) {
                let script: Vec<&Printed> =
                    block.iter().filter(|line| reason(line).is_none()).collect();
                if let Some(first) = script.first() {
                    run += 1;
                    println!("== {}", first.place());
                    failed.extend(self.block(&folder, &script)?);
                }
            }
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        Ok((run, failed))
    }

    /// Makes the folder of a page: a home with the installation, and programs of a reader.
    fn folder(&self, path: &str, text: &str) -> Result<PathBuf> {
        let folder = self.work.join(path.replace(['/', ' '], "_"));
        fs::create_dir_all(folder.join("home")).with_context(|| folder.display().to_string())?;
        symlink(&self.prefix, folder.join("home/clump"))?;
        symlink(&self.target, folder.join("target"))?;
        symlink(root().canonicalize()?.join("crates"), folder.join("crates"))?;
        for name in ["prog", "program"] {
            symlink(self.target.join("release/examples/ping"), folder.join(name))?;
        }
        let examples = root().join("crates/clump-capi/examples/c");
        for entry in fs::read_dir(&examples).with_context(|| examples.display().to_string())? {
            let path = entry?.path();
            fs::copy(&path, folder.join(path.file_name().unwrap_or_default()))?;
        }
        for (from, to) in RENAMED {
            fs::copy(examples.join(from), folder.join(to)).with_context(|| (*from).to_owned())?;
        }
        fs::write(folder.join("room2"), MACHINES)?;
        if text.contains("-i records") && !text.contains("clump app gensort") {
            let mut records = Command::new(self.prefix.join("bin/clump"));
            records.args(["app", "gensort", "100000", "records"]).current_dir(&folder);
            ensure!(records.status()?.success(), "no records were made");
        }
        if text.contains("./am2_table") {
            let mut cc = Command::new(self.prefix.join("bin/clump-cc"));
            cc.args(["am2_table.c", "-o", "am2_table"]).current_dir(&folder);
            ensure!(cc.status()?.success(), "am2_table was not built");
        }
        Ok(folder)
    }

    /// Runs lines of a block as one script; returns what went wrong.
    fn block(&self, folder: &Path, lines: &[&Printed]) -> Result<Option<String>> {
        let script: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let script = format!("PATH=\"$0/bin:$PATH\"\nset -ex\n{}\n", script.join("\n"));
        let mut shell = Command::new("timeout");
        shell.args([LIMIT_S, "sh", "-c", &script]).arg(&self.prefix).current_dir(folder);
        shell.env("HOME", folder.join("home")).env("TMPDIR", &self.work).stdin(Stdio::null());
        let status = shell.status().context("timeout(1), of coreutils")?;
        let why = match status.code() {
            Some(0) => return Ok(None),
            Some(124) => format!("took longer than {LIMIT_S} s"),
            _ => status.to_string(),
        };
        let first = lines.first().map_or_else(String::new, |line| line.place());
        Ok(Some(format!("{first}: {why}")))
    }
}
