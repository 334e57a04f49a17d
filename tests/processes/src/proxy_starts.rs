//! Many starts of jobs whose nodes have proxies, beside load, with processes and single threads
//! paused at random: an endpoint that opens while a message for it arrives must not lose the
//! message.

use crate::storm::Sampler;
use crate::{Job, Running, signals};
use clump_os::procfs::Process;
use clump_os::stopped_thread::StoppedThread;
use clump_os::sync::{AtomicBool, Ordering};
use clump_os::{clock, process, procfs};
use std::time::Duration;

/// Pauses that were made.
#[derive(Debug, Default, Clone, Copy)]
pub struct Pauses {
    /// Of whole processes.
    pub processes: u32,
    /// Of single threads, while the others of their process went on.
    pub threads: u32,
    /// Of threads that this user may not stop.
    pub refused: u32,
}

/// Runs `jobs` jobs of random shapes, each of which passes a few barriers and ends. `say` is called
/// for each. Returns the pauses.
///
/// # Panics
/// Panics if one does not end well; the message names the seed.
pub fn proxy_starts(jobs: u32, seed: u64, mut say: impl FnMut(&str)) -> Pauses {
    let mut pauses = Pauses::default();
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
            pause_some(&job, &mut sampler, &mut pauses);
            job.finish().expect_clean();
        }
    });
    pauses
}

/// Ends the load, also when a job has failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Pauses agents and ranks of a job, or single threads of them, one after the other, for moments
/// that are far shorter than the time after which a node counts as lost. Ends early if the job
/// does.
fn pause_some(job: &Running, sampler: &mut Sampler, pauses: &mut Pauses) {
    let launcher = job.launcher();
    let random =
        |sampler: &mut Sampler, most| Duration::from_micros(u64::from(sampler.of(0..=most)));
    let mut left = sampler.of(0..=8);
    while left > 0 {
        let (launchers, paused): (Vec<_>, Vec<_>) =
            job.processes().into_iter().partition(|process| process.pid == launcher);
        let Some(process) = one_of(&paused, sampler) else {
            if launchers.is_empty() {
                return;
            }
            // None has started yet.
            clock::yield_now();
            continue;
        };
        left -= 1;
        let moment = random(sampler, 5_000);
        match sampler.of(0..=2) {
            0 => pause_process(process, moment, pauses),
            _ => pause_thread(process, moment, sampler, pauses),
        }
        clock::pass(random(sampler, 10_000));
    }
}

fn one_of<'a, T>(all: &'a [T], sampler: &mut Sampler) -> Option<&'a T> {
    all.get(sampler.of(0..=99) as usize % all.len().max(1))
}

/// Pauses all threads of a process; one that has ended meanwhile is not there to be paused.
fn pause_process(process: &Process, moment: Duration, pauses: &mut Pauses) {
    pauses.processes += u32::from(process::signal(process.pid, signals::STOP).is_ok());
    clock::pass(moment);
    let _ = process::signal(process.pid, signals::CONTINUE);
}

/// Pauses one thread of a process.
fn pause_thread(process: &Process, moment: Duration, sampler: &mut Sampler, pauses: &mut Pauses) {
    let threads = procfs::threads(process.pid);
    let Some((thread, _)) = one_of(&threads, sampler) else { return };
    match StoppedThread::stop(*thread) {
        Ok(Some(_stopped)) => {
            pauses.threads += 1;
            clock::pass(moment);
        }
        Ok(None) => {}
        Err(_) => pauses.refused += 1,
    }
}
