//! Sleeping and waking, without a fence on the waker's fast path.
//!
//! A thread that is about to sleep announces itself in `asleep`, executes the heavy half of the
//! asymmetric fence, checks for work once more, and only then sleeps on `seq`. A waker that has
//! published work reads `asleep` after the light half. Either the sleeper sees the work or the
//! waker sees the sleeper (`clump_os::fence`).
//!
//! On a job with several nodes a rank has an [`Alarm`] too, which every process of its node holds.
//! Then it sleeps on that and on its network socket ([`Park::sleep_on`]), and wakers ring it. An
//! alarm stays rung until it is cleared, and only the last sleeper to leave clears it. If another
//! thread has come to sleep meanwhile, for which the ring may have been meant, it rings again.

use clump_os::alarm::{Alarm, Woken};
use clump_os::fence::{self, FenceKind};
use clump_os::futex;
use clump_os::sync::{AtomicU32, Ordering};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Sleeping place of the threads of one rank.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Park {
    seq: AtomicU32,
    asleep: AtomicU32,
}

// SAFETY: atomics only.
unsafe impl crate::shared::SharedLayout for Park {}

/// Proof that a thread announced itself; holds the sequence number it saw.
#[derive(Debug)]
#[must_use = "an announced sleeper has to sleep or to withdraw"]
pub struct Announced(u32);

impl Park {
    /// Announces a sleeper. The caller must check for work after this, then [`Park::sleep`] or
    /// [`Park::withdraw`].
    pub fn announce(&self, kind: FenceKind) -> Announced {
        let seen = self.seq.load(Ordering::Acquire);
        // SYNC 1: pairs with wake_if_asleep
        // SYNC 8: pairs with sleep_on
        let sleepers = self.asleep.fetch_add(1, Ordering::SeqCst);
        debug_assert!(sleepers < u32::MAX, "every announcement is used up");
        fence::heavy(kind);
        Announced(seen)
    }

    #[allow(clippy::needless_pass_by_value, reason = "an announcement is used up")]
    /// Sleeps until this rank is woken, or for `limit`; returns false when that is over.
    pub fn sleep(&self, announced: Announced, limit: Option<Duration>) -> bool {
        let woken = futex::wait(&self.seq, announced.0, limit);
        let sleepers = self.asleep.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(sleepers != 0, "a thread announces itself before it sleeps");
        woken
    }

    #[allow(clippy::needless_pass_by_value, reason = "an announcement is used up")]
    /// Sleeps until `alarm`, this rank's own, is rung, or `other` has something to read, or for
    /// `limit`. May return early for no reason.
    pub fn sleep_on(
        &self,
        announced: Announced,
        alarm: &Alarm,
        other: Option<BorrowedFd<'_>>,
        limit: Option<Duration>,
    ) -> Woken {
        let Announced(seen) = announced;
        // A ring that came since the announcement may have been cleared by another sleeper.
        let woken = if self.seq.load(Ordering::SeqCst) == seen {
            alarm.wait(other, limit)
        } else {
            Woken { rung: true, other: false }
        };
        // SYNC 8: pairs with announce
        // The ring that is cleared here may have been for another thread.
        let sleepers = self.asleep.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(sleepers != 0, "a thread announces itself before it sleeps");
        let last = sleepers == 1;
        if last && woken.rung && alarm.clear() && self.asleep.load(Ordering::SeqCst) != 0 {
            alarm.ring();
        }
        woken
    }

    #[allow(clippy::needless_pass_by_value, reason = "an announcement is used up")]
    /// Withdraws the announcement of a thread that found work after all.
    pub fn withdraw(&self, announced: Announced) {
        let Announced(_) = announced;
        let sleepers = self.asleep.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(sleepers != 0, "an announcement is withdrawn once");
    }

    /// Returns true if a thread of this rank sleeps or is about to; call after publishing and a
    /// light fence.
    #[inline(always)]
    pub fn anyone_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// Wakes the rank if it sleeps, by its alarm if it has one. Returns true when a system call was
    /// made.
    #[inline]
    pub fn wake_if_asleep(&self, kind: FenceKind, alarm: Option<&Alarm>) -> bool {
        fence::light(kind);
        // SYNC 1: pairs with announce
        if !self.anyone_asleep() {
            return false;
        }
        self.wake(alarm);
        true
    }

    /// Wakes every thread of the rank, asleep or about to be, by its alarm if it has one.
    pub fn wake(&self, alarm: Option<&Alarm>) {
        self.seq.fetch_add(1, Ordering::SeqCst);
        match alarm {
            Some(alarm) => alarm.ring(),
            None => futex::wake_all(&self.seq),
        }
    }
}
