//! Many starts of jobs that use much shared memory: when they have ended, none is left. Every other
//! job has a shared heap, and counts what its ranks and agents hold as it goes on.

use crate::{Job, program, within_limit};
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;

/// Maximum growth of the machine's shared memory, in KiB, however many jobs there were: room for
/// what others on the machine begin to use meanwhile. Each job touches 32 MiB. Ten that leave all
/// of it are too many, and so are 1,000 that leave 1 MiB each.
const MAX_GROWTH_KIB: u64 = 256 << 10;

/// Maximum number of readings at either end of a storm that are compared.
const WINDOW: usize = 50;

/// Runs `jobs` jobs of two nodes. Returns by how many KiB the shared memory of the machine grew.
///
/// # Errors
/// Fails if a job fails, or if shared memory grew.
pub fn start_storm(jobs: u64) -> Result<u64> {
    let mut readings = vec![shared_kib()?];
    for job in 0..jobs {
        let (name, words) = if job % 2 == 0 { ("regions", "fill") } else { ("svm", "steady 20") };
        let words = words.split(' ').map(OsString::from);
        let ended = Job::of_program("-n 2 --nodes 2", program(name), words).finish();
        ensure!(ended.code == 0, "job {job} ended with {}: {}", ended.code, ended.err);
        readings.push(shared_kib()?);
    }
    // Others give back what they use, tests beside this one too; what a job left stays.
    let settled = within_limit(|| {
        let now = shared_kib().ok()?;
        readings.last_mut().map(|last| *last = now.min(*last))?;
        growth_kib(&readings).ok()
    });
    settled.map_or_else(|| growth_kib(&readings), Ok)
}

/// Returns the growth of shared memory over readings in KiB, one before each job and one after the
/// last: that of its minimum from the first to the last of them, so that what other processes use
/// for a moment does not count.
///
/// # Errors
/// Fails if it grew by more than others on the machine may explain.
pub fn growth_kib(readings: &[u64]) -> Result<u64> {
    let window = (readings.len() / 5).clamp(1, WINDOW);
    let first = readings.iter().take(window).min();
    let last = readings.iter().rev().take(window).min();
    let kept = last.zip(first).map_or(0, |(last, first)| last.saturating_sub(*first));
    let jobs = readings.len().saturating_sub(1);
    ensure!(kept < MAX_GROWTH_KIB, "{kept} KiB of shared memory are left of {jobs} jobs");
    Ok(kept)
}

/// Returns the shared memory of the machine, mapped or not.
fn shared_kib() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:"));
    let value = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(value.context("no `Shmem` in /proc/meminfo")?.parse()?)
}
