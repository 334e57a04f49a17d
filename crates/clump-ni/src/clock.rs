//! Where an interface's time comes from. In a process it is that of the machine, and passes by itself; in a
//! simulation it is told what was done, and passes by what that costs.

use clump_net::Stack;
use clump_os::clock;

/// What an interface did, for clocks that do not run by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// It began a turn: looked at lanes, shared queue and driver.
    Look,
    /// It took a message, with so many bytes of payload, out of a rank's lane.
    Take(usize),
    /// It put a message, with so many bytes of payload, into an endpoint's lane.
    Bring(usize),
    /// It executed a one-sided operation with so many bytes of payload.
    Execute(usize),
}

/// See the module.
pub trait Clock {
    /// Nanoseconds since some time of this process: cheap.
    fn ticked_ns(&self) -> u64;

    /// Nanoseconds of the clock that all processes of the machine share.
    fn now_ns(&self) -> u64;

    /// Something was done.
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

/// A stack, and the time that its work takes.
pub(crate) struct Wire<'a, C> {
    pub(crate) stack: &'a mut Stack,
    pub(crate) clock: &'a C,
}
