//! C programs by the macros of PARMACS as instruments: one source on threads of a process and on
//! ranks of a node, in turns.

use super::instrument::{FigureSource, Instrument};
use super::results::Goal;
use crate::c_speed::median;
use crate::command;
use crate::host;
use crate::install::Installation;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TABLE: &str = "shared-memory-threads";
/// Workers of each run.
const WORKERS: &str = "2";
/// Runs of each version, in turns; the median counts.
const TURNS: usize = 15;
/// Longest time of a compilation, and of a run.
const LIMIT: Duration = Duration::from_secs(600);
/// Longest time to wait for an idle machine before each run.
const IDLE: Duration = Duration::from_secs(4);
/// Largest time on clump, in times on threads.
const GOAL: Goal = Goal::AtMost(1.1);

/// Rows of the table, and their programs.
const PROGRAMS: [(&str, &str); 4] = [
    ("lu", "parmacs:parmacs_lu"),
    ("ocean", "parmacs:parmacs_ocean"),
    ("water-spatial", "parmacs:parmacs_water"),
    ("fft", "parmacs:parmacs_fft"),
];

/// Returns the instruments: each program at its own default size.
pub fn all() -> impl Iterator<Item = Instrument> {
    PROGRAMS.into_iter().map(|(row, program)| {
        let figure =
            |column, path, unit, goal| FigureSource::new((TABLE, row, column), path, unit, goal);
        Instrument {
            name: format!("{row}-beside-threads").into(),
            words: vec![program].into(),
            settings: Vec::new().into(),
            figures: vec![
                figure(1, "/data/threads_s", (1e3, "ms", 1), None),
                figure(2, "/data/clump_s", (1e3, "ms", 1), None),
                figure(3, "/data/ratio", (1.0, "", 2), Some(GOAL)),
            ]
            .into(),
        }
    })
}

fn prefix(root: &Path) -> PathBuf {
    host::target(root).join("bench-threads")
}

/// Installs the library that programs are linked with.
///
/// # Errors
/// Fails if it does not build.
pub fn prepare(root: &Path) -> Result<()> {
    let prefix = prefix(root);
    std::fs::create_dir_all(&prefix)?;
    Installation { root, prefix, profile: "release" }.install()
}

/// Builds both versions of a program, runs them in turns, and returns the medians of their times.
///
/// # Errors
/// Fails if a version does not build, or if a run fails or prints no time.
pub fn report(root: &Path, program: &str) -> Result<Value> {
    let prefix = prefix(root);
    let source = root.join(format!("crates/clump-capi/examples/c/{program}.c"));
    let out = |version: &str| prefix.join(format!("{program}_{version}"));
    let (on_threads, on_clump) = (out("threads"), out("clump"));
    let own = ["-std=c11", "-O2", "-include", "clump/parmacs.h"];
    let mut cc = Command::new("cc");
    cc.args(own).arg("-DCLUMP_PARMACS_THREADS").arg("-I").arg(prefix.join("include"));
    build(cc.arg(&source).arg("-o").arg(&on_threads).args(["-lm", "-lpthread"]))?;
    let mut cc = Command::new(prefix.join("bin/clump-cc"));
    cc.args(own).args(["-fPIC", "-no-pie"]);
    build(cc.arg(&source).arg("-o").arg(&on_clump).arg("-lm"))?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        times[0].push(seconds(Command::new(&on_threads).arg(WORKERS))?);
        let mut job = Command::new(prefix.join("bin/clump"));
        times[1].push(seconds(job.args(["run", "-n", WORKERS]).arg(&on_clump).arg(WORKERS))?);
    }
    let [threads, clump] = times.map(median);
    let ratio = clump / threads;
    Ok(json!({ "data": { "threads_s": threads, "clump_s": clump, "ratio": ratio } }))
}

fn build(compiler: &mut Command) -> Result<()> {
    let ended = command::run(compiler, LIMIT)?;
    if ended.success { Ok(()) } else { bail!("{}: {}", command::shown(compiler), ended.why) }
}

/// Runs a version as soon as the machine idles, and returns the seconds that it prints.
fn seconds(program: &mut Command) -> Result<f64> {
    host::await_idle(IDLE);
    let ended = command::run_quiet(program, LIMIT)?;
    if !ended.success {
        bail!("{}: {}", command::shown(program), ended.why);
    }
    let line = ended.stdout.lines().find_map(|line| line.split_once("seconds "));
    let seconds = line.and_then(|(_, seconds)| seconds.trim().parse().ok());
    seconds.with_context(|| format!("no seconds from {}", command::shown(program)))
}
