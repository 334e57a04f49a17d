//! Messages that are to be handled in the order in which they were sent.

use clump_wire::OwnedMessage;
use std::collections::BTreeMap;

/// Bytes that a peer may send beyond a missing unit, at most, and of the shortest message that asks
/// for order.
const MAX_WINDOW: usize = 64 << 20;
const MIN_FRAME: usize = 16;
/// Messages that may wait for an earlier one: as many as fit in the units beyond a missing one. A
/// message refused here is lost, so no correct peer may get this far.
const MAX_HELD: usize = MAX_WINDOW / MIN_FRAME;

/// The messages of one peer that asked for order.
#[derive(Debug, Default)]
pub(crate) struct OrderedMessages {
    next: u64,
    /// `None`: the message was refused, and has been returned already.
    held: BTreeMap<u64, Option<OwnedMessage>>,
}

impl OrderedMessages {
    /// Returns true if the message of this number is the next; it then counts as handled.
    pub(crate) fn is_next(&mut self, number: u64) -> bool {
        let next = number == self.next;
        self.next += u64::from(next);
        debug_assert!(!next || self.next == number + 1, "one number is handled");
        next
    }

    /// Keeps a message for later, or the place of one that was refused. Returns false if no correct
    /// peer could be that far ahead.
    pub(crate) fn hold(&mut self, number: u64, queued: Option<OwnedMessage>) -> bool {
        debug_assert!(!self.held.contains_key(&self.next), "the next is not held back");
        let sane = number > self.next && self.held.len() < MAX_HELD;
        sane && self.held.insert(number, queued).is_none()
    }

    /// Returns the next message, if it was kept.
    pub(crate) fn poll(&mut self) -> Option<OwnedMessage> {
        while let Some(queued) = self.held.remove(&self.next) {
            self.next += 1;
            let first = self.held.first_key_value();
            debug_assert!(first.is_none_or(|(&held, _)| held >= self.next), "in order");
            if queued.is_some() {
                return queued;
            }
        }
        None
    }

    /// Takes the messages kept for an endpoint that is closed now.
    pub(crate) fn take_for(&mut self, name: u64) -> Vec<OwnedMessage> {
        let held = self.held.values_mut();
        held.filter_map(|queued| queued.take_if(|queued| queued.route.to == name)).collect()
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(self.held.len() <= MAX_HELD, "memory is bounded");
        assert!(self.held.keys().all(|&number| number > self.next), "the next is not held back");
    }

    /// Returns the bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.held.values().flatten().map(OwnedMessage::bytes).sum()
    }
}
