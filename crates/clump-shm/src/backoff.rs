//! Backoff of a program's own polling loop: repeated polls that find nothing yield the processor.
//!
//! A loop `while !seen { poll() }` waits without saying so. With a core of its own such a loop is
//! the fastest way to wait, and disturbing it gains nothing. With more ranks, proxies or programs
//! than cores it keeps the processor from the rank that is to send what it waits for. The cost of a
//! yield tells the two apart ([`crate::yielding`]): one that returns at once is followed by twice
//! as many polls before the next, one that let others run by few. Where yields run a program that
//! computes, the loop sleeps for a moment instead, as a blocking call would, and is woken by
//! arrivals.
//!
//! A program that works between its polls does not wait. The time between polls ([`PollWindow`]),
//! or what it sends and handles meanwhile, shows it, and it never yields.

use crate::waiter::{SpinPolicy, WaitStep};
use crate::yielding::Yielded;
use clump_os::clock;

/// Empty polls between two checks for a due yield, with a core of one's own.
pub const WINDOW: u32 = 256;
/// Empty polls between two such checks where the last yield let others run.
pub const CROWDED_WINDOW: u32 = 2;

/// Time of empty polls before the first yield, in ns; doubled by each yield that returns at once.
const MIN_PAUSE_NS: u64 = 2_000;
/// Longest time between yields: they cost less than a thousandth of it.
const MAX_PAUSE_NS: u64 = 1_000_000;

/// Longest time per poll, in ns, of a program that does nothing in between. An empty poll takes
/// some 10 ns, several times as much without optimization.
const BACK_TO_BACK_NS: u64 = if cfg!(debug_assertions) { 2_000 } else { 200 };

// The pause grows from one limit to the other, and a crowd is looked for more often.
const _: () = assert!(2 * MIN_PAUSE_NS <= MAX_PAUSE_NS && CROWDED_WINDOW < WINDOW);

fn cycles(ns: u64) -> u64 {
    ns * clock::cycles_per_us() / 1000
}

/// A run of polls and the time it took, which shows if the program did anything else between them.
#[derive(Debug, Clone, Copy, Default)]
pub struct PollWindow {
    /// Number of the first poll.
    from: u32,
    /// Time at which the run began, in cycles; 0 if it has not.
    began: u64,
}

impl PollWindow {
    /// A window that has not begun.
    pub const NONE: Self = Self { from: 0, began: 0 };

    /// Begins with the poll of that number; numbers wrap.
    pub fn begin(&mut self, poll: u32) {
        (self.from, self.began) = (poll, clock::cycles());
    }

    /// Returns true if the polls up to number `poll` have followed each other without much between
    /// them.
    pub fn is_back_to_back(&self, poll: u32) -> bool {
        self.took_at_most(poll, clock::cycles().wrapping_sub(self.began), cycles(BACK_TO_BACK_NS))
    }

    fn took_at_most(&self, poll: u32, took: u64, each: u64) -> bool {
        self.began != 0 && took <= u64::from(poll.wrapping_sub(self.from)).saturating_mul(each)
    }
}

/// Empty polls of one thread.
#[derive(Debug, Default)]
pub struct PollBackoff {
    /// Time of the first of them, in cycles; 0 before.
    since: u64,
    /// Messages sent and handled by then.
    activity: u64,
    /// Yields since.
    yields: u32,
    /// Cycles of empty polls before the next yield, with a core of one's own; 0 before the first.
    pause: u64,
}

impl PollBackoff {
    /// Begins a new run: the program does something else than polling, and has sent and handled
    /// `activity` messages so far.
    pub fn begin(&mut self, activity: u64) {
        (self.since, self.activity, self.yields) = (clock::cycles().max(1), activity, 0);
    }

    /// Yields if it is time. To be called after a window of empty polls, with the number of
    /// messages that the thread has sent and handled so far. Returns [`WaitStep::Sleep`] if other
    /// programs compute: sleep for a moment instead.
    pub fn step(&mut self, spin_policy: &SpinPolicy, activity: u64) -> WaitStep {
        let now = clock::cycles();
        if self.since == 0 || activity != self.activity {
            self.begin(activity);
            return WaitStep::Poll;
        }
        match self.due(now.wrapping_sub(self.since), spin_policy) {
            WaitStep::Yielded => {
                debug_assert!(self.since != 0, "yields are counted in a run");
                self.yields += 1;
                let yielded = spin_policy.yields().offer();
                self.note(yielded);
                WaitStep::Yielded
            }
            WaitStep::Sleep => {
                // The cost of the next yields shows if the others are still there.
                (self.since, self.yields) = (now, 0);
                WaitStep::Sleep
            }
            WaitStep::Poll => WaitStep::Poll,
        }
    }

