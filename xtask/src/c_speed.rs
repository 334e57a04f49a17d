//! `cargo xtask c-speed`: round trips of short messages from C, as ratios to those from Rust in
//! the same run.

use crate::command::{self, cargo};
use crate::host;
use crate::install::Installation;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs of each program, in turns; the median counts.
const TURNS: usize = 15;
const LIMIT: Duration = Duration::from_secs(1200);
/// Goals: through the static library, and through the shared one.
const GOALS: [f64; 2] = [1.05, 1.10];

/// Builds all three, runs them in turns, and prints medians in nanoseconds and ratios.
///
/// # Errors
/// Fails if a program does not build or run, or prints no number.
pub fn run(root: &Path) -> Result<bool> {
    let args = ["build", "--release", "--package", "clump", "--example", "round_trip"];
    let built = command::run(&mut cargo(root, &args), LIMIT)?;
    if !built.success {
        bail!("building the Rust side: {}", built.why);
    }
    let target = host::target(root);
    let prefix = target.join("c-speed");
    std::fs::create_dir_all(&prefix)?;
    Installation { root, prefix: prefix.clone(), profile: "release" }.install()?;
    let rust = target.join("release/examples/round_trip");
    let mut programs = vec![rust];
    for (name, option) in [("static", Some("--clump-static")), ("shared", None)] {
        let out = prefix.join(format!("round_trip_{name}"));
        let mut cc = Command::new(prefix.join("bin/clump-cc"));
        cc.args(option).args(["-std=c11", "-O2"]);
        cc.arg(root.join("crates/clump-capi/examples/c/round_trip.c")).arg("-o").arg(&out);
        if !command::run(&mut cc, LIMIT)?.success {
            bail!("building the C side failed");
        }
        programs.push(out);
    }
    let mut times = vec![Vec::new(); programs.len()];
    for _ in 0..TURNS {
        for (program, times) in programs.iter().zip(&mut times) {
            let mut job = Command::new(prefix.join("bin/clump"));
            job.args(["run", "-n", "2", "--bind", "cores"]).arg(program);
            let ended = command::run_quiet(&mut job, LIMIT)?;
            let ns: f64 = ended.stdout.trim().parse().with_context(|| {
                format!("{} printed no time: {}", program.display(), ended.stdout)
            })?;
            times.push(ns);
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let [rust, with_static, with_shared] = medians[..] else { bail!("three programs") };
    println!("round trip within a node, ns, median of {TURNS} runs in turns");
    println!("  Rust             {rust:8.1}");
    let mut met = true;
    let pairs = [("C, static library", with_static), ("C, shared library", with_shared)];
    for ((name, ns), goal) in pairs.into_iter().zip(GOALS) {
        let ratio = ns / rust;
        println!("  {name} {ns:7.1}   x {ratio:.3} (goal {goal:.2})");
        met &= ratio <= goal;
    }
    let mut job = Command::new(prefix.join("bin/clump"));
    job.args(["run", "-n", "2", "--bind", "cores"]).arg(&programs[1]).arg("words");
    command::run(&mut job, LIMIT)?;
    println!("{}", if met { "goals met" } else { "goals not met in this run" });
    Ok(met)
}

/// Returns the median of some times.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
