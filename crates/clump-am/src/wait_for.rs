//! Events that blocking calls wait for.

use crate::error::Result;
use clump_shm::rank::WaitReason;
use std::time::Duration;

/// Longest sleep without a wake-up: the condition may be one that no message announces.
pub(crate) const NAP: Duration = Duration::from_millis(10);

/// Time until a delayed message is due that is too short to sleep: timers wake late by as much.
pub(crate) const TOO_SHORT: Duration = Duration::from_micros(150);

/// The event that a blocking call waits for.
pub trait WaitFor {
    /// Returns true once it has happened. Called after every poll of the endpoints.
    fn done(&mut self) -> Result<bool>;
    /// Returns the reason that is shown while this rank waits.
    fn waiting(&self) -> WaitReason;
    /// Called before this rank announces itself asleep.
    fn before_sleep(&mut self) {}
    /// Called once this rank has announced itself asleep, before `done` is called a last time:
    /// requests wake-ups from the peers on which it depends.
    fn announced(&mut self) {}
    /// Called when it is awake again.
    fn after_sleep(&mut self) {}
    /// The rank that must act for this to come, when there is a single one to name.
    fn depends_on(&self) -> Option<u32> {
        None
    }
    /// Returns the longest sleep between two polls.
    fn nap(&self) -> Duration {
        NAP
    }
    /// Returns true if a failure of another endpoint of the thread does not end the wait: it is
    /// kept, and a later call reports it. So do waits on which other ranks depend: a rank that left
    /// one for a reason of its own would leave them behind.
    fn keeps_failures(&self) -> bool {
        false
    }
}

/// Waits for a condition of the program; of a call, at the rank that has to answer it.
pub(crate) struct Condition<F>(pub(crate) F, pub(crate) Option<u32>);

impl<F: FnMut() -> bool> WaitFor for Condition<F> {
    #[inline]
    fn done(&mut self) -> Result<bool> {
        Ok((self.0)())
    }

    fn waiting(&self) -> WaitReason {
        self.1.map_or(WaitReason::Condition, |peer| WaitReason::Call { peer })
    }
}

/// Waits until an attempt to send succeeds.
pub(crate) struct Room<F, A> {
    pub(crate) attempt: F,
    /// Requests a wake-up from the target, for when there is room.
    pub(crate) ask: A,
    pub(crate) peer: u32,
    /// Longest sleep between two attempts.
    pub(crate) nap: Duration,
}

impl<F: FnMut() -> Result<bool>, A: FnMut()> WaitFor for Room<F, A> {
    fn done(&mut self) -> Result<bool> {
        (self.attempt)()
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Room { peer: self.peer }
    }

    fn announced(&mut self) {
        (self.ask)();
    }

    fn nap(&self) -> Duration {
        self.nap
    }

    /// An error that is not the message's does not show if the message was sent.
    fn keeps_failures(&self) -> bool {
        true
    }
}
