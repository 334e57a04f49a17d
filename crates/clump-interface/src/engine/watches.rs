//! Words that requests watch, found by the ranges that change and by the bits that ranks set.

use crate::service::Ticket;
use clump_shm::export::{SegmentName, watch_bit};
use std::collections::{BTreeSet, HashMap};

/// The watched words of a node.
#[derive(Debug)]
pub(super) struct Watches {
    by_place: BTreeSet<(SegmentName, u64, Ticket)>,
    by_ticket: HashMap<Ticket, (SegmentName, u64)>,
    by_bit: [BTreeSet<Ticket>; 64],
    /// Requests to resume.
    pub(super) due: Vec<Ticket>,
}

impl Default for Watches {
    fn default() -> Self {
        let (by_place, by_ticket) = Default::default();
        Self { by_place, by_ticket, by_bit: std::array::from_fn(|_| BTreeSet::new()), due: vec![] }
    }
}

impl Watches {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    /// Adds a watch. Returns its bit if it is the first of that bit.
    pub(super) fn insert(
        &mut self,
        ticket: Ticket,
        segment: SegmentName,
        offset: u64,
    ) -> Option<u32> {
        let bit = watch_bit(segment, offset);
        let before = self.by_ticket.insert(ticket, (segment, offset));
        debug_assert!(before.is_none(), "a request watches one word");
        self.by_place.insert((segment, offset, ticket));
        let of_bit = self.by_bit.get_mut(bit as usize)?;
        of_bit.insert(ticket);
        (of_bit.len() == 1).then_some(bit)
    }

    /// Removes the watch of a request. Returns its bit if it was the last of that bit.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<u32> {
        let (segment, offset) = self.by_ticket.remove(&ticket)?;
        let known = self.by_place.remove(&(segment, offset, ticket));
        debug_assert!(known, "a watch is found by its place");
        let bit = watch_bit(segment, offset);
        let of_bit = self.by_bit.get_mut(bit as usize)?;
        of_bit.remove(&ticket);
        of_bit.is_empty().then_some(bit)
    }

    /// Marks the watches of words in a range that may have changed.
    pub(super) fn touch(&mut self, segment: SegmentName, offset: u64, bytes: u64) {
        let Self { by_place, due, .. } = self;
        let first = offset.saturating_sub(7);
        let end = offset.saturating_add(bytes);
        let hit = by_place.range((segment, first, 0)..(segment, end, 0));
        due.extend(hit.map(|(_, _, ticket)| *ticket));
    }

    /// Marks the watches of these bits.
    pub(super) fn mark(&mut self, changed: u64) {
        let Self { by_bit, due, .. } = self;
        let hit = by_bit.iter().enumerate().filter(|(bit, _)| changed >> bit & 1 != 0);
        due.extend(hit.flat_map(|(_, tickets)| tickets));
    }

    /// Checks that each watch is found by its place and by its bit, and is of a request.
    pub(super) fn check_invariants(&self, is_kept: impl Fn(Ticket) -> bool) {
        let Self { by_place, by_ticket, by_bit, due } = self;
        debug_assert_eq!(by_place.len(), by_ticket.len(), "each is found by its place");
        let bits: usize = by_bit.iter().map(BTreeSet::len).sum();
        debug_assert_eq!(bits, by_ticket.len(), "each is found by its bit");
        debug_assert!(by_ticket.keys().all(|ticket| is_kept(*ticket)), "each is of a request");
        debug_assert!(due.is_empty(), "what is due is resumed");
    }
}
