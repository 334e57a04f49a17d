//! Processes that could run but do not.

use clump_os::procfs::{self, Process};
use std::cell::Cell;

/// Part of the time for which a starved process waits for a processor. Agents need one for less
/// than a hundredth.
const STARVED_SHARE: u64 = 4;

/// The waits of a process for processors, as seen from time to time.
#[derive(Debug)]
pub(super) struct ProcessorWaits {
    /// Time of the last look, and for how long it had waited by then.
    looked: Cell<(u64, u64)>,
}

impl ProcessorWaits {
    /// Watches a process that has just been started.
    pub(super) fn new(now_ns: u64) -> Self {
        Self { looked: Cell::new((now_ns, 0)) }
    }

    /// Returns true if process `pid` waits for a processor or a disk now, or has waited for a
    /// processor for a quarter of the time since the last call. One that is stopped, or waits for
    /// something to happen, is not starved.
    pub(super) fn is_starved(&self, pid: u32, now_ns: u64) -> bool {
        let waited_ns = procfs::waited_ns(pid).unwrap_or(0);
        let (then_ns, had_waited_ns) = self.looked.replace((now_ns, waited_ns));
        debug_assert!(then_ns <= now_ns, "time runs forward");
        let share_ns = ((now_ns - then_ns) / STARVED_SHARE).max(1);
        let has_waited = waited_ns.saturating_sub(had_waited_ns) >= share_ns;
        Process::read(pid).is_some_and(|own| own.is_runnable() || has_waited && !own.is_stopped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::{clock, process, signal};
    use std::process::Command;

    #[test]
    fn a_process_that_computes_is_starved_at_most_and_a_stopped_one_is_not() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let (pid, waits) = (child.id(), ProcessorWaits::new(clock::now_ns()));
        let pidfd = process::pidfd(pid).unwrap();
        let limit_ns = clock::now_ns() + 60_000_000_000;
        let becomes = |starved: bool| {
            while waits.is_starved(pid, clock::now_ns()) != starved {
                assert!(clock::now_ns() < limit_ns, "never {starved}");
                std::thread::yield_now();
            }
        };
        becomes(true);
        process::signal_by_fd(&pidfd, signal::STOP).unwrap();
        becomes(false);
        process::signal_by_fd(&pidfd, signal::CONTINUE).unwrap();
        becomes(true);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!waits.is_starved(pid, clock::now_ns()), "it is gone");
    }
}
