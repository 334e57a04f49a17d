//! Traffic of an endpoint by destination: a row of cells behind its lanes, one for each rank and
//! network interface of the job.
//!
//! The owner of the endpoint writes it ([`TrafficRow`]), now and then: what it sends by a lane is
//! counted where the lane's position is, and published by its housekeeping. Cells that were never
//! written are in pages that do not exist, so a row costs a page for each 64 peers with traffic,
//! and its readers read only the pages that the endpoint's block marks.

use crate::block::EndpointBlock;
use crate::geometry::TRAFFIC_PAGES;
use crate::shared::{Shared, SharedLayout, SharedSlice};
use crate::slot::MAX_WORDS;
use clump_os::map::PAGE;
use clump_os::sync::{AtomicU64, Ordering};
use std::cell::Cell;

/// Cells of a page of a row.
pub(crate) const CELLS_OF_PAGE: usize = PAGE / size_of::<TrafficCell>();

/// Messages sent, and their payload bytes, by size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Short messages.
    pub short: u64,
    /// Bytes of their words.
    pub short_bytes: u64,
    /// Medium messages.
    pub medium: u64,
    /// Bytes of their payloads.
    pub medium_bytes: u64,
    /// Long messages.
    pub long: u64,
    /// Bytes of their payloads.
    pub long_bytes: u64,
}

impl Traffic {
    fn words(self) -> [u64; 6] {
        let Self { short, short_bytes, medium, medium_bytes, long, long_bytes } = self;
        [short, short_bytes, medium, medium_bytes, long, long_bytes]
    }

    /// Returns the sum of both; numbers wrap.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let mut sums = self.words();
        for (sum, word) in sums.iter_mut().zip(other.words()) {
            *sum = sum.wrapping_add(word);
        }
        Self::from_words(sums)
    }

    fn from_words(words: [u64; 6]) -> Self {
        let [short, short_bytes, medium, medium_bytes, long, long_bytes] = words;
        Self { short, short_bytes, medium, medium_bytes, long, long_bytes }
    }
}

/// Traffic of an endpoint to one destination.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct TrafficCell([AtomicU64; 8]);

// SAFETY: atomics only.
unsafe impl SharedLayout for TrafficCell {}

impl TrafficCell {
    /// Returns the traffic so far.
    pub(crate) fn read(&self) -> Traffic {
        let mut words = [0; 6];
        for (word, cell) in words.iter_mut().zip(&self.0) {
            *word = cell.load(Ordering::Relaxed);
        }
        let traffic = Traffic::from_words(words);
        debug_assert_eq!(traffic.words(), words, "it is read as it was written");
        traffic
    }
}

/// The row of an endpoint, for its owner.
#[derive(Debug, Clone)]
pub struct TrafficRow {
    block: Shared<EndpointBlock>,
    cells: SharedSlice<TrafficCell>,
}

impl TrafficRow {
    pub(crate) fn new(block: Shared<EndpointBlock>, cells: SharedSlice<TrafficCell>) -> Self {
        debug_assert!(cells.len() <= TRAFFIC_PAGES * CELLS_OF_PAGE, "the block marks all pages");
        Self { block, cells }
    }

    /// Adds traffic to `to`, a rank or network interface of the job.
    pub fn add(&self, to: u32, traffic: Traffic) {
        let Some(cell) = self.cells.get(to as usize) else {
            clump_bug::bug!("nothing is sent to {to}, which does not exist");
            return;
        };
        if traffic == Traffic::default() {
            return;
        }
        let page = to as usize / CELLS_OF_PAGE;
        if !self.block.has_traffic(page) {
            self.block.mark_traffic(page);
        }
        for (cell, word) in cell.0.iter().zip(traffic.words()) {
            cell.store(cell.load(Ordering::Relaxed).wrapping_add(word), Ordering::Relaxed);
        }
    }
}

/// Traffic by one path that its endpoint has not published yet.
///
/// Messages of words alone are not counted here if sent by a lane: the lane's position is their
/// number. Other users of its slots are therefore counted as well.
#[derive(Debug, Default)]
pub(crate) struct Unpublished {
    /// Medium messages, long ones, and short ones that no lane took.
    sent: Traffic,
    /// Messages that went back to their sender; they are in the lane, and in no count.
    returned: u64,
    /// Words of long messages and of those that went back, and stamps.
    words: u64,
    /// Short messages that stayed in their endpoint, from bit 32 on, and their words.
    own: Cell<u64>,
}

