//! Nightly steps: those that take too long for a merge.

use super::apps;
use super::step::{BUILD, RUN, Site, StepOutcome, plain};
use crate::command::{self, cargo};
use crate::{mutants, tsan, walk};
use anyhow::Result;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Random kills: of ranks on one node and on two, and of ranks and nodes that contend for locks.
const KILLS: &str = "200";
/// Random kills of ranks and nodes that update memory of others.
const UPDATE_KILLS: &str = "100";
/// Agents that watch each other beside computing processors, and for how many seconds.
const AGENTS: [&str; 2] = ["200", "600"];
/// Runs of the tests of jobs of threads.
const REPEATS: u32 = 100;
/// Starts of jobs after which no shared memory may be left.
const STARTS: &str = "1000";
/// Starts of jobs by proxies, in random shapes, beside load and pauses.
const PROXY_STARTS: &str = "10000";

/// Runs many random kills.
///
/// # Errors
/// Fails if a program cannot be started.
pub fn storms(site: &Site) -> Result<StepOutcome> {
    let args = ["build", "--release", "--package", "clump-process-tests", "--bins"];
    let built = command::run(&mut cargo(&site.root, &args), BUILD)?;
    if !built.success {
        return Ok(plain(false, &built.why));
    }
    let storms = [
        ("kill-storm", vec![KILLS, "1", "1"]),
        ("kill-storm", vec![KILLS, "1", "2"]),
        ("lock-storm", vec![KILLS, "1"]),
        ("update-storm", vec![UPDATE_KILLS, "1"]),
        ("start-storm", vec![STARTS]),
        ("start-storm", vec![PROXY_STARTS, "proxies"]),
    ];
    for (program, args) in storms {
        let mut storm = Command::new(site.target.join("release").join(program));
        storm.args(args).env("TMPDIR", site.scratch()?).current_dir(&site.root);
        let limit = if program == "start-storm" { RUN * 40 } else { RUN * 5 };
        let ended = command::run(&mut storm, limit)?;
        if !ended.success {
            return Ok(plain(false, &format!("{program}: {}", ended.why)));
        }
    }
    Ok(plain(true, ""))
}

/// Lets many agents watch each other on processors that compute: none may be given up.
///
/// # Errors
/// Fails if the program cannot be started.
pub fn many_agents(site: &Site) -> Result<StepOutcome> {
    let [agents, seconds] = AGENTS;
    let words = ["run", "-n", agents, "--nodes", agents, "--stats", "sleep", seconds];
    let ended = beside_load(|| apps::clump(site, &words))?;
    // A node that is given up ends the job.
    Ok(plain(ended.success, &ended.why))
}

/// Runs the tests of jobs of threads again and again: what happens once in a hundred runs is found
/// here, with the state of every thread.
///
/// # Errors
/// Fails if the tests cannot be started.
pub fn repeats(site: &Site) -> Result<StepOutcome> {
    let words = ["test", "--package", "clump-thread-tests", "--quiet"];
    for run in 1..=REPEATS {
        let ended = beside_load(|| command::run(&mut cargo(&site.root, &words), RUN))?;
        if !ended.success {
            return Ok(plain(false, &format!("run {run} of {REPEATS}: {}", ended.why)));
        }
    }
    Ok(plain(true, ""))
}

/// Calls `job` while every processor computes.
fn beside_load<T>(job: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = job();
        ended.store(true, Ordering::Relaxed);
        result
    })
}

/// Plants every bug.
///
/// # Errors
/// Fails if the list cannot be read or the copy cannot be made.
pub fn planted(site: &Site) -> Result<StepOutcome> {
    Ok(plain(mutants::run(&site.root, &[])?, "see the mutants above"))
}

/// Runs the sanitizer, if there is a nightly compiler.
///
/// # Errors
/// Fails if the compiler cannot be queried or the test cannot be started.
pub fn sanitizer(site: &Site) -> Result<StepOutcome> {
    if let Some(reason) = tsan::missing(&site.root)? {
        return Ok(StepOutcome::Skipped(reason));
    }
    Ok(plain(tsan::run(&site.root)?, "see above"))
}

/// Counts the functions that a message passes.
///
/// # Errors
/// Fails if the program does not build or run.
pub fn walked(site: &Site) -> Result<StepOutcome> {
    if let Some(reason) = walk::missing() {
        return Ok(StepOutcome::Skipped(reason));
    }
    Ok(plain(walk::run(&site.root)?, "see the counts above"))
}
