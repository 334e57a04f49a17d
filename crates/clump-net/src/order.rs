//! Messages that are to be handled in the order in which they were sent.

use crate::mail::Mail;
use std::collections::BTreeMap;

/// Units that a peer may send beyond one that is missing: what an acknowledgement can speak of.
const SPAN: usize = clump_wire::MOST_SACK_WORDS * 64;
/// Bytes of the longest unit, and of the shortest message that asks for order.
const MOST_UNIT: usize = 65_507;
const LEAST_FRAME: usize = 16;
/// Messages that may wait for an earlier one: as many as can lie in the units beyond one that is missing. What is refused
/// here is lost, so no correct peer may come so far.
const MOST_HELD: usize = SPAN * MOST_UNIT / LEAST_FRAME;

/// The messages of one peer that asked for order.
#[derive(Debug, Default)]
pub(crate) struct Order {
    next: u64,
    /// `None`: it was refused, and has gone back already.
    held: BTreeMap<u64, Option<Mail>>,
}

impl Order {
    /// Whether the message of this number is the next; then it counts as handled.
    pub(crate) fn is_next(&mut self, number: u64) -> bool {
        let next = number == self.next;
        self.next += u64::from(next);
        next
    }

    /// Keeps a message for later, or the place of one that was refused; false when nobody could be that
    /// far ahead.
    pub(crate) fn hold(&mut self, number: u64, mail: Option<Mail>) -> bool {
        let sane = number > self.next && self.held.len() < MOST_HELD;
        sane && self.held.insert(number, mail).is_none()
    }

    /// The next message, if it was kept.
    pub(crate) fn poll(&mut self) -> Option<Mail> {
        while let Some(mail) = self.held.remove(&self.next) {
            self.next += 1;
            if mail.is_some() {
                return mail;
            }
        }
        None
    }

    /// What was kept for an endpoint that is closed now.
    pub(crate) fn take_for(&mut self, name: u64) -> Vec<Mail> {
        let held = self.held.values_mut();
        held.filter_map(|mail| mail.take_if(|mail| mail.route.to == name)).collect()
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.held.values().flatten().map(Mail::bytes).sum()
    }
}
