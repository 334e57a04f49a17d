//! The path from an endpoint back to one requester, and the replies that wait for room on it.

use crate::deposit::deposit;
use crate::error::Result;
use crate::message::{KeptMessage, MessageKind, OutgoingMessage};
use clump_shm::path::Path;
use clump_shm::slot::{Header, MAX_WORDS};
use clump_wire::{Reason, SendResult};
use std::collections::VecDeque;

/// The reply path of one requester.
#[derive(Debug)]
pub(crate) struct ReplyQueue {
    pub(crate) path: Path,
    stash: VecDeque<KeptMessage>,
}

impl ReplyQueue {
    pub(crate) fn new(path: Path) -> Self {
        Self { path, stash: VecDeque::new() }
    }

    /// Returns true if replies wait. While they do, no more requests of this sender are handled, so
    /// that a queue holds one reply at most.
    #[inline(always)]
    pub(crate) fn is_stuck(&self) -> bool {
        !self.stash.is_empty()
    }

    /// Checks that at most one reply waits, and that its payload is not deposited twice.
    pub(crate) fn check_invariants(&self) {
        debug_assert!(self.stash.len() <= 1, "a request was handled while its reply path was full");
        let deposited = |kept: &KeptMessage| kept.is_long() && !kept.outgoing().payload.is_empty();
        debug_assert!(!self.stash.iter().any(deposited), "a payload would be deposited again");
    }

    /// Sends a reply. [`SendResult::Full`]: there is no room, and it is kept for
    /// [`ReplyQueue::flush`].
    ///
    /// # Errors
    /// The requester's segment cannot be mapped.
    #[inline(always)]
    pub(crate) fn send(&mut self, message: &OutgoingMessage<'_>) -> Result<SendResult> {
        // Of a closed requester the segment may belong to another endpoint by now.
        if !self.path.is_open() {
            return Ok(SendResult::Refused(Reason::ReplyRejected));
        }
        let overtakes = message.kind == MessageKind::Long && self.is_stuck();
        debug_assert!(!overtakes, "a deposit is written before an earlier reply is read");
        if message.kind == MessageKind::Long
            && let Some(reason) = deposit(&mut self.path, message)?
        {
            return Ok(SendResult::Refused(reason));
        }
        if self.send_now(message) {
            return Ok(SendResult::Sent);
        }
        self.put_aside(message);
        Ok(SendResult::Full)
    }

    /// Sends a message whose payload is deposited, if it has one; returns false if there is no room
    /// now.
    #[inline(always)]
    pub(crate) fn send_now(&mut self, message: &OutgoingMessage<'_>) -> bool {
        let sent = self.stash.is_empty()
            && self.path.push_any(message.header(), message.words, message.beside()).is_ok();
        if sent {
            count_sent(&mut self.path, message);
        }
        debug_assert!(!sent || !self.is_stuck(), "it overtakes a reply that waits");
        sent
    }

    /// Sends a reply of words alone; returns false if there is no room now.
    #[inline(always)]
    pub(crate) fn send_words(&mut self, header: Header, words: &[u64]) -> bool {
        debug_assert_eq!(header.words(), words.len(), "another header's words");
        debug_assert_eq!(header.payload(), 0, "words alone");
        self.stash.is_empty() && self.path.push(header, words).is_ok()
    }

    #[cold]
    fn put_aside(&mut self, message: &OutgoingMessage<'_>) {
        debug_assert!(self.stash.is_empty(), "a request was handled while its reply path was full");
        let payload = message.beside();
        self.stash.push_back(OutgoingMessage { payload, ..*message }.to_kept());
        self.check_invariants();
    }

    /// Sends kept replies as far as there is room.
    pub(crate) fn flush(&mut self) {
        while let Some(first) = self.stash.front() {
            let message = first.outgoing();
            if self.path.push_any(message.header(), message.words, message.beside()).is_err() {
                return;
            }
            count_sent(&mut self.path, &message);
            self.stash.pop_front();
        }
        debug_assert!(!self.is_stuck(), "everything was sent");
    }

    /// Recovers every reply that a closed or dead requester never read, sent or not.
    pub(crate) fn take_back(&mut self, mut each: impl FnMut(&OutgoingMessage<'_>)) {
        self.path.take_back(|header, words, payload| {
            each(&OutgoingMessage::of_slot(header, words, payload));
        });
        for kept in self.stash.drain(..) {
            each(&kept.outgoing().unstamped());
        }
        debug_assert!(!self.is_stuck(), "what was recovered is not sent any more");
    }
}

/// Counts the parts of a message that a lane's position does not count.
#[inline(always)]
fn count_sent(path: &mut Path, message: &OutgoingMessage<'_>) {
    debug_assert!(message.words.len() <= MAX_WORDS, "more words than two slots hold");
    match message.kind {
        MessageKind::Long => path.count_long(message.words),
        MessageKind::Returned => path.count_returned(message.words.len(), message.payload.len()),
        MessageKind::Short | MessageKind::Medium => {}
    }
}
