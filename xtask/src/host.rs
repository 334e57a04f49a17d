//! The machine's state: environment, clock, the tree's root, the target folder, programs on the
//! path.
#![allow(
    clippy::disallowed_methods,
    reason = "xtask depends on no clump crate, so it cannot use clump_os::clock or clump_boot::config"
)]

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Returns the value of an environment variable.
pub fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the current time, to measure from.
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the number of processes that wanted to run in the last minute; 0 where it is not known.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Waits until the processors have idled for a tenth of a second, for at most `limit`.
pub fn await_idle(limit: Duration) {
    // Ticks of 10 ms of all processors, without those that they idled (proc_stat(5)).
    let busy = || -> u64 {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let ticks = fields.map(|ticks| ticks.parse().unwrap_or(0)).enumerate();
        ticks.filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, ticks): (usize, u64)| ticks).sum()
    };
    let started = now();
    loop {
        let before = busy();
        std::thread::sleep(Duration::from_millis(100));
        if busy().saturating_sub(before) <= 2 || started.elapsed() > limit {
            return;
        }
    }
}

/// Waits a moment between two checks of a child process.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// Returns the root of the tree that this xtask was built from.
///
/// # Errors
/// Fails if the folder of this xtask has no parent.
pub fn root() -> Result<PathBuf> {
    let xtask = env("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = xtask.parent().context("xtask lives in a folder of the workspace")?;
    Ok(root.to_owned())
}

/// Returns cargo's target folder: `CARGO_TARGET_DIR`, else `target` in the tree.
pub fn target(root: &Path) -> PathBuf {
    match env("CARGO_TARGET_DIR") {
        Some(dir) => root.join(dir),
        None => root.join("target"),
    }
}

/// Returns the full path of a program, if it is on `PATH`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}
