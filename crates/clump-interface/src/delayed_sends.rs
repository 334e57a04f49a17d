//! Messages between interfaces on an emulated slower network (docs/adr/0038).
//!
//! An interface is no processor of a program and handles no stamps: while the laboratory's knobs
//! are turned it keeps messages to other interfaces until gap, latency and bytes have passed, and
//! transmits them then. Pure; times are arguments.

use clump_loggp::{Injector, KnobClass, KnobScope, KnobTable, Knobs};
use clump_shm::job::JobBlock;
use clump_wire::{Message, OwnedMessage};
use std::collections::VecDeque;

/// Messages that wait in an interface at most.
const MAX_WAITING: usize = 1 << 12;

/// An interface's copy of the knobs, and the messages that it keeps until they are due.
#[derive(Debug, Default)]
pub(crate) struct DelayedSends {
    epoch: u64,
    knobs: Knobs,
    injector: Injector,
    /// Messages with the times at which they are due, in the order in which they were sent.
    waiting: VecDeque<(u64, OwnedMessage)>,
}

impl DelayedSends {
    /// Reads the settings of the laboratory, if they have changed.
    #[inline]
    pub(crate) fn refresh(&mut self, job: &JobBlock) {
        if job.knob_epoch() != self.epoch {
            self.read(job);
        }
    }

    #[cold]
    fn read(&mut self, job: &JobBlock) {
        // Else they are changing just now.
        let Some((epoch, words)) = job.knobs() else { return };
        self.turn(epoch, *KnobTable::from_words(&words).get(KnobScope::Net, KnobClass::OneSided));
    }

    fn turn(&mut self, epoch: u64, knobs: Knobs) {
        (self.epoch, self.knobs) = (epoch, knobs);
    }

    /// Returns true if a message has to wait: it is delayed, or others wait before it.
    #[inline]
    pub(crate) fn delays(&self) -> bool {
        let Knobs { gap_ns, latency_ns, byte_ps, stream_ps, .. } = self.knobs;
        (gap_ns | latency_ns | byte_ps | stream_ps) != 0 || !self.waiting.is_empty()
    }

    /// Keeps a message that is sent at `now_ns`. Returns false if too many wait.
    #[cold]
    pub(crate) fn keep(&mut self, now_ns: u64, message: &Message<'_>) -> bool {
        debug_assert!(self.delays(), "it could be sent at once");
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        let plan = self.injector.inject(&self.knobs, now_ns, (message.payload.len(), false));
        let due_ns = plan.end_ns.saturating_add(self.knobs.latency_ns);
        let last_ns = self.waiting.back().map_or(0, |&(due_ns, _)| due_ns);
        self.waiting.push_back((due_ns.max(last_ns), message.to_owned()));
        true
    }

    /// Returns the message that is due, if one is; it stays first until [`DelayedSends::pop`].
    pub(crate) fn due(&self, now_ns: u64) -> Option<&OwnedMessage> {
        self.waiting.front().filter(|&&(due_ns, _)| due_ns <= now_ns).map(|(_, message)| message)
    }

    /// Removes the first message: it was transmitted, or its target is lost.
    pub(crate) fn pop(&mut self) {
        let sent = self.waiting.pop_front();
        debug_assert!(sent.is_some(), "the first was due");
    }

    /// Returns the time at which the next message is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.waiting.front().map(|&(due_ns, _)| due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_wire::frame::{FrameKind, Route};

    /// Keeps a message with this number and so many bytes.
    fn keep(sends: &mut DelayedSends, now_ns: u64, number: u64, bytes: usize) -> bool {
        let (route, payload) = (Route { from: 1, to: 2, tag: 3 }, vec![0; bytes]);
        let content = (&[number][..], &payload[..]);
        sends.keep(now_ns, &Message::request((FrameKind::Medium, 1), route, content))
    }

    fn slowed(text: &str) -> DelayedSends {
        let table = KnobTable::parse(text, &Default::default()).unwrap();
        let mut sends = DelayedSends::default();
        sends.turn(2, *table.get(KnobScope::Net, KnobClass::OneSided));
        sends
    }

    #[test]
    fn messages_are_due_after_gap_latency_and_bytes_in_their_order() {
        let mut sends = slowed("g=10us,L=+50us,G=+1ns/B");
        assert!(keep(&mut sends, 1_000, 0, 0) && keep(&mut sends, 1_000, 1, 3_000));
        assert_eq!(sends.next_due_ns(), Some(51_000));
        assert_eq!(sends.due(50_999), None);
        assert_eq!(sends.due(51_000).map(|kept| kept.words[0]), Some(0));
        sends.pop();
        assert_eq!(sends.next_due_ns(), Some(1_000 + 10_000 + 3_000 + 50_000));
        sends.turn(4, Knobs::default());
        assert!(sends.delays(), "others wait before it");
        assert!(keep(&mut sends, 20_000, 2, 0));
        sends.pop();
        assert_eq!(sends.next_due_ns(), Some(64_000), "not before the one before it");
        sends.pop();
        assert!(!sends.delays());
    }

    #[test]
    fn a_message_is_kept_for_as_long_as_the_bytes_before_it_take() {
        let mut sends = slowed("G=+1000ns/B");
        assert!((0..4).all(|number| keep(&mut sends, 0, number, 100_000)));
        (0..3).for_each(|_| sends.pop());
        assert_eq!(sends.next_due_ns(), Some(400_000_000));
    }

    #[test]
    fn other_classes_paths_and_overhead_delay_nothing() {
        for text in ["L=+5us,scope=shm", "L=+5us,class=short", "o=+5us", ""] {
            assert!(!slowed(text).delays(), "{text}");
        }
    }

    #[test]
    fn a_bounded_number_waits() {
        let mut sends = slowed("L=+1us");
        assert!((0..MAX_WAITING as u64).all(|number| keep(&mut sends, 0, number, 0)));
        assert!(!keep(&mut sends, 0, 0, 0));
        sends.pop();
        assert!(keep(&mut sends, 0, 0, 0));
    }
}
