//! Messages of an endpoint in virtual time, from their arrival in a lane until they are due
//! (docs/virtual.md).

use crate::arrived_message::ArrivedMessage;
use crate::emulation::LocalMessage;
use crate::message::MessageKind;
use clump_shm::virtual_time::{Actor, Arrival, PendingMessage};
use std::collections::BTreeMap;

/// Most messages that wait in one endpoint; further ones stay in their lane.
const MAX_WAITING: usize = 1 << 16;

/// Messages that wait until they are due.
#[derive(Debug, Default)]
pub(crate) struct VirtualInbox {
    /// True if the endpoint is one of the runtime.
    pub(crate) of_runtime: bool,
    /// Those whose due time is not known yet.
    unknown: Vec<(PendingMessage, LocalMessage)>,
    /// The others, in the order in which they are handled.
    waiting: BTreeMap<Arrival, LocalMessage>,
    /// Messages that were due and could not be handled: they are tried with each poll.
    kept: Vec<(Arrival, LocalMessage)>,
}

impl VirtualInbox {
    /// Takes a message out of its slots. Returns false if there is no room, and `None` if it
    /// carries no record: it is a returned one.
    pub(crate) fn hide(
        &mut self,
        message: &ArrivedMessage<'_>,
        lane: Option<usize>,
    ) -> Option<bool> {
        let returned = message.kind == MessageKind::Returned;
        let (&last, words) = message.words.split_last().filter(|_| !returned)?;
        let handler = (last & 0xff) as u8;
        let record = PendingMessage::of_number(last >> 8).filter(|_| handler != 0)?;
        if self.unknown.len() + self.waiting.len() >= MAX_WAITING {
            return Some(false);
        }
        debug_assert!(!message.remote, "all virtual nodes are one machine");
        self.unknown.push((record, LocalMessage::of(message, words, handler, lane)));
        Some(true)
    }

    /// Returns true if messages wait.
    pub(crate) fn is_waiting(&self) -> bool {
        !(self.unknown.is_empty() && self.waiting.is_empty() && self.kept.is_empty())
    }

    /// Returns true if messages were due and could not be handled.
    pub(crate) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Sorts in the messages whose due time is known by now.
    fn update(&mut self, actor: &Actor) {
        let mut left = Vec::new();
        for (record, message) in self.unknown.drain(..) {
            match actor.arrival(record) {
                None => left.push((record, message)),
                Some(arrival) => {
                    let before = self.waiting.insert(arrival, message);
                    debug_assert!(before.is_none(), "a sender numbers its messages");
                }
            }
        }
        self.unknown = left;
    }

    /// Returns the time at which the first message is due that was not tried yet.
    pub(crate) fn next_due_ns(&mut self, actor: &Actor) -> Option<u64> {
        self.update(actor);
        let first = self.waiting.first_key_value().map(|(arrival, _)| arrival.due_ns);
        debug_assert!(first.is_none_or(|due_ns| due_ns > 0), "no message is due at the beginning");
        first
    }

    /// Sorts in what is known by now, and what could not be handled by the poll before.
    pub(crate) fn begin_poll(&mut self, actor: &Actor) {
        self.update(actor);
        self.waiting.extend(self.kept.drain(..));
        debug_assert!(self.kept.is_empty(), "each is tried once in a poll");
    }

    /// Keeps messages that could not be handled for the next poll.
    pub(crate) fn keep(&mut self, kept: Vec<(Arrival, LocalMessage)>) {
        debug_assert!(self.kept.is_empty(), "a poll tries all");
        debug_assert!(kept.is_sorted_by_key(|(arrival, _)| *arrival), "they were tried in order");
        self.kept = kept;
    }

    /// Takes the first message that is due by `now_ns`.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<(Arrival, LocalMessage)> {
        let first = self.waiting.first_entry().filter(|first| first.key().due_ns <= now_ns)?;
        Some(first.remove_entry())
    }

    /// Takes all messages, because the endpoint closes.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = LocalMessage> {
        let unknown = std::mem::take(&mut self.unknown).into_iter().map(|(_, message)| message);
        let kept = std::mem::take(&mut self.kept).into_iter().map(|(_, message)| message);
        unknown.chain(kept).chain(std::mem::take(&mut self.waiting).into_values())
    }
}
