//! The block of an endpoint in shared memory: access word, tag, segment, doorbell, counters.

use crate::access::AccessLine;
pub use crate::access::Openness;
use crate::doorbell::Doorbell;
use crate::export::SegmentName;
use crate::geometry::{COUNTERS, ENDPOINT_HEADER, TRAFFIC_PAGES};
use crate::queue::QueueTail;
use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU64, Ordering};

/// Cells of a table of times by powers of two.
pub const INTERVALS: usize = 40;

/// Header of an endpoint's block.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct EndpointBlock {
    access: AccessLine,
    doorbell: Doorbell,
    pub(crate) tails: [QueueTail; 2],
    counters: [AtomicU64; COUNTERS],
    /// Times between two sends, by powers of two.
    send_intervals: [AtomicU64; INTERVALS],
    /// Times between two barriers of the rank, where the endpoint is that of its collectives.
    barrier_intervals: [AtomicU64; INTERVALS],
    /// Pages of the row of traffic that hold anything, a bit each. Behind all else: on most jobs
    /// only the first words are used.
    traffic_pages: [AtomicU64; TRAFFIC_PAGES.div_ceil(64)],
}

// SAFETY: atomics only.
unsafe impl SharedLayout for EndpointBlock {}
const _: () = assert!(size_of::<EndpointBlock>() <= ENDPOINT_HEADER);
// Fields that senders read with every message and fields that they write are in separate lines.
const _: () = assert!(size_of::<AccessLine>() == 64 && align_of::<Doorbell>() == 64);

impl EndpointBlock {
    /// Returns true if the endpoint is open under the generation behind `open_word`, and its tag is
    /// `tag`.
    #[inline(always)]
    pub(crate) fn admits(&self, open_word: u64, tag: u64) -> bool {
        self.access.is_open_as(open_word) && self.admits_tag(tag)
    }

    /// Returns the words that [`EndpointBlock::admits`] compares: state and tag.
    pub(crate) fn access_words(&self) -> (&AtomicU64, &AtomicU64) {
        self.access.words()
    }

    /// Returns true if senders with `tag` may send.
    #[inline(always)]
    pub fn admits_tag(&self, tag: u64) -> bool {
        self.access.admits_tag(tag)
    }

    /// Returns true if the endpoint is open under the generation behind `open_word`.
    #[inline(always)]
    pub(crate) fn is_open_as(&self, open_word: u64) -> bool {
        self.access.is_open_as(open_word)
    }

    /// Returns the state of the endpoint of this generation, of one load of its word.
    pub fn openness(&self, generation: u32) -> Openness {
        self.access.openness(generation)
    }

    /// Returns the generation last opened here, zero for none, and true if it is open.
    pub(crate) fn last_opened(&self) -> (u32, bool) {
        self.access.last_opened()
    }

    pub(crate) fn open(&self, generation: u32, tag: u64) {
        self.access.open(generation, tag);
    }

    pub(crate) fn close(&self, generation: u32) {
        self.access.close(generation);
    }

    /// Returns the tag that senders must pass.
    pub fn tag(&self) -> u64 {
        self.access.tag()
    }

    /// Admits every tag from now on, or only the endpoint's own.
    pub fn set_everyone(&self, everyone: bool) {
        self.access.set_everyone(everyone);
    }

    /// Changes the tag; messages already queued were admitted under the old one.
    pub fn set_tag(&self, tag: u64) {
        self.access.set_tag(tag);
    }

    /// Returns the name of the segment that takes deposits for the endpoint; `None` if it has none.
    #[inline]
    pub fn segment(&self) -> Option<SegmentName> {
        self.access.segment()
    }

    /// For the owner: names the segment that takes deposits from now on, exported before.
    pub fn set_segment(&self, name: SegmentName) {
        self.access.set_segment(name);
    }

    /// Returns the endpoint's doorbell.
    #[inline(always)]
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// Returns the endpoint's counters; written by its owner alone.
    pub fn counters(&self) -> &[AtomicU64; COUNTERS] {
        &self.counters
    }

    /// Returns the endpoint's times between two sends; written by its owner alone.
    pub fn send_intervals(&self) -> &[AtomicU64; INTERVALS] {
        &self.send_intervals
    }

    /// Returns the times between two barriers of the rank whose collectives the endpoint serves.
    pub fn barrier_intervals(&self) -> &[AtomicU64; INTERVALS] {
        &self.barrier_intervals
    }

    /// For the owner: notes that page `page` of its row of traffic holds something.
    #[cold]
    pub(crate) fn mark_traffic(&self, page: usize) {
        let Some(cell) = self.traffic_pages.get(page / 64) else {
            clump_bug::bug!("a row has a bit for each of its pages");
            return;
        };
        let marked = cell.load(Ordering::Relaxed) | 1 << (page % 64);
        cell.store(marked, Ordering::Relaxed);
        debug_assert!(self.has_traffic(page), "readers look at that page");
    }

    /// Returns true if page `page` of the endpoint's row of traffic may hold something.
    pub(crate) fn has_traffic(&self, page: usize) -> bool {
        let cell = self.traffic_pages.get(page / 64);
        cell.is_some_and(|cell| cell.load(Ordering::Relaxed) & 1 << (page % 64) != 0)
    }
}
