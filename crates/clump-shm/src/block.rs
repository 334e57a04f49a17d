//! The block of an endpoint in shared memory: access word, tag, segment, doorbell, counters.

use crate::doorbell::Doorbell;
use crate::export::SegmentName;
use crate::geometry::{COUNTERS, ENDPOINT_HEADER, TRAFFIC_PAGES};
use crate::queue::QueueTail;
use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU64, Ordering};

/// Cells of a table of times by powers of two.
pub const INTERVALS: usize = 40;

/// Words that a sender reads before each message: one line that changes rarely.
#[derive(Debug)]
#[repr(C, align(64))]
struct AccessLine {
    /// Generation, and an open bit.
    state: AtomicU64,
    tag: AtomicU64,
    /// Name of the exported segment that takes deposits, as bits; 0 for none.
    segment: AtomicU64,
    /// 1 if every tag is admitted, else 0.
    everyone: AtomicU64,
}

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
// What senders read with every message and what they write lie in lines apart.
const _: () = assert!(size_of::<AccessLine>() == 64 && align_of::<Doorbell>() == 64);

/// State of an endpoint as its senders see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// It takes messages.
    Open,
    /// It has closed, and reads nothing any more.
    Closed,
    /// No endpoint was ever opened under that name, or another is there now.
    Absent,
}

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
// A closed word of generation 0 is what untouched memory holds: no endpoint was ever open.
const _: () = assert!(CLOSED == 0 && OPEN != CLOSED && OPEN <= 0xff);

impl EndpointBlock {
    /// Returns the access word of an open endpoint of this generation.
    pub(crate) fn open_word(generation: u32) -> u64 {
        u64::from(generation) << 8 | OPEN
    }

    /// Returns true if the endpoint is open under the generation behind `open_word`, and its tag is
    /// `tag`.
    #[inline(always)]
    pub(crate) fn admits(&self, open_word: u64, tag: u64) -> bool {
        self.access.state.load(Ordering::Acquire) == open_word && self.admits_tag(tag)
    }

    /// Returns the words that [`EndpointBlock::admits`] compares: state and tag.
    pub(crate) fn access_words(&self) -> (&AtomicU64, &AtomicU64) {
        (&self.access.state, &self.access.tag)
    }

    /// Returns true if senders that know `tag` may send.
    #[inline(always)]
    pub fn admits_tag(&self, tag: u64) -> bool {
        self.access.tag.load(Ordering::Relaxed) == tag
            || self.access.everyone.load(Ordering::Relaxed) != 0
    }

    /// Returns true if the endpoint is open under the generation behind `open_word`.
    #[inline(always)]
    pub(crate) fn is_open_as(&self, open_word: u64) -> bool {
        self.access.state.load(Ordering::Acquire) == open_word
    }

    /// Returns the state of the endpoint of this generation.
    pub fn openness(&self, generation: u32) -> Openness {
        let word = self.access.state.load(Ordering::Acquire);
        match (word >> 8 == u64::from(generation), word & 0xff) {
            (true, OPEN) if generation != 0 => Openness::Open,
            (true, CLOSED) if generation != 0 => Openness::Closed,
            _ => Openness::Absent,
        }
    }

    /// Returns true if the endpoint of this generation will be the first that is opened here.
    pub fn is_awaited_as(&self, generation: u32) -> bool {
        generation == 1 && self.generation() == 0
    }

    /// Returns true if an endpoint of this generation was open here once and is not any more.
    pub fn was_open_as(&self, generation: u32) -> bool {
        (1..self.generation()).contains(&generation)
    }

    /// Returns the generation last opened here; zero for none.
    pub(crate) fn generation(&self) -> u32 {
        (self.access.state.load(Ordering::Acquire) >> 8) as u32
    }

    pub(crate) fn is_open(&self) -> bool {
        self.access.state.load(Ordering::Acquire) & 0xff == OPEN
    }

    pub(crate) fn open(&self, generation: u32, tag: u64) {
        debug_assert!(generation != 0, "generation 0 is that of an index that was never used");
        self.access.tag.store(tag, Ordering::Relaxed);
        self.access.everyone.store(0, Ordering::Relaxed);
        self.access.segment.store(0, Ordering::Relaxed);
        self.access.state.store(Self::open_word(generation), Ordering::Release);
    }

    pub(crate) fn close(&self, generation: u32) {
        debug_assert!(generation != 0, "an endpoint that was opened");
        self.access.state.store(u64::from(generation) << 8 | CLOSED, Ordering::SeqCst);
    }

    /// Returns the tag that senders must know.
    pub fn tag(&self) -> u64 {
        self.access.tag.load(Ordering::Relaxed)
    }

    /// Admits every tag from now on, or only the endpoint's own.
    pub fn set_everyone(&self, everyone: bool) {
        self.access.everyone.store(u64::from(everyone), Ordering::Release);
    }

    /// Changes the tag; messages already queued were admitted under the old one.
    pub fn set_tag(&self, tag: u64) {
        self.access.tag.store(tag, Ordering::Release);
    }

    /// Returns the name of the segment that takes deposits for the endpoint; `None` if it has none.
    #[inline]
    pub fn segment(&self) -> Option<SegmentName> {
        let bits = self.access.segment.load(Ordering::Acquire);
        (bits != 0).then(|| SegmentName::from_bits(bits))
    }

    /// For the owner: names the segment that takes deposits from now on, exported before.
    pub fn set_segment(&self, name: SegmentName) {
        debug_assert!(name.generation() != 0, "a segment that was exported");
        self.access.segment.store(name.to_bits(), Ordering::Release);
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
    pub(crate) fn mark_traffic(&self, page: usize) {
        let Some(cell) = self.traffic_pages.get(page / 64) else {
            debug_assert!(false, "a row has a bit for each of its pages");
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
