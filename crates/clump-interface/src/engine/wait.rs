//! A request that waits, and its lock.

use crate::memory::Memory;
use clump_onesided::{Comparison, FLAG_BYTES, FlagWords, Refusal};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_shm::queue_lock::{QueueLock, lock_words};

/// Maximum number of waits of an endpoint at one time: it is one thread, which waits for one thing.
pub(super) const MAX_WAITS: usize = 64;

/// Condition that a request waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaitTarget {
    /// A lock: the claimed position, once there was room for a claim; `stays`: the wait has no time
    /// limit.
    Lock { position: Option<u64>, stays: bool },
    /// A word that compares in this way to a value.
    Word(Comparison, u64),
}

/// A request that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) account: usize,
    pub(super) from: Name,
    pub(super) cookie: u64,
    pub(super) segment: SegmentName,
    pub(super) offset: u64,
    pub(super) what: WaitTarget,
    /// True if the rank of the claim before it was notified, where that is needed.
    pub(super) lined_up: bool,
}

impl Wait {
    pub(super) fn has_claim(&self) -> bool {
        matches!(self.what, WaitTarget::Lock { position: Some(_), .. })
    }

    /// Checks that a claim is recorded once it has a position.
    pub(super) fn check_invariants(&self) {
        match self.what {
            WaitTarget::Lock { position, .. } => {
                debug_assert_eq!(self.lined_up, position.is_some(), "a claim is recorded once");
            }
            WaitTarget::Word(..) => debug_assert!(self.lined_up, "a watch needs no record"),
        }
    }
}

/// Returns the flag at a place of a segment.
pub(super) fn flag_words<M: Memory>(
    memory: &mut M,
    segment: SegmentName,
    offset: u64,
) -> Result<FlagWords<'_>, Refusal> {
    let cells = memory.segment(segment, offset, FLAG_BYTES)?;
    debug_assert!(cells.holds(offset, FLAG_BYTES), "what may be accessed is mapped");
    FlagWords::over(cells, offset).ok_or(Refusal::Misaligned)
}

/// Returns the lock at a place of a segment.
pub(super) fn queue_lock<M: Memory>(
    memory: &mut M,
    ranks: u32,
    segment: SegmentName,
    offset: u64,
) -> Result<QueueLock<'_>, Refusal> {
    let count = lock_words(ranks as usize);
    let cells = memory.segment(segment, offset, count as u64 * 8)?;
    cells.words(offset, count).and_then(QueueLock::over).ok_or(Refusal::Misaligned)
}
