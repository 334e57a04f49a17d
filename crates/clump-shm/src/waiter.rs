//! Waiting: spin, then yield, then sleep, and how long for each.
//!
//! With a core of one's own, spinning for about the cost of a wake-up is optimal up to a factor of
//! two (some microseconds across cores; the agent measures it). With more ranks than cores every
//! spun nanosecond is taken from the rank that is waited for, so the spin shrinks as soon as a
//! yield shows that another thread was runnable. Waiting adapts to what is observed, not to the
//! number of local ranks.

use crate::yielding::YieldPolicy;
use clump_os::clock;

/// Polls before the clock is read.
const BUSY_POLLS: u32 = 48;
/// Longest spin, in ns, of a job that starts as a crowded one, with more ranks than cores: it
/// yields at once.
pub const CROWDED_SPIN_NS: u64 = 1_000;

/// Spin policy of a rank, learnt from its yields; shared by its threads.
#[derive(Debug)]
pub struct SpinPolicy {
    spin: u64,
    yielding: u64,
    shares_processor: bool,
    /// True where time is virtual: waiting takes no time of the machine.
    sleeps_at_once: bool,
    yields: YieldPolicy,
}

impl SpinPolicy {
    /// Creates a policy with budgets in ns, from the job's creator.
    pub fn new(spin_ns: u64, yield_ns: u64) -> Self {
        let cycles = |ns: u64| ns * clock::cycles_per_us() / 1000;
        debug_assert!(clock::cycles_per_us() > 0, "the clock runs");
        let shares_processor = spin_ns <= CROWDED_SPIN_NS;
        let yields = YieldPolicy::new(shares_processor);
        let (spin, yielding) = (cycles(spin_ns), cycles(yield_ns));
        Self { spin, yielding, shares_processor, sleeps_at_once: false, yields }
    }

    /// Returns the policy of a rank whose time is virtual: it neither spins nor yields.
    #[must_use]
    pub fn sleeping_at_once(self) -> Self {
        // Each step is then one of those that decide.
        let yields = YieldPolicy::new(true);
        debug_assert!(yields.crowded(), "no step polls again without a decision");
        Self { sleeps_at_once: true, yields, ..self }
    }

    /// Returns true if the job was created with more ranks than processors.
    pub fn shares_processor(&self) -> bool {
        self.shares_processor
    }

    /// Returns the yield policy.
    #[inline]
    pub fn yields(&self) -> &YieldPolicy {
        &self.yields
    }

    /// Returns how long to yield before sleeping, in cycles.
    pub(crate) fn yielding(&self) -> u64 {
        self.yielding
    }

    /// Returns true if the last yields let another thread run.
    #[inline]
    pub fn crowded(&self) -> bool {
        self.yields.crowded()
    }
}

/// Next step of the waiting caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitStep {
    /// Poll again at once.
    Poll,
    /// This call yielded; poll again.
    Yielded,
    /// Waited long enough awake: sleep.
    Sleep,
}

/// One wait.
#[derive(Debug)]
pub struct Waiter<'a> {
    spin_policy: &'a SpinPolicy,
    polls: u32,
    started: u64,
    yields: u32,
}

impl<'a> Waiter<'a> {
    /// Starts to wait.
    #[inline]
    pub fn new(spin_policy: &'a SpinPolicy) -> Self {
        Self { spin_policy, polls: 0, started: 0, yields: 0 }
    }

    /// Starts again with spinning, because something happened.
    #[inline]
    pub fn reset(&mut self) {
        (self.polls, self.started, self.yields) = (0, 0, 0);
    }

    /// Takes the next step: nothing happened since the last poll.
    #[inline]
    pub fn step(&mut self) -> WaitStep {
        self.polls += 1;
        if self.polls < BUSY_POLLS && !self.spin_policy.crowded() {
            return WaitStep::Poll;
        }
        self.slow()
    }

    #[cold]
    fn slow(&mut self) -> WaitStep {
        debug_assert!(self.started != 0 || self.yields == 0, "no yield before the clock is read");
        debug_assert!(self.polls != 0, "the first step counts a poll");
        if self.spin_policy.sleeps_at_once {
            return WaitStep::Sleep;
        }
        let now = clock::cycles();
        if self.started == 0 {
            self.started = now;
        }
        let waited = now.wrapping_sub(self.started);
        let crowded = self.spin_policy.crowded();
        let spin = if crowded { 0 } else { self.spin_policy.spin };
        if waited < spin {
            clump_os::sync::pause();
            return WaitStep::Poll;
        }
        let enough = waited >= spin + self.spin_policy.yielding && self.yields >= 2;
        if enough || !self.spin_policy.yields.is_worthwhile() {
            return WaitStep::Sleep;
        }
        debug_assert!(waited >= spin, "a waiter spins before it yields");
        self.spin_policy.yields.offer();
        self.yields += 1;
        WaitStep::Yielded
    }
}
