//! Many starts of jobs that use much shared memory: when they have ended, none is left.

use crate::{Job, program};
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;

/// Bytes of regions that each job has touched at least.
const TOUCHED_KIB: u64 = 32 << 10;

/// Runs `jobs` jobs of two nodes. Returns by how many KiB the shared memory of the machine grew.
///
/// # Errors
/// Fails if a job fails, or if as much shared memory is left as one job in ten has touched.
pub fn start_storm(jobs: u64) -> Result<u64> {
    let before = shared_kib()?;
    for job in 0..jobs {
        let program = program("regions");
        let ended = Job::of_program("-n 2 --nodes 2", program, [OsString::from("fill")]).finish();
        ensure!(ended.code == 0, "job {job} ended with {}: {}", ended.code, ended.err);
    }
    let kept = shared_kib()?.saturating_sub(before);
    let most = (jobs * TOUCHED_KIB / 10).max(8 * TOUCHED_KIB);
    ensure!(kept < most, "{kept} KiB of shared memory are left of {jobs} jobs");
    Ok(kept)
}

/// Returns the shared memory of the machine, mapped or not.
fn shared_kib() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:"));
    let value = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(value.context("no `Shmem` in /proc/meminfo")?.parse()?)
}
