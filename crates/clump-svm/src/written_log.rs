//! Pages that a rank has found written and not reported, at releases without a call and as pages
//! were taken from it: a ring in memory of the node, filled by the rank, emptied by the interface.

use crate::mailbox::{LOG_PAGES, MAILBOX_BYTES, RightsStep};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// Words before the entries: how many were written, and how many were taken.
const HEAD: usize = 2;
/// Entries of the ring.
const ENTRIES: u64 = LOG_PAGES * MAILBOX_BYTES / 8 - HEAD as u64;

/// Log of one rank, as either side sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenLog<'a> {
    words: &'a [AtomicU64],
}

impl<'a> WrittenLog<'a> {
    /// Returns the log at a place, if the region is mapped there.
    pub(crate) fn over(cells: &'a Cells, at: u64) -> Option<Self> {
        debug_assert!(at.is_multiple_of(MAILBOX_BYTES), "logs are pages");
        cells.words(at, HEAD + ENTRIES as usize).map(|words| Self { words })
    }

    fn entry(&self, at: u64) -> &AtomicU64 {
        &self.words[HEAD + (at % ENTRIES) as usize]
    }

    /// Appends pages, as the rank. Returns false, and appends nothing, if they do not fit.
    pub(crate) fn append(&self, written: &[RightsStep]) -> bool {
        let end = self.words[0].load(Ordering::Relaxed);
        // SYNC 32: pairs with take
        let taken = self.words[1].load(Ordering::Acquire);
        let free = ENTRIES.saturating_sub(end.wrapping_sub(taken));
        if written.len() as u64 > free {
            return false;
        }
        for (at, step) in (end..).zip(written) {
            self.entry(at).store(step.pack(), Ordering::Relaxed);
        }
        // SYNC 33: pairs with take
        self.words[0].store(end + written.len() as u64, Ordering::Release);
        true
    }

    /// Returns true if the interface has taken all pages.
    pub(crate) fn is_empty(&self) -> bool {
        // SYNC 32: pairs with take
        self.words[0].load(Ordering::Relaxed) == self.words[1].load(Ordering::Acquire)
    }

    /// Takes all pages, as the interface, which trusts nothing in the log.
    pub(crate) fn take(&self) -> Vec<RightsStep> {
        // SYNC 33: pairs with append
        let end = self.words[0].load(Ordering::Acquire);
        let begin = self.words[1].load(Ordering::Relaxed);
        let count = end.wrapping_sub(begin).min(ENTRIES);
        let entry =
            |at| RightsStep::unpack(self.entry(begin.wrapping_add(at)).load(Ordering::Relaxed));
        let steps = (0..count).map(entry).collect();
        // SYNC 32: pairs with append
        self.words[1].store(end, Ordering::Release);
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_out_once_and_never_overflow() {
        let words: Vec<_> = (0..LOG_PAGES * MAILBOX_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        let log = WrittenLog { words: &words };
        let step = |first| RightsStep { first, pages: 2, access: None };
        let mut next = 0;
        for round in 0..40 {
            let steps: Vec<_> = (next..next + 1000 + round).map(step).collect();
            assert!(log.append(&steps[..50]) && log.append(&steps[50..]));
            assert_eq!(log.take(), steps);
            assert!(log.take().is_empty());
            next += 1000 + round;
        }
        let all: Vec<_> = (0..ENTRIES as u32).map(step).collect();
        assert!(log.append(&all) && !log.append(&all[..1]), "full");
        assert_eq!(log.take().len(), all.len());
        assert!(log.append(&all[..1]));
    }
}
