//! The dynamic part of the heap, as one rank sees it.

use crate::dynamic_heap::{FreePages, OwnObjects, SharedWords};
use std::ptr::NonNull;
use std::sync::Mutex;

/// Words of the heap, used under a lock of all ranks.
#[derive(Debug)]
pub(crate) struct HeapWords {
    first: NonNull<u64>,
    len: usize,
}

// SAFETY: an address of the heap, which is accessed by raw copies alone (invariant 4).
unsafe impl Send for HeapWords {}
// SAFETY: as above; the lock of all ranks orders the copies.
unsafe impl Sync for HeapWords {}

impl HeapWords {
    /// Returns the words of an allocation of the heap.
    ///
    /// # Safety
    /// So many words from `first` on are an allocation of the heap, which stays mapped.
    pub(crate) unsafe fn over(first: NonNull<u8>, len: usize) -> Self {
        Self { first: first.cast(), len }
    }

    fn place(&self, at: usize) -> *mut u64 {
        assert!(at < self.len, "word {at} of {}", self.len);
        // SAFETY: inside the allocation (just checked).
        unsafe { self.first.as_ptr().add(at) }
    }
}

impl SharedWords for HeapWords {
    fn get(&self, at: usize) -> u64 {
        // SAFETY: an aligned word of the heap, which stays mapped as long as the process.
        unsafe { self.place(at).read() }
    }

    fn set(&self, at: usize, value: u64) {
        // SAFETY: as for `get`.
        unsafe { self.place(at).write(value) }
    }
}

/// The dynamic part of the heap, as one rank sees it.
#[derive(Debug)]
pub(crate) struct DynamicPart {
    /// First page, and number of pages.
    pub(crate) pages: (u64, u64),
    /// Lock of what follows.
    pub(crate) lock: u64,
    pub(crate) state: HeapWords,
    /// By page: the allocation that begins there.
    pub(crate) uses: HeapWords,
    /// Small objects that this rank has for itself.
    pub(crate) own: Mutex<OwnObjects>,
}

impl DynamicPart {
    /// Returns the list of free pages, to be used under the lock.
    pub(crate) fn free_pages(&self) -> FreePages<'_, HeapWords> {
        FreePages { state: &self.state, pages: self.pages.1 }
    }
}
