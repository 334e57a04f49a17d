//! Steps for ARM: the tree is compiled for aarch64, and part of its tests run under QEMU.

use super::step::{BUILD, Site, StepOutcome, outcome};
use crate::command::{self, Counts, cargo};
use crate::host;
use anyhow::Result;
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// The compiler and linker for C, of the Debian package `gcc-aarch64-linux-gnu`.
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// QEMU's emulation of a process, of the Debian package `qemu-user`, and where that finds libc.
const QEMU: &str = "qemu-aarch64";
const SYSTEM: &str = "/usr/aarch64-linux-gnu";
/// Packages whose tests need no job and no kernel that does more than QEMU's.
const PURE: [&str; 6] =
    ["clump-wire", "clump-loggp", "clump-proto", "clump-control", "clump-hlrc", "clump-trace"];

/// Compiles libraries and programs with the workspace's lints, and at night tests and examples too.
///
/// # Errors
/// Fails if cargo cannot be started.
pub fn lints(site: &Site) -> Result<StepOutcome> {
    if let Some(reason) = missing(&[LINKER], site)? {
        return Ok(StepOutcome::Skipped(reason));
    }
    Ok(outcome(command::run(&mut clippy(site, &["--lib", "--bins"]), BUILD)?))
}

/// Runs the tests of pure packages, and the stress test of shared memory, under QEMU.
///
/// # Errors
/// Fails if cargo cannot be started.
pub fn tests(site: &Site) -> Result<StepOutcome> {
    if let Some(reason) = missing(&[LINKER, QEMU], site)? {
        return Ok(StepOutcome::Skipped(reason));
    }
    let mut pure = vec!["test", "--target", TARGET];
    pure.extend(PURE.iter().flat_map(|package| ["--package", package]));
    let stress = ["test", "--target", TARGET, "--package", "clump-shm", "--test", "stress"];
    let sums = ["test", "--target", TARGET, "--package", "clump-os", "--lib", "crc::"];
    let linted = command::run(&mut clippy(site, &["--all-targets"]), BUILD)?;
    if !linted.success {
        return Ok(outcome(linted));
    }
    let mut all = Counts::default();
    for args in [&pure[..], &stress, &sums] {
        let ended = command::run(&mut cross(site, args), BUILD)?;
        all += ended.counts;
        if !ended.success {
            return Ok(StepOutcome::Failed(ended.why, all));
        }
    }
    Ok(StepOutcome::Passed(all))
}

fn clippy(site: &Site, targets: &[&str]) -> Command {
    let mut command = cross(site, &["clippy", "--workspace", "--target", TARGET]);
    command.args(targets).args(["--", "-D", "warnings"]);
    command
}

/// Returns a command of cargo for aarch64.
fn cross(site: &Site, args: &[&str]) -> Command {
    let mut command = cargo(&site.root, args);
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    let runner = format!("{QEMU} -L {SYSTEM}");
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    command
}

/// Returns the reason why nothing can be compiled or run for aarch64 here, and a remedy.
fn missing(programs: &[&str], site: &Site) -> Result<Option<String>> {
    for program in programs {
        if host::program(program).is_none() {
            let packages = "gcc-aarch64-linux-gnu qemu-user";
            return Ok(Some(format!(
                "{program} is not installed (Debian: apt-get install {packages})"
            )));
        }
    }
    let mut print = Command::new("rustc");
    print.current_dir(&site.root).args(["--print", "target-libdir", "--target", TARGET]);
    let folder = String::from_utf8(print.output()?.stdout)?;
    let has_library = std::path::Path::new(folder.trim()).is_dir();
    let remedy = format!("no standard library for {TARGET} (rustup target add {TARGET})");
    Ok((!has_library).then_some(remedy))
}
