//! Time sources of an interface. In a process time is that of the machine, and passes by itself; in
//! a simulation the clock is told of the work done, and advances by its cost.

use clump_net::Stack;
use clump_os::clock;

/// Work of an interface, reported to clocks that do not run by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// It began a turn: polled lanes, shared queue and driver.
    Look,
    /// It took a message, with this many bytes of payload, out of a rank's lane.
    Take(usize),
    /// It put a message, with this many bytes of payload, into an endpoint's lane.
    Bring(usize),
    /// It executed a one-sided operation with this many bytes of payload.
    Execute(usize),
}

/// Time source of an interface.
pub trait Clock {
    /// Returns nanoseconds since some time of this process: cheap.
    fn ticked_ns(&self) -> u64;

    /// Returns nanoseconds of the clock that all processes of the machine share.
    fn now_ns(&self) -> u64;

    /// Notes work that was done.
    #[inline(always)]
    fn spend(&self, work: Work) {
        let _ = work;
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct MachineClock;

impl Clock for MachineClock {
    #[inline(always)]
    fn ticked_ns(&self) -> u64 {
        clock::ticked_ns()
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }
}

/// A stack, and the clock that its work advances.
pub struct Wire<'a, C> {
    /// The stack.
    pub stack: &'a mut Stack,
    /// Its source of time.
    pub clock: &'a C,
}
