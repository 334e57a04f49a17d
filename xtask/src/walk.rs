//! `cargo xtask walk`: functions of the project that a short message passes, out and in, on one
//! node and between two.
//!
//! The program is an example with functions `walk_<step>`, each of which sends or takes in one
//! message; it prints their names. It is built without optimization, so that callgrind sees every
//! function that the source has, but for those that are always inlined (`#[inline(always)]`).

use crate::callgrind::{self, Visit};
use crate::{command, host};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PACKAGE: &str = "clump-am";
const EXAMPLE: &str = "walk";
/// The project's debug builds are optimized a little.
const PLAIN: &str = "profile.dev.opt-level=0";

/// Prints the functions of every step, and how many functions and files they are.
///
/// # Errors
/// Fails if the program does not build or run, or if callgrind saw nothing of a step.
pub fn run(root: &Path) -> Result<bool> {
    if host::program("valgrind").is_none() {
        println!("walk: SKIPPED: valgrind is not installed (Debian: apt-get install valgrind)");
        return Ok(true);
    }
    let target = host::target(root).join("walk");
    let args = ["build", "--package", PACKAGE, "--example", EXAMPLE, "--config", PLAIN];
    let mut build = command::cargo(root, &args);
    build.arg("--target-dir").arg(&target);
    let built = command::run(&mut build, Duration::from_secs(1200))?;
    if !built.success {
        bail!("building {EXAMPLE}: {}", built.why);
    }
    let program = target.join("debug/examples").join(EXAMPLE);
    let listed = command::run_quiet(&mut Command::new(&program), Duration::from_secs(60))?;
    if !listed.success {
        bail!("{EXAMPLE}: {}", listed.why);
    }
    let mut totals = String::new();
    for step in listed.stdout.lines().filter(|line| line.starts_with("walk_")) {
        let visits = own(callgrind::visits(&profile(root, &program, step)?));
        if visits.is_empty() {
            bail!("{step} was announced but callgrind saw no call of it");
        }
        println!("{step}\n{}", table(&visits));
        totals.push_str(&total(step, &visits));
    }
    if totals.is_empty() {
        bail!("{EXAMPLE} announced no step; it prints `walk_<step>` lines");
    }
    print!("{totals}");
    Ok(true)
}

/// Runs the program under callgrind, which counts while `step` runs, and returns what it wrote.
fn profile(root: &Path, program: &Path, step: &str) -> Result<String> {
    let file = host::target(root).join("walk.callgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--dump-line=no"])
        .arg(format!("--toggle-collect=*{step}*"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .current_dir(root);
    let ran = command::run_quiet(&mut valgrind, Duration::from_secs(600))?;
    if !ran.success {
        bail!("{EXAMPLE} under valgrind: {}", ran.why);
    }
    std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
}

/// Keeps the functions of the project's crates: file names from `crates/` on, and functions without
/// their hash. A closure counts with the function that it stands in.
fn own(visits: Vec<Visit>) -> Vec<Visit> {
    let mut kept: Vec<Visit> = Vec::new();
    for visit in visits {
        let Some(at) = visit.file.find("crates/clump") else { continue };
        let file = visit.file[at..].to_owned();
        if file.contains("/examples/") {
            continue;
        }
        let whole = callgrind::without_hash(&visit.function);
        let function = whole.split("::{{closure}}").next().unwrap_or(whole).to_owned();
        let visit = Visit { function, file };
        if !kept.contains(&visit) {
            kept.push(visit);
        }
    }
    kept.sort_by(|a, b| (&a.file, &a.function).cmp(&(&b.file, &b.function)));
    kept
}

fn table(visits: &[Visit]) -> String {
    let line = |visit: &Visit| format!("  {}  {}\n", visit.file, visit.function);
    visits.iter().map(line).collect()
}

fn total(step: &str, visits: &[Visit]) -> String {
    let files: BTreeSet<&str> = visits.iter().map(|visit| visit.file.as_str()).collect();
    format!("{step}: {} functions in {} files\n", visits.len(), files.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(function: &str, file: &str) -> Visit {
        Visit { function: function.into(), file: file.into() }
    }

    #[test]
    fn functions_of_the_project_are_kept_with_their_closures() {
        let kept = own(vec![
            visit("clump_shm::lane::push::h0123456789abcdef", "/x/crates/clump-shm/src/lane.rs"),
            visit("clump_shm::lane::push::{{closure}}", "/x/crates/clump-shm/src/lane.rs"),
            visit("core::mem::swap", "/rustc/library/core/src/mem.rs"),
            visit("walk::walk_out", "crates/clump-am/examples/walk.rs"),
        ]);
        assert_eq!(kept, [visit("clump_shm::lane::push", "crates/clump-shm/src/lane.rs")]);
        assert_eq!(total("walk_out", &kept), "walk_out: 1 functions in 1 files\n");
    }
}