    /// Notes that something arrived during the last yield or sleep. Perhaps others ran, however
    /// short it was, so the next yield comes as soon as the first. Not at once: with a core of its
    /// own a loop that yields for as long as a round trip takes would find something each time.
    pub fn note_arrival(&mut self) {
        self.pause = 0;
    }

    /// Returns the number of empty polls before the next step.
    pub fn window(spin_policy: &SpinPolicy) -> u32 {
        if spin_policy.crowded() { CROWDED_WINDOW } else { WINDOW }
    }

    /// Returns the step after `idle` cycles of empty polls.
    fn due(&self, idle: u64, spin_policy: &SpinPolicy) -> WaitStep {
        self.check_invariants();
        if !spin_policy.crowded() {
            let pause = self.pause.max(cycles(MIN_PAUSE_NS));
            return if idle >= pause { WaitStep::Yielded } else { WaitStep::Poll };
        }
        let enough = self.yields >= 2 && idle >= spin_policy.yielding();
        if enough || !spin_policy.yields().is_worthwhile() {
            WaitStep::Sleep
        } else {
            WaitStep::Yielded
        }
    }

    fn note(&mut self, yielded: Yielded) {
        self.pause = match yielded {
            Yielded::Alone => {
                (self.pause * 2).clamp(cycles(2 * MIN_PAUSE_NS), cycles(MAX_PAUSE_NS))
            }
            Yielded::Shared | Yielded::Long => 0,
        };
        self.check_invariants();
    }

    /// Asserts the relations between the fields.
    fn check_invariants(&self) {
        debug_assert!(
            self.pause == 0
                || (cycles(2 * MIN_PAUSE_NS)..=cycles(MAX_PAUSE_NS)).contains(&self.pause),
            "a pause lies between its limits"
        );
        debug_assert!(
            self.pause == 0 || self.pause > cycles(MIN_PAUSE_NS),
            "a yield that returned at once is followed by a longer pause than the first"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_with_work_between_them_are_told() {
        let window = PollWindow { from: u32::MAX, began: 1 };
        assert!(window.took_at_most(3, 40, 10) && !window.took_at_most(3, 41, 10));
        assert!(!PollWindow::default().took_at_most(3, 1, 10), "it has not begun");
    }

    #[test]
    fn with_a_core_of_ones_own_yields_become_rare() {
        let (mut backoff, spin_policy) = (PollBackoff::default(), SpinPolicy::new(10_000, 2_000));
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let pause = (0..)
                .map(|i| i << 10)
                .find(|&idle| backoff.due(idle, &spin_policy) != WaitStep::Poll);
            pauses.push(pause.unwrap());
            backoff.note(Yielded::Alone);
        }
        assert!(pauses.is_sorted() && pauses[11] >= cycles(MAX_PAUSE_NS), "{pauses:?}");
        assert_eq!(backoff.due(cycles(MAX_PAUSE_NS) + 1, &spin_policy), WaitStep::Yielded);
        backoff.note(Yielded::Shared);
        assert_eq!(backoff.due(cycles(MIN_PAUSE_NS), &spin_policy), WaitStep::Yielded);
    }

    #[test]
    fn in_a_crowd_it_yields_at_once_then_sleeps() {
        let (mut backoff, spin_policy) = (PollBackoff::default(), SpinPolicy::new(0, 50_000));
        assert!(spin_policy.crowded());
        assert_eq!(backoff.due(0, &spin_policy), WaitStep::Yielded);
        backoff.yields = 2;
        assert_eq!(backoff.due(spin_policy.yielding() - 1, &spin_policy), WaitStep::Yielded);
        assert_eq!(backoff.due(spin_policy.yielding(), &spin_policy), WaitStep::Sleep);
    }

    #[test]
    fn a_program_that_sends_or_handles_does_not_wait() {
        let (mut backoff, spin_policy) = (PollBackoff::default(), SpinPolicy::new(0, 50_000));
        for activity in 0..100 {
            assert_eq!(backoff.step(&spin_policy, activity), WaitStep::Poll);
        }
        assert_ne!(backoff.step(&spin_policy, 99), WaitStep::Poll);
        backoff.begin(99);
        assert_eq!(backoff.step(&spin_policy, 100), WaitStep::Poll);
    }
}
