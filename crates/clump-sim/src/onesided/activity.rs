//! The current operation of a rank.

use super::model::SharedSum;
use crate::kernel::Time;
use clump_onesided::LockTurn;

/// The operation that follows a quiet: a long put, a check of what was put, or the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    PutLong {
        owner: u32,
        at: u64,
        len: u64,
        seed: u64,
    },
    Verify {
        owner: u32,
        at: u64,
        len: u64,
    },
    /// The end, after the faults.
    Finish,
}

/// Current operation of a rank.
#[derive(Debug, Clone)]
pub(crate) enum CallerActivity {
    Nothing,
    /// An addition that returns the value before it.
    Adding {
        cookie: u64,
        owner: u32,
        sum: SharedSum,
    },
    Quiet {
        cookies: Vec<(u32, u64)>,
        next: Next,
    },
    Getting {
        cookie: u64,
        owner: u32,
        at: u64,
        len: u64,
    },
    /// A signal of its own segment.
    AwaitsSignal {
        from: u32,
        n: u64,
    },
    AsksLock {
        home: u32,
        cookie: u64,
        until: Time,
        cancelled: bool,
    },
    AwaitsLock {
        home: u32,
        turn: LockTurn,
        until: Time,
    },
    Holds {
        home: u32,
        position: u64,
        word: u64,
        /// Number of the claim at the lock's home; 0: the lock is on this node.
        cookie: u64,
        until: Time,
    },
    AsksFlag {
        home: u32,
        cookie: u64,
        value: u64,
        until: Time,
        cancelled: bool,
    },
    AwaitsFlag {
        home: u32,
        value: u64,
        until: Time,
    },
    /// Additions to words of any nodes, forwarded by the interface of one.
    Spreads {
        cookie: u64,
        via: u32,
        /// Ranks whose words they are, as bits.
        owners: u64,
    },
    /// A word of another node: the signal of a rank to its owner.
    AsksWhen {
        owner: u32,
        from: u32,
        cookie: u64,
        n: u64,
        until: Time,
        cancelled: bool,
    },
    /// Waits until this many proxies report that all it sent has arrived.
    Leaving(u32),
}

impl CallerActivity {
    /// Returns true if it waits for a change in memory of its own node.
    pub(crate) fn waits_near(&self) -> bool {
        matches!(
            self,
            Self::AwaitsSignal { .. }
                | Self::AwaitsLock { .. }
                | Self::AwaitsFlag { .. }
                | Self::Leaving(_)
        )
    }

    /// Returns true if it waits for anything.
    pub(crate) fn waits(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Holds { .. })
    }

    /// Returns the time at which it acts by itself; `next`: time of the next operation.
    pub(crate) fn due(&self, next: Time) -> Time {
        match self {
            Self::Nothing => next,
            Self::Holds { until, .. }
            | Self::AwaitsLock { until, .. }
            | Self::AwaitsFlag { until, .. } => *until,
            Self::AsksLock { until, cancelled: false, .. }
            | Self::AsksFlag { until, cancelled: false, .. }
            | Self::AsksWhen { until, cancelled: false, .. } => *until,
            _ => Time::MAX,
        }
    }
}
