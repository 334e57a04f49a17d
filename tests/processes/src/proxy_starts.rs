//! Many starts of jobs whose nodes have proxies, beside load, with processes paused at random: an
//! endpoint that opens while a message for it arrives must not lose the message.

use crate::storm::Sampler;
use crate::{Job, Running, signals};
use clump_os::sync::{AtomicBool, Ordering};
use clump_os::{clock, process};
use std::time::Duration;

/// Runs `jobs` jobs of random shapes, each of which passes a few barriers and ends. `say` is called
/// for each.
///
/// # Panics
/// Panics if one does not end well; the message names the seed.
pub fn proxy_starts(jobs: u32, seed: u64, mut say: impl FnMut(&str)) {
    let ended = AtomicBool::new(false);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let _end = End(&ended);
        for _ in 0..processors {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for number in 0..jobs {
            // A seed of its own for each job, so that one job can be repeated alone.
            let mut sampler = Sampler::new(seed.wrapping_add(u64::from(number)));
            let nodes = sampler.of(2..=5);
            let ranks = sampler.of(nodes..=3 * nodes);
            let (proxies, barriers) = (sampler.of(1..=2), sampler.of(0..=3));
            let options = format!("-n {ranks} --nodes {nodes} --ni proxy:{proxies}");
            say(&format!("start {number} (seed {seed}): {options}"));
            let job = Job::of(&options, &format!("barrier {barriers}")).start();
            pause_some(&job, &mut sampler);
            job.finish().expect_clean();
        }
    });
}

/// Ends the load, also when a job has failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Pauses agents and ranks of a job, one after the other, for moments that are far shorter than the
/// time after which a node counts as lost.
fn pause_some(job: &Running, sampler: &mut Sampler) {
    for _ in 0..sampler.of(0..=8) {
        let launcher = job.launcher();
        let mut paused = job.processes();
        paused.retain(|process| process.pid != launcher);
        let Some(process) = paused.get(sampler.of(0..=99) as usize % paused.len().max(1)) else {
            // None has started yet.
            clock::yield_now();
            continue;
        };
        // One that has ended meanwhile is not there to be paused.
        let _ = process::signal(process.pid, signals::STOP);
        clock::pass(Duration::from_micros(u64::from(sampler.of(0..=5_000))));
        let _ = process::signal(process.pid, signals::CONTINUE);
    }
}
