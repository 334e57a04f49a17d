//! Payload blocks beside a shared queue, each claimed by one sender at a time.

use crate::shared::{SharedLayout, SharedSlice};
use clump_os::sync::{AtomicU64, Ordering};
use std::ptr::NonNull;

/// State of the payload block with the same index: zero free, else one more than its claimer's
/// rank.
#[derive(Debug, Default)]
#[repr(C)]
pub struct BlockState {
    pub(super) claimer: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl SharedLayout for BlockState {}

/// The payload blocks beside a queue.
#[derive(Debug, Clone)]
pub struct Blocks {
    pub(super) states: SharedSlice<BlockState>,
    base: NonNull<u8>,
    /// Bytes of each.
    pub(super) each: usize,
}

// SAFETY: only raw copies go through `base`; `states` keeps the memory mapped.
unsafe impl Send for Blocks {}

impl Blocks {
    /// # Safety
    /// `states.len() * each` bytes from `base` stay mapped while `states` lives.
    pub unsafe fn new(states: SharedSlice<BlockState>, base: NonNull<u8>, each: usize) -> Self {
        debug_assert!(each != 0, "a block holds words or a payload");
        Self { states, base, each }
    }

    pub(super) fn claim(&self, rank: u32) -> Option<usize> {
        let (mine, new, old) = (u64::from(rank) + 1, Ordering::Acquire, Ordering::Relaxed);
        let is_free = |s: &BlockState| s.claimer.compare_exchange(0, mine, new, old).is_ok();
        self.states.iter().position(is_free)
    }

    pub(super) fn free(&self, block: usize) {
        let Some(state) = self.states.get(block) else {
            clump_bug::bug!("a block was claimed, or its number was checked");
            return;
        };
        state.claimer.store(0, Ordering::Release);
    }

    pub(super) fn address(&self, block: usize) -> NonNull<u8> {
        debug_assert!(block < self.states.len());
        // SAFETY: `new` required that many bytes; callers pass an index below the number of blocks.
        unsafe { self.base.add(block * self.each) }
    }
}
