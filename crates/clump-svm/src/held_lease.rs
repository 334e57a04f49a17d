//! Lease of a page that this rank has: it fetches the page, and stores it.

use crate::fetch_log::{FetchLog, FetchNote};
use crate::mailbox::fetch_log_place;
use crate::node_pages::PAGE;
use crate::node_word::{NOTED_AT, node_word};
use crate::page_leases::{LeaseTable, LeaseTerms, PageLease};
use crate::store_lock::StoreLock;
use clump_os::sync::Ordering;
use clump_shm::cells::Cells;

/// A lease, which is given up when it is dropped.
#[derive(Debug)]
pub(crate) struct HeldLease<'a> {
    cells: &'a Cells,
    lease: PageLease<'a>,
    log: FetchLog<'a>,
    local_rank: u32,
    terms: LeaseTerms,
}

impl<'a> HeldLease<'a> {
    /// Takes the lease of a page, if it is open and the rank's log has room for a note.
    pub(crate) fn take(
        cells: &'a Cells,
        table: LeaseTable,
        (local_rank, page): (u32, u32),
    ) -> Option<Self> {
        let log = FetchLog::over(cells, fetch_log_place(local_rank))?;
        let lease = table.lease(cells, page).filter(|_| log.has_room())?;
        let terms = lease.take(local_rank)?;
        Some(Self { cells, lease, log, local_rank, terms })
    }

    /// Returns its terms.
    pub(crate) fn terms(&self) -> LeaseTerms {
        self.terms
    }

    /// Ends the fetch: `store` stores the page, and the interface will find the note, with the
    /// bytes if the page has no twin and is to have one. Returns true if the interface should take
    /// the notes soon; none if an event has concerned the page meanwhile, or if it has no memory.
    pub(crate) fn end(
        self,
        note: &FetchNote,
        twin: Option<&[u8; PAGE]>,
        store: impl FnOnce() -> bool,
    ) -> Option<bool> {
        let noted = node_word(self.cells, NOTED_AT)?;
        let _lock = StoreLock::take_as_rank(self.cells)?;
        if !self.lease.is_held(self.local_rank) || !store() {
            return None;
        }
        self.log.append(note, twin);
        noted.fetch_or(1 << (self.local_rank % u64::BITS), Ordering::Relaxed);
        self.lease.close();
        Some(self.log.is_half_full())
    }
}

impl Drop for HeldLease<'_> {
    fn drop(&mut self) {
        self.lease.give_up(self.local_rank);
    }
}
