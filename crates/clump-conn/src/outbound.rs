//! The sending side of a connection: the next fragment to send, within the window.
//!
//! Pure. Messages go one after the other; the peer's window bounds the data for which it has not
//! returned credit.

use crate::words::{FRAGMENT_COST, FragmentHeader};

/// Progress of a message that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sending {
    number: u64,
    bytes: u64,
    done: u64,
    /// True after the first fragment: an empty message has one too.
    begun: bool,
}

impl Sending {
    /// Returns true if any of it was sent.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun
    }

    /// Returns the number of its bytes that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.done
    }

    /// Returns true if all of it was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.begun && self.done == self.bytes
    }
}

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct Outbound {
    window: u64,
    next: u64,
    sent: u64,
    given_back: u64,
    finished: bool,
}

impl Outbound {
    /// Makes the sending side towards a peer that keeps at most `window` of cost at first.
    pub(crate) fn new(window: u64) -> Self {
        Self { window, next: 0, sent: 0, given_back: 0, finished: false }
    }

    /// Begins a message. The one before it has been sent whole.
    pub(crate) fn begin(&self, bytes: usize) -> Sending {
        Sending { number: self.next, bytes: bytes as u64, done: 0, begun: false }
    }

    /// Returns the next fragment of a message, of at most `most` bytes, if the window has space for
    /// it: its header and its number of bytes.
    pub(crate) fn poll_fragment(
        &self,
        sending: &Sending,
        most: usize,
    ) -> Option<(FragmentHeader, usize)> {
        if sending.is_done() {
            return None;
        }
        let outstanding = self.sent.saturating_sub(self.given_back);
        let room = self.window.saturating_sub(outstanding);
        let left = (sending.bytes - sending.done).min(most as u64);
        // Many small fragments would cost more than waiting for space.
        let least = (left + FRAGMENT_COST).min(self.window / 8);
        if room < least && outstanding != 0 {
            return None;
        }
        let bytes = left.min(room.max(least).saturating_sub(FRAGMENT_COST));
        let Sending { number, done, .. } = *sending;
        Some((FragmentHeader { number, bytes: sending.bytes, offset: done }, bytes as usize))
    }

    /// Records that a fragment of `bytes` bytes was sent.
    pub(crate) fn on_sent(&mut self, sending: &mut Sending, bytes: usize) {
        self.sent += FRAGMENT_COST + bytes as u64;
        sending.done += bytes as u64;
        sending.begun = true;
        if sending.is_done() {
            self.next = sending.number + 1;
        }
    }

    /// Records the credit that the peer has returned in total, and its window. Windows only grow.
    pub(crate) fn handle_credit(&mut self, total: u64, window: u64) {
        self.given_back = self.given_back.max(total.min(self.sent));
        self.window = self.window.max(window);
    }

    /// Ends sending; returns the number of messages.
    pub(crate) fn finish(&mut self) -> u64 {
        self.finished = true;
        self.next
    }

    /// Returns true if no more messages will be sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }
}
