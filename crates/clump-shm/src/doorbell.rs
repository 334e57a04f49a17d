//! The doorbell of an endpoint: one bit for each armed lane and queue that has messages.

use crate::geometry::MAX_LANES;
use crate::park::Park;
use crate::shared::{Shared, SharedLayout};
use clump_os::alarm::Alarm;
use clump_os::fence::{self, FenceKind};
use clump_os::sync::{AtomicU32, AtomicU64, Ordering, Site, order};
use std::cell::Cell;
use std::sync::Arc;

/// Words of lane bits; the word behind them belongs to the queues.
pub const LANE_WORDS: usize = 16;
/// Bit of the shared queue of requests.
pub const REQUEST_QUEUE: u32 = (LANE_WORDS * 64) as u32;
/// Bit of the shared queue of replies.
pub const REPLY_QUEUE: u32 = REQUEST_QUEUE + 1;
/// Bit of the messages that the network has queued for the endpoint.
pub const NETWORK_ARRIVALS: u32 = REQUEST_QUEUE + 2;

// Every lane of an endpoint has a bit, behind them all queues have theirs, and the summary has one
// for each word.
const _: () = assert!(LANE_WORDS * 64 == MAX_LANES && LANE_WORDS + 1 < 64);
const _: () = assert!(NETWORK_ARRIVALS < ((LANE_WORDS + 1) * 64) as u32);

/// One bit per lane and queue, and a summary that a poll reads: one load while no doorbell rings.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Doorbell {
    summary: AtomicU64,
    words: [AtomicU64; LANE_WORDS + 1],
}

// SAFETY: atomics only.
unsafe impl SharedLayout for Doorbell {}

impl Doorbell {
    /// Sets `bit`.
    pub fn ring(&self, bit: u32) {
        let word = (bit / 64) as usize;
        let Some(cell) = self.words.get(word) else {
            clump_bug::bug!("no lane and no queue has bit {bit}");
            return;
        };
        debug_assert!(bit <= NETWORK_ARRIVALS, "no queue has bit {bit}");
        // SYNC 4: pairs with collect
        cell.fetch_or(1 << (bit % 64), order(Site::DoorbellRing, Ordering::AcqRel));
        self.summary.fetch_or(1 << word, order(Site::DoorbellRing, Ordering::AcqRel));
    }

    /// Returns the summary word: not zero if the doorbell was rung.
    pub fn summary(&self) -> &AtomicU64 {
        &self.summary
    }

    /// Returns true if the doorbell was rung since the last [`Doorbell::collect`].
    #[inline(always)]
    pub fn rung(&self) -> bool {
        self.summary.load(Ordering::Relaxed) != 0
    }

    /// Clears all bits and passes them to `each`.
    #[cold]
    pub fn collect(&self, mut each: impl FnMut(u32)) {
        // SYNC 4: pairs with ring
        let mut summary = self.summary.swap(0, Ordering::AcqRel) & ((2 << LANE_WORDS) - 1);
        while summary != 0 {
            let word = summary.trailing_zeros();
            summary &= summary - 1;
            debug_assert!((word as usize) < self.words.len(), "the mask leaves words that exist");
            let mut bits = self.words[word as usize].swap(0, Ordering::AcqRel);
            while bits != 0 {
                each(word * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// A sender's handle to the doorbell and park of its receiver.
#[derive(Debug, Clone)]
pub struct DoorbellHandle {
    /// The receiver's doorbell.
    pub doorbell: Shared<Doorbell>,
    /// Park on which the receiver sleeps.
    pub park: Shared<Park>,
    /// Alarm that wakes the receiver there, on a job with several nodes.
    pub alarm: Option<Arc<Alarm>>,
    /// This sender's bit.
    pub bit: u32,
    /// Fence between publishing and the check for sleepers.
    pub fence: FenceKind,
    /// Rings and wake-ups so far.
    pub tally: Cell<Tally>,
}

/// Numbers of rings, and of those that took a system call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Doorbells rung.
    pub rings: u64,
    /// Sleepers woken.
    pub wakes: u64,
}

impl DoorbellHandle {
    /// Rings if the receiver does not poll the lane. To be called after each publication in a lane.
    #[inline(always)]
    pub fn after_publish(&self, hot: &AtomicU32) {
        fence::light(self.fence);
        if hot.load(Ordering::Relaxed) == 0 {
            self.ring();
        }
    }

    /// Rings, and wakes the receiver if it sleeps.
    #[cold]
    pub fn ring(&self) {
        self.doorbell.ring(self.bit);
        let woke = self.park.wake_if_asleep(self.fence, self.alarm.as_deref());
        let Tally { rings, wakes } = self.tally.get();
        debug_assert!(wakes <= rings, "a ring wakes once");
        self.tally.set(Tally { rings: rings + 1, wakes: wakes + u64::from(woke) });
    }
}
