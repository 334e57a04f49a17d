//! `cargo xtask tsan`: the queue stress test under ThreadSanitizer.
//!
//! Needs the nightly compiler and the standard library's source, because every crate must be built with
//! the sanitizer. ThreadSanitizer does not understand fences; what rests on one is for loom to check.

use crate::{command, host};
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PACKAGE: &str = "clump-shm";
const TEST: &str = "stress";

/// Runs the stress test; says what is missing where it cannot.
pub fn run(root: &Path) -> Result<bool> {
    if let Some(reason) = missing(root)? {
        println!("SKIPPED tsan: {reason}");
        return Ok(true);
    }
    let triple = triple()?;
    let args = ["test", "-Zbuild-std", "--target", &triple, "--package", PACKAGE, "--test", TEST];
    let mut cargo = command::cargo_nightly(root, &args);
    cargo
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("CARGO_TARGET_DIR", host::target(root).join("tsan"))
        .env("TSAN_OPTIONS", "halt_on_error=1");
    let ended = command::run(&mut cargo, Duration::from_secs(1500))?;
    if !ended.success {
        println!("tsan: {}", ended.why);
    }
    Ok(ended.success)
}

/// What keeps this machine from running it, if anything.
pub fn missing(root: &Path) -> Result<Option<String>> {
    if !root.join(format!("crates/{PACKAGE}/tests/{TEST}.rs")).is_file() {
        return Ok(Some(format!("crates/{PACKAGE}/tests/{TEST}.rs does not exist")));
    }
    if host::program("rustup").is_none() {
        return Ok(Some("there is no rustup to find a nightly compiler with".into()));
    }
    let sysroot = nightly(&["--print", "sysroot"])?;
    if !sysroot.success {
        return Ok(Some("no nightly compiler; run `rustup toolchain install nightly`".into()));
    }
    let library = Path::new(sysroot.stdout.trim()).join("lib/rustlib/src/rust/library/Cargo.lock");
    Ok((!library.is_file()).then(|| {
        "the nightly compiler has no rust-src; run `rustup component add rust-src --toolchain nightly`"
            .into()
    }))
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
