//! `cargo xtask machines up N|down|check`: machines on this machine, each with an sshd, to try jobs
//! over ssh; `check` sorts on four of them. The work is done by a program of `tests/processes`,
//! whose tests use the same machines.

use crate::command;
use crate::host;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PACKAGE: &str = "clump-process-tests";
/// Longest time for building, and for the check.
const TIME_LIMIT: Duration = Duration::from_secs(1800);

/// Runs the task.
///
/// # Errors
/// Fails on unknown words, or if the program does not build.
pub fn run(root: &Path, words: &[String]) -> Result<bool> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if !matches!(words[..], ["up", _] | ["down" | "check"]) {
        bail!("`cargo xtask machines up N`, `down` or `check`");
    }
    let mut build = command::cargo(root, &["build", "--quiet", "--package", PACKAGE, "--bins"]);
    let built = command::run(&mut build, TIME_LIMIT)?;
    if !built.success {
        bail!("building {PACKAGE}: {}", built.why);
    }
    let target = host::target(root);
    // A check must not end machines that a person has set up.
    let folder = if words[..] == ["check"] { "machines-check" } else { "machines" };
    let mut program = Command::new(target.join("debug/machines"));
    program.args(words).arg(target.join(folder));
    Ok(command::run(&mut program, TIME_LIMIT)?.success)
}
