//! Arrivals that acknowledgements have described in full: what is missing among the units sent
//! before is overtaken.
//!
//! A packet may describe a part of the units beyond a gap only. A unit that no packet has described
//! since a later one arrived may have arrived too, and is not judged.

use crate::time::Ticks;
use clump_wire::{Flags, Header, PacketKind};

/// The newest transmission that is known to have arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Newest {
    /// Its position in the order of all transmissions.
    pub order: u64,
    /// Time at which the newest packet that has arrived was sent, and its age when its arrival was
    /// learnt.
    pub sent: Ticks,
    pub age: Ticks,
}

/// Units that one packet describes: those from `from` up to `until`, and if `whole` all beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DescribedUnits {
    pub from: u64,
    pub until: u64,
    /// True if they begin with the first missing unit.
    pub begins: bool,
    pub whole: bool,
}

/// The newest arrival up to which all units have been described, by one packet or by several in
/// turn.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    newest: Newest,
    /// The newest arrival when the turn at hand began, and the units described since; 0: none, for
    /// no packet describes unit 0.
    turn: Newest,
    until: u64,
}

impl DescribedUnits {
    /// Returns the units that a packet with this header and so many words of selective
    /// acknowledgements describes; `None` if it says nothing about those beyond a gap.
    #[inline]
    pub(crate) fn of(header: &Header, words: usize) -> Option<Self> {
        let whole = header.flags.has(Flags::WHOLE);
        if !whole && words == 0 {
            return None;
        }
        let offset = offset_of(header);
        let from = header.ack.saturating_add(1).saturating_add(offset);
        let until = from.saturating_add(64 * words as u64);
        debug_assert!(from <= until, "units in order");
        Some(Self { from, until, begins: offset == 0, whole })
    }
}

/// Returns true if packets of this kind describe units beyond a gap; their unit is the offset of
/// the first.
#[inline]
pub(crate) fn describes(kind: PacketKind) -> bool {
    use PacketKind::{Ack, Close, CloseAck, Probe};
    matches!(kind, Ack | Probe | Close | CloseAck)
}

/// Returns the units between the first missing one of a header and the first that it describes.
#[inline]
pub(crate) fn offset_of(header: &Header) -> u64 {
    if describes(header.kind) { header.unit } else { 0 }
}

impl Judged {
    /// Returns the newest arrival up to which all units have been described.
    #[inline]
    pub(crate) fn newest(&self) -> Newest {
        self.newest
    }

    /// Notes that a packet describes all units, when `newest` is the newest arrival that is known.
    #[inline]
    pub(crate) fn on_all_described(&mut self, newest: Newest) {
        debug_assert!(self.newest.order <= newest.order, "arrivals are not forgotten");
        (self.newest, self.until) = (newest, 0); // a turn that was under way is out of date
    }

    /// Notes what a packet describes, when `newest` is the newest arrival that is known. Returns
    /// true if all units have been described in this turn.
    pub(crate) fn on_described(&mut self, units: DescribedUnits, newest: Newest) -> bool {
        if units.begins {
            (self.turn, self.until) = (newest, units.until);
        } else if units.from <= self.until {
            self.until = self.until.max(units.until);
        } else {
            return false; // a packet of this turn was lost
        }
        if units.whole {
            debug_assert!(self.turn.order >= self.newest.order, "arrivals are not forgotten");
            debug_assert!(self.turn.order <= newest.order, "a turn begins before it ends");
            (self.newest, self.until) = (self.turn, 0);
        }
        units.whole
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self, newest: Newest) {
        assert!(self.newest.order <= newest.order, "only what has arrived is judged by");
        assert!(self.newest.sent <= newest.sent, "only what has arrived is judged by");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(from: u64, until: u64, whole: bool) -> DescribedUnits {
        DescribedUnits { from, until, begins: from == 1, whole }
    }

    #[test]
    fn a_turn_counts_from_its_first_packet_and_only_without_a_gap() {
        let newest = |order| Newest { order, sent: order * 10, age: 1 };
        let mut judged = Judged::default();
        judged.on_described(units(1, 100, true), newest(5));
        assert_eq!(judged.newest(), newest(5), "one packet says it all");
        judged.on_described(units(1, 100, false), newest(6));
        judged.on_described(units(100, 200, false), newest(7));
        assert_eq!(judged.newest(), newest(5), "the rest is not described");
        judged.on_described(units(200, 250, true), newest(8));
        assert_eq!(judged.newest(), newest(6), "as of the first packet of the turn");
        judged.on_described(units(1, 100, false), newest(9));
        judged.on_described(units(200, 250, true), newest(10));
        assert_eq!(judged.newest(), newest(6), "a packet between them was lost");
        judged.check_invariants(newest(10));
    }

    #[test]
    fn a_turn_that_a_whole_description_overtook_is_not_continued() {
        let newest = |order| Newest { order, sent: order * 10, age: 1 };
        let mut judged = Judged::default();
        assert!(!judged.on_described(units(1, 100, false), newest(5)));
        judged.on_all_described(newest(7));
        assert!(!judged.on_described(units(100, 200, true), newest(8)), "its beginning is old");
        assert_eq!(judged.newest(), newest(7));
        assert!(judged.on_described(units(1, 100, true), newest(8)));
        assert!(!judged.on_described(units(100, 200, true), newest(9)), "that turn is over");
        assert_eq!(judged.newest(), newest(8));
    }
}
