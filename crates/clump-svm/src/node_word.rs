//! Words of a node in the first page of its region of mailboxes, and their places.

use crate::protocol_step::REQUEST_KINDS;
use clump_os::sync::AtomicU64;
use clump_shm::cells::Cells;

/// Requests that woke the protocol thread, a word for each kind.
pub(crate) const WOKEN_AT: u64 = 0;
/// True if the node has written and seen nothing since the last barrier.
pub(crate) const UNCHANGED_AT: u64 = 64;
/// True if no node had anything to tell at the last barrier.
pub(crate) const LAST_UNCHANGED_AT: u64 = 72;
/// Lock between events of the interface and stores of fetched pages.
pub(crate) const STORE_LOCK_AT: u64 = 192;
/// Ranks with notes of fetched pages, as bits, modulo 64; changed under that lock.
pub(crate) const NOTED_AT: u64 = 200;
/// Time on which the node's copies of pages may depend, as [`crate::published_time`] has it.
pub(crate) const SEEN_AT: u64 = 256;
/// Messages that the interface has sent.
pub(crate) const SENT_AT: u64 = 128;
/// Those with diffs.
pub(crate) const SENT_DIFFS_AT: u64 = 136;

const _: () = assert!(WOKEN_AT + 8 * REQUEST_KINDS.len() as u64 <= UNCHANGED_AT);

/// Returns the word at this place of the region of mailboxes.
pub(crate) fn node_word(cells: &Cells, at: u64) -> Option<&AtomicU64> {
    let word = cells.word(at);
    debug_assert!(word.is_some(), "the region is mapped");
    word
}
