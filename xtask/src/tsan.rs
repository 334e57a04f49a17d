//! `cargo xtask tsan`: the queue stress test under ThreadSanitizer.
//!
//! Needs the nightly compiler. With the standard library's source (rust-src) everything is built
//! with the sanitizer. Without, only this tree is, and synchronization inside the standard library
//! must not be taken for a race: threads of the test are joined by hand, and the test harness's
//! own channel is suppressed. ThreadSanitizer does not understand fences; loom checks code that
//! relies on one.

use crate::{command, host};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PACKAGE: &str = "clump-shm";
const TEST: &str = "stress";

/// Suppressed races: the harness passes results over a channel of the standard library, whose
/// ordering the sanitizer cannot see when that library is not instrumented.
const SUPPRESSIONS: &str = "race:test::event::CompletedTest\nrace:test::event::TestEvent\n";

/// The part of a program that the sanitizer can watch here.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reach {
    /// Everything, the standard library too.
    Whole,
    /// Everything but the standard library.
    Tree,
    /// Nothing, for this reason.
    Nothing(String),
}

/// Returns the reason why the stress test cannot run here, and a remedy.
///
/// # Errors
/// Fails if the compiler cannot be queried.
pub fn missing(root: &Path) -> Result<Option<String>> {
    Ok(match reach(root)? {
        Reach::Nothing(reason) => Some(reason),
        Reach::Whole | Reach::Tree => None,
    })
}

/// Runs the stress test; prints what is missing if it cannot run.
///
/// # Errors
/// Fails if the compiler cannot be queried or the test cannot be started.
pub fn run(root: &Path) -> Result<bool> {
    let reach = reach(root)?;
    if let Reach::Nothing(reason) = &reach {
        println!("SKIPPED tsan: {reason}");
        return Ok(true);
    }
    let triple = triple()?;
    let mut args = vec!["test", "--target", &triple, "--package", PACKAGE, "--test", TEST];
    let mut flags = "-Zsanitizer=thread".to_owned();
    if reach == Reach::Whole {
        args.push("-Zbuild-std");
    } else {
        println!(
            "tsan: the nightly compiler has no rust-src, so the standard library itself is not watched; \
             `rustup component add rust-src --toolchain nightly` changes that"
        );
        // The precompiled standard library was built without the sanitizer; this flag accepts
        // that.
        flags += " -Cunsafe-allow-abi-mismatch=sanitizer";
    }
    let target = host::target(root).join("tsan");
    let suppressions = suppressions(&target)?;
    let mut cargo = command::cargo_nightly(root, &args);
    cargo
        .env("RUSTFLAGS", flags)
        .env("CARGO_TARGET_DIR", target)
        .env("TSAN_OPTIONS", format!("halt_on_error=1:suppressions={}", suppressions.display()));
    let ended = command::run(&mut cargo, Duration::from_secs(1500))?;
    if !ended.success {
        println!("tsan: {}", ended.why);
    }
    Ok(ended.success)
}

fn suppressions(target: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(target).with_context(|| target.display().to_string())?;
    let file = target.join("suppressions.txt");
    std::fs::write(&file, SUPPRESSIONS).with_context(|| file.display().to_string())?;
    Ok(file)
}

fn reach(root: &Path) -> Result<Reach> {
    let test = format!("crates/{PACKAGE}/tests/{TEST}.rs");
    if !root.join(&test).is_file() {
        return Ok(Reach::Nothing(format!("{test} does not exist")));
    }
    if host::program("rustup").is_none() {
        return Ok(Reach::Nothing("there is no rustup to find a nightly compiler with".into()));
    }
    let sysroot = nightly(&["--print", "sysroot"])?;
    if !sysroot.success {
        let remedy = "no nightly compiler; run `rustup toolchain install nightly`";
        return Ok(Reach::Nothing(remedy.into()));
    }
    let library = Path::new(sysroot.stdout.trim()).join("lib/rustlib/src/rust/library/Cargo.lock");
    Ok(if library.is_file() { Reach::Whole } else { Reach::Tree })
}

fn triple() -> Result<String> {
    let version = nightly(&["--version", "--verbose"])?;
    let host = version.stdout.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.unwrap_or("x86_64-unknown-linux-gnu").to_owned())
}

fn nightly(args: &[&str]) -> Result<command::Ended> {
    let mut rustc = Command::new("rustup");
    rustc.args(["run", "nightly", "rustc"]).args(args).env_remove("RUSTUP_TOOLCHAIN");
    command::run_quiet(&mut rustc, Duration::from_secs(60))
}
