//! Long messages that have begun: what is returned of them if they do not arrive.

use clump_wire::frame::{FrameHead, FrameKind};
use std::collections::VecDeque;

/// A long message in flight: the data to return if it does not arrive.
#[derive(Debug, Clone)]
pub(super) struct LongMessage {
    pub(super) head: FrameHead,
    pub(super) words: Vec<u64>,
    pub(super) message: u64,
    /// The last unit of bulk that holds a fragment of it; `None` while more fragments follow.
    pub(super) last: Option<u64>,
}

/// Long messages in flight, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct LongMessages {
    begun: VecDeque<LongMessage>,
    next: u64,
}

impl LongMessages {
    /// Takes the number of a message of several frames.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Notes that a long message has begun.
    pub(super) fn begin(&mut self, head: FrameHead, words: &[u64], message: u64) {
        debug_assert!(message < self.next, "it has a number");
        debug_assert!(head.kind == FrameKind::Long, "others lie in their units");
        // What comes from a stream that is over began before others.
        let at = self.begun.partition_point(|before| before.message < message);
        debug_assert!(self.begun.get(at).is_none_or(|next| next.message > message), "once");
        self.begun.insert(at, LongMessage { head, words: words.to_vec(), message, last: None });
    }

    /// Notes that a message was packed to its end, in unit `last` of bulk.
    pub(super) fn end(&mut self, message: u64, last: u64) {
        debug_assert!(message < self.next, "it has a number");
        let ended = self.begun.iter_mut().rev().find(|begun| begun.message == message);
        if let Some(begun) = ended {
            debug_assert!(begun.last.is_none(), "a message ends once");
            begun.last = Some(last);
        }
    }

    /// Returns a message that has begun and not ended.
    pub(super) fn unended(&self, message: Option<u64>) -> Option<&LongMessage> {
        self.begun.iter().find(|begun| begun.last.is_none() && Some(begun.message) == message)
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
        let numbers: Vec<u64> = self.begun.iter().map(|begun| begun.message).collect();
        assert!(numbers.is_sorted(), "in the order in which they began");
        assert!(numbers.last().is_none_or(|&last| last < self.next), "numbers were given");
        for last in self.begun.iter().filter_map(|begun| begun.last) {
            assert!(last <= next_unit, "a message ends in a unit that there is");
        }
    }
}