impl Unpublished {
    /// Counts a message with a payload beside its slot.
    #[inline(always)]
    pub(crate) fn medium(&mut self, bytes: usize) {
        debug_assert!(u32::try_from(bytes).is_ok(), "longer than a header says");
        self.sent.medium = self.sent.medium.wrapping_add(1);
        self.sent.medium_bytes = self.sent.medium_bytes.wrapping_add(bytes as u64);
    }

    /// Counts a long message that took `words`.
    #[cold]
    pub(crate) fn long(&mut self, words: &[u64]) {
        debug_assert!(words.len() >= 2, "offset and length come first");
        self.sent.long += 1;
        self.sent.long_bytes += words.get(1).copied().unwrap_or(0);
        self.words += words.len() as u64;
    }

    /// Counts a message that went back to its sender as none, after it was counted by its payload,
    /// if it has one.
    #[cold]
    pub(crate) fn returned(&mut self, words: usize, payload: usize) {
        debug_assert!(words <= MAX_WORDS, "more words than two slots hold");
        self.returned += 1;
        if payload == 0 {
            self.words += words as u64;
        } else {
            self.sent.medium = self.sent.medium.wrapping_sub(1);
            self.sent.medium_bytes = self.sent.medium_bytes.wrapping_sub(payload as u64);
        }
    }

    /// Counts a short message that no lane took.
    pub(crate) fn short(&mut self, words: usize) {
        debug_assert!(words <= MAX_WORDS, "more words than two slots hold");
        self.sent.short = self.sent.short.wrapping_add(1);
        self.sent.short_bytes = self.sent.short_bytes.wrapping_add(words as u64 * 8);
    }

    /// Counts a short message that stayed in its endpoint.
    #[inline(always)]
    pub(crate) fn own(&self, words: usize) {
        debug_assert!(words <= MAX_WORDS, "more words than two slots hold");
        self.own.set(self.own.get().wrapping_add((1 << 32) + words as u64));
    }

    /// Counts a word less of a short message.
    #[cold]
    pub(crate) fn without_word(&mut self) {
        self.sent.short_bytes = self.sent.short_bytes.wrapping_sub(8);
    }

    /// Returns what was counted since the last call; `lane`: messages by the lane since then and
    /// words of those without a payload beside them, if there is one.
    pub(crate) fn take(&mut self, lane: Option<(u64, u64)>) -> Traffic {
        let Self { mut sent, returned, words, own } = std::mem::take(self);
        debug_assert!(self.returned == 0 && self.sent == Traffic::default(), "taken twice");
        // Housekeeping comes every few thousand messages: neither half overflows.
        let (mut messages, mut short_words) = (own.get() >> 32, own.get() & 0xffff_ffff);
        if let Some((all, of_all)) = lane {
            let others = sent.medium.wrapping_add(sent.long).wrapping_add(returned);
            messages = messages.wrapping_add(all).wrapping_sub(others);
            short_words = short_words.wrapping_add(of_all).wrapping_sub(words);
        }
        sent.short = sent.short.wrapping_add(messages);
        sent.short_bytes = sent.short_bytes.wrapping_add(short_words.wrapping_mul(8));
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lane_carried_beside_short_messages_is_no_short_message() {
        let mut unpublished = Unpublished::default();
        unpublished.medium(100);
        unpublished.long(&[4096, 1000, 7]);
        unpublished.returned(2, 0);
        unpublished.medium(40);
        unpublished.returned(5, 40);
        unpublished.own(3);
        unpublished.without_word();
        // Of the lane: a medium, a long of 3 words, a returned one of 2 and one with a payload, and
        // 5 short ones of 2.
        let all = unpublished.take(Some((9, 3 + 2 + 10)));
        let wanted = Traffic {
            short: 6,
            short_bytes: 80 + 24 - 8,
            medium: 1,
            medium_bytes: 100,
            long: 1,
            long_bytes: 1000,
        };
        assert_eq!(all, wanted);
        assert_eq!(unpublished.take(Some((0, 0))), Traffic::default(), "it is counted once");
        assert_eq!(wanted.plus(wanted).medium_bytes, 200);
    }
}
