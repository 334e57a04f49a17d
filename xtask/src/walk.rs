//! `cargo xtask walk`: functions of the project that a short message passes, out and in, on one
//! node and between two, and those that only its acknowledgement passes. How many they are must be
//! as ARCHITECTURE.md says, and no more than the limits, which may only go down.
//!
//! The program is an example with functions `walk_<step>`, each of which sends or takes in one
//! message; it prints their names. It is built without optimization, and without the pass that
//! inlines `#[inline(always)]`, so that callgrind sees every function that the source has.
//! Accessors and conversions, of up to three lines, are listed and counted apart: what a reader has
//! to follow are the others. None of them may be longer than a screen.

mod count;
mod limits;

use crate::callgrind::{self, Visit};
use crate::source::Source;
use crate::{command, host};
use anyhow::{Context, Result, bail};
use count::{StepCount, differences};
use limits::excesses;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PACKAGE: &str = "clump-am";
const EXAMPLE: &str = "walk";
/// Page with the numbers.
const PAGE: &str = "ARCHITECTURE.md";
/// Lines of the body of an accessor or conversion, at most.
const SHORT: usize = 3;
/// Lines of the body of any function on the way, at most.
const LONGEST: usize = 70;
/// The step that counts only what no other step between nodes passes.
const ACKNOWLEDGEMENT: &str = "walk_acknowledge_between_nodes";
/// Runs of each step, of which the shortest counts: in others a timer is due, or the path has just
/// turned out to take longer packets, which need new buffers.
const RUNS: usize = 8;
/// The project's debug builds are optimized in part, its release build is without debug assertions:
/// that is the profile of which the optimization is taken away.
const PLAIN: &[&str] = &[
    "profile.release.opt-level=0",
    "profile.release.lto=\"off\"",
    "profile.release.debug=\"line-tables-only\"",
    "build.rustflags=[\"-Cno-prepopulate-passes\"]",
];

/// Returns the reason why nothing can be counted here, if there is one.
pub fn missing() -> Option<String> {
    let there = host::program("valgrind").is_some();
    (!there).then(|| "valgrind is not installed (Debian: apt-get install valgrind)".to_owned())
}

/// Prints the functions of every step, and how many functions and files they are. Returns false if
/// ARCHITECTURE.md has other numbers, or a limit is exceeded.
///
/// # Errors
/// Fails if the program does not build or run, or if callgrind saw nothing of a step.
pub fn run(root: &Path) -> Result<bool> {
    if let Some(reason) = missing() {
        println!("walk: SKIPPED: {reason}");
        return Ok(true);
    }
    let (totals, mut wrong) = counted(root)?;
    for total in &totals {
        println!("{total}");
    }
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    wrong.extend(differences(&page, &totals));
    wrong.extend(excesses(&totals));
    for said in &wrong {
        println!("walk: {said}");
    }
    Ok(wrong.is_empty())
}

/// Builds and runs the program; prints the functions of every step, and counts them. Names those
/// that are too long.
fn counted(root: &Path) -> Result<(Vec<StepCount>, Vec<String>)> {
    let target = host::target(root).join("walk");
    let args = ["build", "--release", "--package", PACKAGE, "--example", EXAMPLE];
    let mut build = command::cargo(root, &args);
    build.args(PLAIN.iter().flat_map(|setting| ["--config", setting]));
    build.arg("--target-dir").arg(&target);
    let built = command::run(&mut build, Duration::from_secs(1200))?;
    if !built.success {
        bail!("building {EXAMPLE}: {}", built.why);
    }
    let program = target.join("release/examples").join(EXAMPLE);
    let listed = command::run_quiet(&mut Command::new(&program), Duration::from_secs(60))?;
    if !listed.success {
        bail!("{EXAMPLE}: {}", listed.why);
    }
    let (mut totals, mut too_long) = (Vec::new(), Vec::new());
    let mut between_nodes: Vec<Visit> = Vec::new();
    for step in listed.stdout.lines().filter(|line| line.starts_with("walk_")) {
        let mut visits = Vec::new();
        for _ in 0..RUNS {
            let mut seen = own(callgrind::visits(&profile(root, &program, step)?));
            if seen.is_empty() {
                bail!("{step} was announced but callgrind saw no call of it");
            }
            if step == ACKNOWLEDGEMENT {
                seen.retain(|visit| !between_nodes.contains(visit));
            } else if step.ends_with("_between_nodes") {
                // Of all runs: what a longer one passes is of no acknowledgement either.
                between_nodes.extend_from_slice(&seen);
            }
            if visits.is_empty() || seen.len() < visits.len() {
                visits = seen;
            }
        }
        let longer = longer(root, &visits, &mut too_long)?;
        println!("{step}\n{}", table(&visits, &longer));
        totals.push(total(step, &visits, &longer));
    }
    if totals.is_empty() {
        bail!("{EXAMPLE} announced no step; it prints `walk_<step>` lines");
    }
    Ok((totals, too_long))
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
    let ran = command::run_read(&mut valgrind, Duration::from_secs(600))?;
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

/// Returns those whose body has more than three lines, and names those that are too long.
fn longer(root: &Path, visits: &[Visit], too_long: &mut Vec<String>) -> Result<Vec<Visit>> {
    let mut longer = Vec::new();
    for visit in visits {
        let path = root.join(&visit.file);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", visit.file))?;
        let lines = lines_of(&Source::parse(&text), &visit.function);
        if lines > SHORT {
            longer.push(visit.clone());
        }
        if lines > LONGEST {
            let Visit { file, function } = visit;
            too_long.push(format!("{file}: {function}: {lines} lines, the limit is {LONGEST}"));
        }
    }
    Ok(longer)
}

/// Returns the lines of the body of the longest function of that name.
fn lines_of(source: &Source, function: &str) -> usize {
    let last = function.rsplit("::").next().unwrap_or(function);
    let name = last.split('<').next().unwrap_or(last);
    let functions = source.functions();
    let named = functions.iter().filter(|function| function.name == name);
    named.map(|function| function.body_lines).max().unwrap_or(0)
}

/// Lists visits; accessors are marked.
fn table(visits: &[Visit], longer: &[Visit]) -> String {
    let line = |visit: &Visit| {
        let mark = if longer.contains(visit) { ' ' } else { '.' };
        format!("{mark} {}  {}\n", visit.file, visit.function)
    };
    visits.iter().map(line).collect()
}

fn total(step: &str, visits: &[Visit], longer: &[Visit]) -> StepCount {
    let counts = |visits: &[Visit]| {
        let files = visits.iter().map(|visit| visit.file.as_str()).collect::<BTreeSet<_>>();
        [visits.len(), files.len()]
    };
    StepCount { step: step.to_owned(), longer: counts(longer), all: counts(visits) }
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
        let said = "walk_out: 0 functions in 0 files, with accessors 1 in 1";
        assert_eq!(total("walk_out", &kept, &[]).to_string(), said);
        assert!(table(&kept, &[]).starts_with(". ") && table(&kept, &kept).starts_with("  "));
    }

    #[test]
    fn accessors_are_told_from_functions_that_do_something() {
        let text = "fn a() {\n 1\n}\nfn b<T>() {\n 1;\n 2;\n 3;\n 4\n}\n";
        let source = Source::parse(text);
        assert_eq!(lines_of(&source, "krate::a"), 1);
        assert_eq!(lines_of(&source, "krate::<impl X>::b<u8>"), 4);
        assert_eq!(lines_of(&source, "krate::c"), 0, "made by a macro");
    }
}
