//! Kills random ranks of jobs under load, and checks each end.

use crate::{Folder, Job, signals};
use clump_os::clock;
pub use clump_test_tier::Sampler;
use std::time::Duration;

/// The results of a storm.
#[derive(Debug, Default)]
pub struct Seen {
    /// Longest time from the kill to the end of the launcher.
    pub end: Duration,
    /// Longest time from the kill to the end of the last process.
    pub gone: Duration,
    /// Errors of survivors that did not name the dead rank.
    pub unnamed: u32,
}

/// Kills `kills` ranks, one per job, at random moments of jobs that send messages all the time, on
/// so many nodes. Every job must end with the right report, the right code, and no process left.
/// `say` is called for each job.
///
/// # Panics
/// Panics if one does not; the message names the seed.
pub fn storm(kills: u32, seed: u64, nodes: u32, mut say: impl FnMut(&str)) -> Seen {
    let mut seen = Seen::default();
    for number in 0..kills {
        // A seed of its own for each job, so that one job can be repeated alone.
        let mut sampler = Sampler::new(seed.wrapping_add(u64::from(number)));
        let ranks = sampler.of(nodes.max(2)..=8);
        let victim = sampler.of(0..=ranks - 1);
        let signal =
            [signals::KILL, signals::KILL, signals::ABORT, signals::QUIT, signals::TERMINATE]
                [sampler.of(0..=4) as usize];
        let wait = Duration::from_micros(u64::from(sampler.of(0..=30_000)));
        let what = format!(
            "kill {number} (seed {seed}): rank {victim} of {ranks} on {nodes} nodes by signal {signal}"
        );
        say(&what);
        let folder = Folder::new();
        let talk = format!("talk 0 --ready {}", folder.path().display());
        let job = Job::of(&format!("-n {ranks} --nodes {nodes}"), &talk).start();
        job.await_ready(folder.path(), 0..ranks);
        let pid = job.rank(victim);
        // The moment of the kill must be random: there is no condition to wait for.
        let start = clock::instant();
        while start.elapsed() < wait {
            clock::yield_now();
        }
        job.signal(pid, signal);
        let ended = job.finish();
        let first = format!("clump: rank {victim} of `prog` was killed by signal {signal}");
        assert_eq!(ended.code, 128 + i32::from(signal), "{what}: exit code\n{}", ended.err);
        let report = ended.report();
        assert!(
            report.first().is_some_and(|line| line.starts_with(&first)),
            "{what}\n{}",
            ended.err
        );
        assert!(report.len() <= 15, "{what}: too long\n{}", ended.err);
        // A rank that returned an error names the dead rank, or a message that was returned by a
        // survivor which had ended before it could be told.
        for line in ended.err.lines().filter(|line| line.starts_with("prog:")) {
            let named = line.contains(&format!("rank {victim} "));
            assert!(named || line.contains(" came back "), "{what}: `{line}`");
            seen.unnamed += u32::from(!named);
        }
        seen.end = seen.end.max(ended.took);
        seen.gone = seen.gone.max(ended.gone);
    }
    seen
}
