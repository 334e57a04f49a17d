//! Messages out of the units that carried them, when these will not arrive any more.

use super::{Begun, Unsent};
use clump_wire::frame::{self, Frame, Head, Kind};
use std::collections::VecDeque;

/// Puts messages together again out of the units that carried them.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    begun: VecDeque<Begun>,
    messages: Vec<(Unsent, Fate)>,
    /// Messages of several frames: number, and index above.
    parted: Vec<(u64, usize)>,
}

/// Whether a message has arrived as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrived,
    Lost,
}

impl Gathering {
    /// Of what long messages have begun it knows.
    pub(super) fn new(begun: VecDeque<Begun>) -> Self {
        Self { begun, ..Self::default() }
    }

    pub(super) fn on_frame(&mut self, frame: &Frame<'_>, acked: bool) {
        let fate = if acked { Fate::Arrived } else { Fate::Lost };
        match (frame.head.kind, frame.head.piece) {
            (Kind::Credit | Kind::Ask, _) => {}
            (Kind::Part, Some(piece)) => self.on_part(piece.message, frame.payload, fate),
            (kind, piece) => {
                if let Some(piece) = piece {
                    self.parted.push((piece.message, self.messages.len()));
                }
                let mut words = [0; frame::MOST_WORDS];
                let words = frame.words(&mut words).to_vec();
                let long = kind == Kind::Long;
                let payload = if long { Vec::new() } else { frame.payload.to_vec() };
                let head = Head { piece: None, ..frame.head };
                self.messages.push((Unsent { head, words, payload }, fate));
            }
        }
    }

    fn on_part(&mut self, message: u64, payload: &[u8], fate: Fate) {
        let known = self.parted.iter().find(|(number, _)| *number == message);
        let at = match known {
            Some(&(_, at)) => at,
            None if fate == Fate::Lost => match self.add_begun(message) {
                Some(at) => at,
                None => return,
            },
            None => return,
        };
        if let Some((unsent, so_far)) = self.messages.get_mut(at) {
            if unsent.head.kind != Kind::Long {
                unsent.payload.extend_from_slice(payload);
            }
            if fate == Fate::Lost {
                *so_far = Fate::Lost;
            }
        }
    }

    /// A long message whose beginning has arrived, and some of the rest has not.
    fn add_begun(&mut self, message: u64) -> Option<usize> {
        let begun = self.begun.iter().find(|begun| begun.message == message)?;
        let (head, words) = (begun.head, begun.words.clone());
        let at = self.messages.len();
        self.messages.push((Unsent { head, words, payload: Vec::new() }, Fate::Lost));
        self.parted.push((message, at));
        Some(at)
    }

    pub(super) fn finish(mut self) -> Vec<Unsent> {
        // Of a message that was not even packed whole, something has not arrived.
        let unfinished = self.begun.iter().filter(|begun| begun.last.is_none());
        for message in unfinished.map(|begun| begun.message).collect::<Vec<_>>() {
            match self.parted.iter().find(|(number, _)| *number == message) {
                Some(&(_, at)) => {
                    if let Some((_, fate)) = self.messages.get_mut(at) {
                        *fate = Fate::Lost;
                    }
                }
                None => drop(self.add_begun(message)),
            }
        }
        let lost = self.messages.into_iter().filter(|(_, fate)| *fate == Fate::Lost);
        lost.map(|(unsent, _)| unsent).collect()
    }
}
