//! Messages recovered from the units that carried them, when these will not arrive any more.

use super::long_messages::LongMessage;
use clump_wire::OwnedMessage;
use clump_wire::frame::{self, Frame, FrameKind};
use std::collections::VecDeque;

/// Reassembles messages from the units that carried them.
#[derive(Debug, Default)]
pub(super) struct UndeliveredMessages {
    begun: VecDeque<LongMessage>,
    messages: Vec<(OwnedMessage, Delivery)>,
    /// Messages of several frames: number, and index above.
    parted: Vec<(u64, usize)>,
}

/// Delivery of a message, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Arrived,
    Lost,
}

impl UndeliveredMessages {
    /// Starts with the long messages that have begun.
    pub(super) fn new(begun: VecDeque<LongMessage>) -> Self {
        Self { begun, ..Self::default() }
    }

    pub(super) fn on_frame(&mut self, frame: &Frame<'_>, acked: bool) {
        let delivery = if acked { Delivery::Arrived } else { Delivery::Lost };
        match (frame.head.kind, frame.head.fragment) {
            (FrameKind::Credit | FrameKind::Ask, _) => {}
            (FrameKind::Part, Some(fragment)) => {
                self.on_fragment(fragment.message, frame.payload, delivery);
            }
            (kind, fragment) => {
                debug_assert!(kind != FrameKind::Part, "fragments have their message's number");
                if let Some(fragment) = fragment {
                    let known = self.parted.iter().any(|(number, _)| *number == fragment.message);
                    debug_assert!(!known, "a message begins once");
                    self.parted.push((fragment.message, self.messages.len()));
                }
                let mut words = [0; frame::MAX_WORDS];
                let words = frame.words(&mut words);
                let long = kind == FrameKind::Long;
                let payload = if long { Vec::new() } else { frame.payload.to_vec() };
                self.messages.push((OwnedMessage::of(&frame.head, words, payload), delivery));
            }
        }
    }

    fn on_fragment(&mut self, message: u64, payload: &[u8], delivery: Delivery) {
        let known = self.parted.iter().find(|(number, _)| *number == message);
        let at = match known {
            Some(&(_, at)) => at,
            None if delivery == Delivery::Lost => match self.add_begun(message) {
                Some(at) => at,
                None => return,
            },
            None => return,
        };
        debug_assert!(at < self.messages.len(), "the index of a message");
        if let Some((unsent, so_far)) = self.messages.get_mut(at) {
            if unsent.kind != FrameKind::Long {
                unsent.payload.extend_from_slice(payload);
            }
            if delivery == Delivery::Lost {
                *so_far = Delivery::Lost;
            }
        }
    }

    /// Adds a long message whose beginning has arrived, and some of the rest has not.
    fn add_begun(&mut self, message: u64) -> Option<usize> {
        let begun = self.begun.iter().find(|begun| begun.number == message)?;
        debug_assert!(begun.message.kind == FrameKind::Long, "only long messages are noted");
        let at = self.messages.len();
        self.messages.push((begun.message.clone(), Delivery::Lost));
        self.parted.push((message, at));
        Some(at)
    }

    pub(super) fn finish(mut self) -> Vec<OwnedMessage> {
        // Part of a message that was not even packed whole has not arrived.
        let unfinished = self.begun.iter().filter(|begun| begun.last.is_none());
        for message in unfinished.map(|begun| begun.number).collect::<Vec<_>>() {
            match self.parted.iter().find(|(number, _)| *number == message) {
                Some(&(_, at)) => {
                    debug_assert!(at < self.messages.len(), "the index of a message");
                    if let Some((_, delivery)) = self.messages.get_mut(at) {
                        *delivery = Delivery::Lost;
                    }
                }
                None => drop(self.add_begun(message)),
            }
        }
        let lost = self.messages.into_iter().filter(|(_, delivery)| *delivery == Delivery::Lost);
        lost.map(|(unsent, _)| unsent).collect()
    }
}
