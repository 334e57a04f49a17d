//! Lock of a node between events of its interface and ranks that store what they have fetched: a
//! word of the node's memory.
//!
//! A rank has it for a copy of a page. The interface has it for an event, and takes in first what
//! ranks have noted: so its state never lacks what a rank has stored.

use crate::node_word::{STORE_LOCK_AT, node_word};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering, pause};
use clump_shm::cells::Cells;

/// Looks at a lock before its holder is offered the processor, and before a rank gives up.
const LOOKS: u32 = 64;
const MAX_LOOKS: u32 = 256;

/// The lock of a node, held until it is dropped.
#[derive(Debug)]
pub(crate) struct StoreLock<'a>(&'a AtomicU64);

impl<'a> StoreLock<'a> {
    /// Takes the lock, unless that takes long.
    fn take(word: &'a AtomicU64) -> Option<Self> {
        for look in 0..MAX_LOOKS {
            // SYNC 42: pairs with drop
            if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(Self(word));
            }
            if look < LOOKS { pause() } else { clock::yield_now() }
        }
        None
    }

    /// Takes the lock as a rank; none if the interface is in a long event.
    pub(crate) fn take_as_rank(cells: &'a Cells) -> Option<Self> {
        Self::take(node_word(cells, STORE_LOCK_AT)?)
    }

    /// Takes the lock as the interface: ranks do not have it for long. None once one has died,
    /// perhaps with the lock, and shared memory with it.
    pub(crate) fn take_as_interface(
        cells: &'a Cells,
        mut is_over: impl FnMut() -> bool,
    ) -> Option<Self> {
        let word = node_word(cells, STORE_LOCK_AT)?;
        loop {
            let lock = Self::take(word);
            if lock.is_some() || is_over() {
                return lock;
            }
        }
    }
}

impl Drop for StoreLock<'_> {
    fn drop(&mut self) {
        // SYNC 42: pairs with take
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_lock_until_it_is_dropped() {
        let word = AtomicU64::new(0);
        let lock = StoreLock::take(&word);
        assert!(lock.is_some() && StoreLock::take(&word).is_none());
        drop(lock);
        assert!(StoreLock::take(&word).is_some());
    }
}
