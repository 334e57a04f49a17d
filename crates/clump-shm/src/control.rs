//! The control lines of a lane: its owner, its credit, and its poll flag.

use crate::geometry::MAX_LANES;
use crate::shared::SharedLayout;
use crate::slot::Slot;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering};

/// Control lines of a lane.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct LaneControl {
    owner: OwnerLine,
    pub(crate) temperature: PollFlag,
    /// Padding: the sender reads the fields before this with every message, and processors prefetch
    /// neighbouring lines.
    apart: [Slot; 2],
    pub(crate) credit: CreditLine,
    behind: [Slot; 3],
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct OwnerLine {
    /// Name of the sending endpoint; zero while the lane is free.
    owner: AtomicU64,
    /// One more than the lane at the sender's endpoint that takes replies; zero: this lane carries
    /// replies.
    link: AtomicU64,
    /// Set by a sender that will send no more.
    retired: AtomicU32,
    /// For a lane of replies: [`TAKEN_UP`] if its sender took it up, [`WITHDRAWN`] if it was too
    /// late.
    answer: AtomicU32,
}

// Each is written by another side, and has a line of its own.
#[cfg(not(loom))]
const _: () = assert!(size_of::<OwnerLine>() == 64 && size_of::<CreditLine>() == 64);

/// The replying endpoint uses the lane. It frees it once the requester has closed, or reports that
/// it needs it no more.
const TAKEN_UP: u32 = 1;
/// The requester closed before the replying endpoint took up the lane, or the latter needs it no
/// more.
const WITHDRAWN: u32 = 2;

#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct CreditLine {
    pub(crate) head: AtomicU64,
    pub(crate) bulk_head: AtomicU64,
    /// A [`CreditRequest`] that is not answered yet, or 0. Written by the sender, cleared by the
    /// receiver.
    pub(crate) requested: AtomicU32,
}

/// A credit request of a waiting sender: what it is to be woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum CreditRequest {
    /// Room for more: a quarter of the ring has been read, or everything.
    Room = 1,
    /// Everything has been read.
    Drained = 2,
}

impl CreditRequest {
    /// Decodes a request from bits; other processes write them.
    fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            1 => Some(Self::Room),
            2 => Some(Self::Drained),
            _ => None,
        }
    }
}

impl CreditLine {
    /// Returns the credit request that waits for an answer.
    pub(crate) fn request(&self) -> Option<CreditRequest> {
        // SYNC 18: pairs with LaneSender::request_credit
        CreditRequest::from_bits(self.requested.load(Ordering::Acquire))
    }
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct PollFlag {
    /// Zero while notification is armed; 1 while the receiver polls the lane.
    pub(crate) hot: AtomicU32,
}

// SAFETY: atomics only.
unsafe impl SharedLayout for LaneControl {}

impl LaneControl {
    /// Claims the lane for the endpoint named `owner`; returns false when it is taken.
    pub fn claim(&self, owner: u64, link: u64) -> bool {
        debug_assert!(owner != 0, "the owner of a free lane");
        debug_assert!(link <= MAX_LANES as u64, "a lane at the sender, or none");
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.owner.owner.compare_exchange(0, owner, new, old).is_err() {
            return false;
        }
        self.owner.retired.store(0, Ordering::Relaxed);
        self.owner.answer.store(0, Ordering::Relaxed);
        self.credit.requested.store(0, Ordering::Relaxed);
        self.owner.link.store(link, Ordering::Release);
        true
    }

    /// Returns the name of the sending endpoint; zero while the lane is free.
    pub fn owner(&self) -> u64 {
        self.owner.owner.load(Ordering::Acquire)
    }

    /// Returns the lane for replies at the sender's endpoint; `None` when this one carries replies
    /// itself.
    pub fn link(&self) -> Option<u64> {
        self.owner.link.load(Ordering::Acquire).checked_sub(1)
    }

    /// Returns true if the sender has retired the lane: it sends no more.
    pub fn retired(&self) -> bool {
        self.owner.retired.load(Ordering::Acquire) != 0
    }

    /// Retires the lane: the sender sends no more. Its receiver frees the lane once it has read
    /// everything.
    pub fn retire(&self) {
        self.owner.retired.store(1, Ordering::Release);
    }

    /// Takes the lane up for the replying endpoint; returns false when it may not use it any more.
    pub fn take_up(&self) -> bool {
        let (new, old) = (Ordering::AcqRel, Ordering::Acquire);
        let answer = self.owner.answer.compare_exchange(0, TAKEN_UP, new, old);
        answer.is_ok() || answer == Err(TAKEN_UP)
    }

    /// Ends the use of the lane by the replying endpoint, which has taken it up and will send no
    /// more.
    pub fn conclude(&self) {
        self.owner.answer.store(WITHDRAWN, Ordering::Release);
    }

    /// Withdraws the lane for the closed requester; returns false when the replying endpoint took
    /// it up, and may still send.
    pub fn withdraw(&self) -> bool {
        let (new, old) = (Ordering::AcqRel, Ordering::Acquire);
        let answer = self.owner.answer.compare_exchange(0, WITHDRAWN, new, old);
        answer.is_ok() || answer == Err(WITHDRAWN)
    }

    /// Returns true if the lane was ever claimed since it was last reset.
    pub fn was_used(&self) -> bool {
        self.owner() != 0
            || self.owner.link.load(Ordering::Relaxed) != 0
            || self.owner.answer.load(Ordering::Relaxed) != 0
            || self.stand() != (0, 0)
    }

    /// Resets the lane to its initial state; unread messages are dropped. Only while it has neither
    /// sender nor receiver.
    pub fn reset(&self, slots: &[Slot]) {
        debug_assert!(slots.len().is_power_of_two(), "all slots of the lane");
        for slot in slots {
            slot.header.store(0, Ordering::Relaxed);
        }
        self.credit.head.store(0, Ordering::Relaxed);
        self.credit.bulk_head.store(0, Ordering::Relaxed);
        self.credit.requested.store(0, Ordering::Relaxed);
        self.temperature.hot.store(0, Ordering::Relaxed);
        self.owner.link.store(0, Ordering::Relaxed);
        self.owner.answer.store(0, Ordering::Relaxed);
        self.free();
    }

    /// Returns the positions in slots and bulk ring that the last user left. Sending never reaches
    /// [`FARTHEST`].
    pub(crate) fn stand(&self) -> (u64, u64) {
        let head = self.credit.head.load(Ordering::Acquire);
        (head & FARTHEST, self.credit.bulk_head.load(Ordering::Acquire) & FARTHEST)
    }

    /// Frees the lane: its old owner may not use it any more.
    pub fn free(&self) {
        self.owner.owner.store(0, Ordering::Release);
    }
}

/// Layout on which speed depends: the line of credit, which the receiver writes, is not
/// prefetched with those that the sender reads.
#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(LaneControl, credit) >= offset_of!(LaneControl, temperature) + 3 * 64);
    assert!(offset_of!(LaneControl, temperature) >= 64);
    assert!(offset_of!(LaneControl, behind) >= offset_of!(LaneControl, credit) + 64);
};
const _: () = assert!(TAKEN_UP != 0 && WITHDRAWN != 0 && TAKEN_UP != WITHDRAWN);

/// Positions end here, far from where counting on would overflow: centuries of sending.
pub(crate) const FARTHEST: u64 = u64::MAX >> 2;
