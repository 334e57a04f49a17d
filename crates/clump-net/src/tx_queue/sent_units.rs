//! Order of the units that were sent: how many, how many of them have arrived, and those that have
//! arrived and are kept for a message of several units.
//!
//! Units of bulk are numbered apart from those of control messages, which may go ahead of them. So
//! a unit of bulk has its number while it waits.

use super::send_buffer::BufferRange;
use super::unit::Unit;
use std::collections::VecDeque;

/// End of the data packed for a peer: numbers of units of bulk, and of control messages, up to some
/// moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PackedEnd {
    /// Units of bulk.
    pub(super) bulk: u64,
    /// Units of control messages, which go ahead of bulk.
    pub(super) control: u64,
}

impl PackedEnd {
    /// Returns true if `other` counts no unit that this does not.
    #[inline]
    pub fn is_before(self, other: Self) -> bool {
        self.bulk <= other.bulk && self.control <= other.control
    }
}

/// Units that were sent, counted; and those that have arrived and are kept.
#[derive(Debug, Default)]
pub(crate) struct SentUnits {
    /// Units sent, of bulk and of control messages.
    sent: PackedEnd,
    /// Those before which all have arrived.
    arrived: PackedEnd,
    /// Messages of several units of bulk that were not all sent: first and last unit.
    spans: VecDeque<(u64, u64)>,
    /// Units that have arrived, and behind which the end of a message has not.
    kept: VecDeque<Unit>,
}

impl SentUnits {
    /// Gives back the memory of lists; all has arrived.
    pub(super) fn release_spare(&mut self) {
        debug_assert!(self.kept.is_empty() && self.spans.is_empty(), "what is needed is kept");
        debug_assert!(self.arrived == self.sent, "all has arrived");
        (self.kept, self.spans) = (VecDeque::new(), VecDeque::new());
    }

    /// Returns the bytes that [`SentUnits::release_spare`] gives back.
    pub(super) fn spare_bytes(&self) -> usize {
        let kept = self.kept.capacity() * size_of::<Unit>();
        kept + self.spans.capacity() * size_of::<(u64, u64)>()
    }

    /// Returns the units sent. The number of bulk is that of the next of its units.
    #[inline]
    pub(super) fn sent(&self) -> PackedEnd {
        self.sent
    }

    /// Returns the units before which all have arrived.
    #[inline]
    pub(super) fn arrived(&self) -> PackedEnd {
        debug_assert!(self.arrived.is_before(self.sent), "only what was sent arrives");
        self.arrived
    }

    /// Notes a message whose fragments lie in units of bulk `first` to `last`, which wait.
    pub(super) fn on_span(&mut self, first: u64, last: u64) {
        debug_assert!(first <= last && last >= self.sent.bulk, "its end has not been sent");
        self.spans.push_back((first, last));
    }

    /// Notes that the next unit of bulk is sent.
    #[inline]
    pub(super) fn send_bulk(&mut self, place: BufferRange) -> Unit {
        let number = self.sent.bulk;
        // A unit may hold the end of one message and the beginning of another: the last message
        // needs it longest.
        let spans = |&&(first, last): &&(u64, u64)| first <= number && number <= last;
        let span = self.spans.iter().rev().find(spans);
        let needed_for = span.map_or(number, |&(_, last)| last);
        debug_assert!(needed_for >= number, "a unit is kept for itself at least");
        self.sent.bulk += 1;
        while self.spans.front().is_some_and(|&(_, last)| last <= number) {
            self.spans.pop_front();
        }
        debug_assert!(self.arrived.bulk < self.sent.bulk, "it has not arrived");
        Unit::new(place, Some(needed_for))
    }

    /// Notes that a unit of control messages is sent.
    pub(super) fn send_control(&mut self, place: BufferRange) -> Unit {
        self.sent.control += 1;
        debug_assert!(self.arrived.control < self.sent.control, "it has not arrived");
        Unit::new(place, None)
    }

    /// Returns true if everything packed when the queue returned `end` has been sent.
    pub(crate) fn has_sent_before(&self, end: PackedEnd) -> bool {
        debug_assert!(self.arrived.is_before(self.sent), "only what was sent arrives");
        end.is_before(self.sent)
    }

    /// Returns true if everything packed when the queue returned `end` has arrived.
    pub(crate) fn has_arrived_before(&self, end: PackedEnd) -> bool {
        end.is_before(self.arrived())
    }

    /// Notes that a unit has arrived, with all before it. Calls `release` with what nothing needs
    /// any more.
    #[inline]
    pub(super) fn on_arrived(&mut self, unit: Unit, mut release: impl FnMut(Unit)) {
        match unit.needed_for() {
            Some(_) => self.arrived.bulk += 1,
            None => self.arrived.control += 1,
        }
        debug_assert!(self.arrived.bulk <= self.sent.bulk, "only what was sent arrives");
        debug_assert!(self.arrived.control <= self.sent.control, "each once");
        if self.kept.is_empty() && !self.needs(&unit) {
            return release(unit);
        }
        self.kept.push_back(unit);
        while self.kept.front().is_some_and(|front| !self.needs(front))
            && let Some(done) = self.kept.pop_front()
        {
            release(done);
        }
    }

    /// Returns true if a unit that has arrived is kept.
    #[inline]
    fn needs(&self, unit: &Unit) -> bool {
        unit.needed_for().is_some_and(|last| last >= self.arrived.bulk)
    }

    /// Returns the units that have arrived and are kept.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Unit> + '_ {
        self.kept.iter()
    }

    /// Returns the bytes of the units that have arrived and are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept().map(Unit::bytes).sum()
    }

    /// Takes the units that have arrived and are kept, after the peer is lost. All others count as
    /// arrived.
    pub(super) fn take_all(&mut self) -> VecDeque<Unit> {
        debug_assert!(self.arrived.is_before(self.sent), "only what was sent arrives");
        self.spans.clear();
        self.arrived = self.sent;
        std::mem::take(&mut self.kept)
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        assert!(self.arrived.is_before(self.sent), "no more has arrived than was sent");
        assert!(self.spans.iter().all(|(first, last)| first <= last), "spans go forward");
        let waits = self.spans.iter().all(|&(_, last)| last >= self.sent.bulk);
        assert!(waits, "spans are forgotten once they are sent");
        assert!(self.kept.front().is_none_or(|front| self.needs(front)), "others are released");
        assert!(self.kept.iter().all(|unit| unit.bytes() > 0), "no unit is empty");
    }
}
