//! The words that a sender reads before each message: state, tag, segment of an endpoint.

use crate::export::SegmentName;
use crate::shared::SharedLayout;
use clump_os::sync::{AtomicU64, Ordering};

/// Words that a sender reads before each message: one line that changes rarely.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct AccessLine {
    /// Generation, and an open bit.
    state: AtomicU64,
    tag: AtomicU64,
    /// Name of the exported segment that takes deposits, as bits; 0 for none.
    segment: AtomicU64,
    /// 1 if every tag is admitted, else 0.
    everyone: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl SharedLayout for AccessLine {}
const _: () = assert!(size_of::<AccessLine>() == 64 || cfg!(loom));

/// State of an endpoint as its senders see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// Open: takes messages.
    Open,
    /// Closed, and reads nothing any more. No other has been opened at its index since.
    Closed,
    /// Not opened yet: the first at its index.
    Awaited,
    /// Older than the one that is, or was, open at its index now.
    WasOpen,
    /// No endpoint was ever opened under that name.
    Absent,
}

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
// A closed word of generation 0 is what untouched memory holds: no endpoint was ever open.
const _: () = assert!(CLOSED == 0 && OPEN != CLOSED && OPEN <= 0xff);

impl AccessLine {
    /// Returns the state word of an open endpoint of this generation.
    pub(crate) fn open_word(generation: u32) -> u64 {
        u64::from(generation) << 8 | OPEN
    }

    /// Returns the words that senders compare: state and tag.
    pub(crate) fn words(&self) -> (&AtomicU64, &AtomicU64) {
        (&self.state, &self.tag)
    }

    /// Returns true if senders with `tag` may send.
    #[inline(always)]
    pub(crate) fn admits_tag(&self, tag: u64) -> bool {
        self.tag.load(Ordering::Relaxed) == tag || self.everyone.load(Ordering::Relaxed) != 0
    }

    /// Returns true if the endpoint is open under the generation behind `open_word`.
    #[inline(always)]
    pub(crate) fn is_open_as(&self, open_word: u64) -> bool {
        self.state.load(Ordering::Acquire) == open_word
    }

    /// Returns the state of the endpoint of this generation.
    ///
    /// The word is loaded once. Its owner may open the endpoint meanwhile, so the answers of two
    /// loads need not belong together: "not open yet" and then "not awaited any more" is an
    /// endpoint that has just been opened.
    pub fn openness(&self, generation: u32) -> Openness {
        let word = self.state.load(Ordering::Acquire);
        let (last, is_open) = (word >> 8, word & 0xff == OPEN);
        match u64::from(generation) {
            0 => Openness::Absent,
            asked if asked == last && is_open => Openness::Open,
            asked if asked == last => Openness::Closed,
            asked if asked < last => Openness::WasOpen,
            1 => Openness::Awaited,
            _ => Openness::Absent,
        }
    }

    /// Returns the generation last opened here, zero for none, and true if it is open.
    pub(crate) fn last_opened(&self) -> (u32, bool) {
        let word = self.state.load(Ordering::Acquire);
        ((word >> 8) as u32, word & 0xff == OPEN)
    }

    /// For the owner: opens the endpoint of this generation.
    pub fn open(&self, generation: u32, tag: u64) {
        debug_assert!(generation != 0, "generation 0 is that of an index that was never used");
        self.tag.store(tag, Ordering::Relaxed);
        self.everyone.store(0, Ordering::Relaxed);
        self.segment.store(0, Ordering::Relaxed);
        self.state.store(Self::open_word(generation), Ordering::Release);
    }

    /// For the owner: closes it.
    pub fn close(&self, generation: u32) {
        debug_assert!(generation != 0, "an endpoint that was opened");
        self.state.store(u64::from(generation) << 8 | CLOSED, Ordering::SeqCst);
    }

    /// Returns the tag that senders must pass.
    pub fn tag(&self) -> u64 {
        self.tag.load(Ordering::Relaxed)
    }

    pub(crate) fn set_everyone(&self, everyone: bool) {
        self.everyone.store(u64::from(everyone), Ordering::Release);
    }

    pub(crate) fn set_tag(&self, tag: u64) {
        self.tag.store(tag, Ordering::Release);
    }

    #[inline]
    pub(crate) fn segment(&self) -> Option<SegmentName> {
        let bits = self.segment.load(Ordering::Acquire);
        (bits != 0).then(|| SegmentName::from_bits(bits))
    }

    pub(crate) fn set_segment(&self, name: SegmentName) {
        debug_assert!(name.generation() != 0, "a segment that was exported");
        self.segment.store(name.to_bits(), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_awaited_open_closed_and_then_of_the_past() {
        let line = AccessLine::default();
        let of = |generation| line.openness(generation);
        assert_eq!([of(0), of(1), of(2)], [Openness::Absent, Openness::Awaited, Openness::Absent]);
        line.open(1, 7);
        assert_eq!([of(0), of(1), of(2)], [Openness::Absent, Openness::Open, Openness::Absent]);
        line.close(1);
        assert_eq!([of(1), of(2)], [Openness::Closed, Openness::Absent]);
        line.open(2, 7);
        assert_eq!([of(1), of(2), of(3)], [Openness::WasOpen, Openness::Open, Openness::Absent]);
    }
}
