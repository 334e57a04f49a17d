//! Long messages that have begun: what is returned of them if they do not arrive.

use clump_wire::OwnedMessage;
use clump_wire::frame::FrameKind;
use std::collections::VecDeque;

/// A long message of several parts that has begun.
#[derive(Debug, Clone)]
pub(crate) struct LongMessage {
    /// The message that is returned if it does not arrive.
    pub(crate) message: OwnedMessage,
    pub(crate) number: u64,
    /// The last unit of bulk, or record, that holds a part of it; `None` while more follow.
    pub(crate) last: Option<u64>,
}

/// Long messages in flight, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct LongMessages {
    begun: VecDeque<LongMessage>,
    next: u64,
}

impl LongMessages {
    /// Takes the number of a message of several frames.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Notes that a long message has begun.
    pub(crate) fn begin(&mut self, message: OwnedMessage, number: u64) {
        debug_assert!(number < self.next, "it has a number");
        debug_assert!(message.kind == FrameKind::Long, "others lie in their units");
        // What comes from a stream that is over began before others.
        let at = self.begun.partition_point(|before| before.number < number);
        debug_assert!(self.begun.get(at).is_none_or(|next| next.number > number), "once");
        self.begun.insert(at, LongMessage { message, number, last: None });
    }

    /// Notes that a message was packed to its end, in unit `last` of bulk.
    pub(super) fn end(&mut self, number: u64, last: u64) {
        debug_assert!(number < self.next, "it has a number");
        let ended = self.begun.iter_mut().rev().find(|begun| begun.number == number);
        if let Some(begun) = ended {
            debug_assert!(begun.last.is_none(), "a message ends once");
            begun.last = Some(last);
        }
    }

    /// Returns a message that has begun and not ended.
    pub(super) fn unended(&self, number: Option<u64>) -> Option<&LongMessage> {
        self.begun.iter().find(|begun| begun.last.is_none() && Some(begun.number) == number)
    }

    /// Returns true if a long message is partly packed.
    #[inline]
    pub(super) fn is_packing(&self) -> bool {
        self.begun.back().is_some_and(|begun| begun.last.is_none())
    }

    /// Notes that all units of bulk before `end` have arrived.
    #[inline]
    pub(super) fn on_arrived(&mut self, end: u64) {
        let arrived = |begun: &LongMessage| begun.last.is_some_and(|last| last < end);
        while self.begun.front().is_some_and(arrived) {
            self.begun.pop_front();
        }
        debug_assert!(!self.begun.front().is_some_and(arrived), "what has arrived is forgotten");
    }

    /// Takes all messages that have not arrived.
    pub(super) fn take_all(&mut self) -> VecDeque<LongMessage> {
        std::mem::take(&mut self.begun)
    }

    /// Returns the number of messages in flight.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.begun.len()
    }

    /// Asserts what always holds between calls; `next_unit` is the number of the open unit.
    pub(super) fn check_invariants(&self, next_unit: u64) {
        let numbers: Vec<u64> = self.begun.iter().map(|begun| begun.number).collect();
        assert!(numbers.is_sorted(), "in the order in which they began");
        assert!(numbers.last().is_none_or(|&last| last < self.next), "numbers were given");
        for last in self.begun.iter().filter_map(|begun| begun.last) {
            assert!(last <= next_unit, "a message ends in a unit that there is");
        }
    }
}
