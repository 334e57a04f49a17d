//! Arrivals that acknowledgements have described in full: what is missing among the units sent
//! before is overtaken.
//!
//! A packet may describe a part of the units beyond a gap only. A unit that no packet has described
//! since a later one arrived may have arrived too, and is not judged.

use crate::receive::SPAN;
use crate::send::Transmission;
use crate::time::Ticks;
use clump_wire::{Flags, Header, MAX_SACK_WORDS, PacketKind};

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

/// Units that one packet has described, and the newest arrival that was known then.
#[derive(Debug, Clone, Copy)]
struct Part {
    from: u64,
    until: u64,
    newest: Newest,
}

/// The newest arrivals up to which units have been described, by one packet or by several in turn.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// That of all units.
    newest: Newest,
    /// Those of some, the latest last.
    parts: Vec<Part>,
}

/// Descriptions by several packets in turn: those of a peer that closes.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Units described since the turn began; 0: none, for no packet describes unit 0.
    until: u64,
}

/// Most parts that are remembered: more than take turns, so that one that is lost is not missed for
/// long.
const MAX_PARTS: usize = 2 * SPAN.div_ceil(64 * MAX_SACK_WORDS as u64) as usize;

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
    /// Returns true if a transmission may have been overtaken by an arrival that is described.
    #[inline]
    pub(crate) fn may_overtake(&self, oldest: &Transmission) -> bool {
        let Newest { order, sent, .. } = self.newest;
        oldest.order < order || oldest.sent < sent || !self.parts.is_empty()
    }

    /// Returns the newest arrival up to which a unit has been described.
    pub(crate) fn newest(&self, unit: u64) -> Newest {
        let of_unit = self.parts.iter().filter(|part| (part.from..part.until).contains(&unit));
        let newest = of_unit.map(|part| part.newest).max_by_key(|newest| newest.order);
        newest.filter(|newest| newest.order > self.newest.order).unwrap_or(self.newest)
    }

    /// Notes that a packet describes all units, when `newest` is the newest arrival that is known.
    #[inline]
    pub(crate) fn on_all_described(&mut self, newest: Newest) {
        debug_assert!(self.newest.order <= newest.order, "arrivals are not forgotten");
        self.newest = newest;
        self.parts.clear();
    }

    /// Notes what a packet describes, when `newest` is the newest arrival that is known.
    pub(crate) fn on_described(&mut self, units: DescribedUnits, newest: Newest) {
        if units.whole && units.begins {
            return self.on_all_described(newest);
        }
        let until = if units.whole { u64::MAX } else { units.until };
        if units.from >= until {
            return; // no sender has so many units
        }
        // A description that begins is also of the first missing unit, which lies before its words.
        let from = if units.begins { 0 } else { units.from };
        self.parts.retain(|old| old.from < from || old.until > until);
        if self.parts.len() >= MAX_PARTS {
            self.parts.remove(0);
        }
        self.parts.push(Part { from, until, newest });
        debug_assert!(self.newest(units.from).order >= newest.order, "by this packet, or a newer");
    }

    /// Gives back the memory of parts.
    pub(crate) fn shrink(&mut self) {
        self.parts = Vec::new();
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self, newest: Newest) {
        let all = self.parts.iter().map(|part| part.newest).chain([self.newest]);
        for known in all {
            assert!(known.order <= newest.order, "only what has arrived is judged by");
            assert!(known.sent <= newest.sent, "only what has arrived is judged by");
        }
        assert!(self.parts.len() <= MAX_PARTS, "memory is bounded");
    }
}

impl Turn {
    /// Notes what a packet describes. Returns true if all units have been described in this turn.
    pub(crate) fn on_described(&mut self, units: DescribedUnits) -> bool {
        if units.begins {
            self.until = units.until;
        } else if units.from <= self.until {
            self.until = self.until.max(units.until);
        } else {
            return false; // a packet of this turn was lost
        }
        if units.whole {
            self.until = 0;
        }
        debug_assert!(!units.whole || self.until == 0, "the next turn begins anew");
        units.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(from: u64, until: u64, whole: bool) -> DescribedUnits {
        DescribedUnits { from, until, begins: from == 1, whole }
    }

    fn newest(order: u64) -> Newest {
        Newest { order, sent: order * 10, age: 1 }
    }

    #[test]
    fn a_unit_is_judged_by_the_packets_that_describe_it() {
        let mut judged = Judged::default();
        judged.on_described(units(1, 100, true), newest(5));
        assert_eq!(judged.newest(500), newest(5), "one packet says it all");
        judged.on_described(units(1, 100, false), newest(6));
        assert_eq!((judged.newest(50), judged.newest(100)), (newest(6), newest(5)));
        assert_eq!(judged.newest(0), newest(6), "the first missing one");
        // The packet between them was lost.
        judged.on_described(units(200, 250, true), newest(8));
        assert_eq!((judged.newest(150), judged.newest(300)), (newest(5), newest(8)));
        judged.on_described(units(1, 120, false), newest(9));
        assert_eq!((judged.newest(110), judged.newest(210)), (newest(9), newest(8)));
        judged.on_described(units(1, 300, true), newest(10));
        assert_eq!((judged.newest(110), judged.newest(999)), (newest(10), newest(10)));
        for at in 0..1000 {
            judged.on_described(units(300 + at, 301 + at, false), newest(11 + at));
            judged.check_invariants(newest(11 + at));
        }
    }

    #[test]
    fn a_turn_ends_only_without_a_gap() {
        let mut turn = Turn::default();
        assert!(!turn.on_described(units(1, 100, false)));
        assert!(!turn.on_described(units(100, 200, false)));
        assert!(turn.on_described(units(200, 250, true)));
        assert!(!turn.on_described(units(1, 100, false)));
        assert!(!turn.on_described(units(200, 250, true)), "a packet between them was lost");
        assert!(turn.on_described(units(1, 100, true)));
        assert!(!turn.on_described(units(100, 200, true)), "that turn is over");
    }
}
