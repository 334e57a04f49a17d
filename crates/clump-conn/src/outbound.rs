//! The sending side of a connection: which piece goes next, and whether the window lets it.
//!
//! Pure. Messages go one after the other; the peer's window bounds what it has not given back.

use crate::words::{FragmentHeader, PIECE_COST};

/// How far a message has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sending {
    number: u64,
    bytes: u64,
    done: u64,
    /// An empty message has one piece too.
    begun: bool,
}

impl Sending {
    /// Whether anything of it is on its way.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun
    }

    /// How many bytes of it are.
    pub(crate) fn sent(&self) -> u64 {
        self.done
    }

    /// Whether all of it is.
    pub(crate) fn is_done(&self) -> bool {
        self.begun && self.done == self.bytes
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbound {
    window: u64,
    next: u64,
    sent: u64,
    given_back: u64,
    finished: bool,
}

impl Outbound {
    /// Towards a peer that keeps at most `window` of cost.
    pub(crate) fn new(window: u64) -> Self {
        Self { window, next: 0, sent: 0, given_back: 0, finished: false }
    }

    /// Begins a message. The one before it has been sent whole.
    pub(crate) fn begin(&self, bytes: usize) -> Sending {
        Sending { number: self.next, bytes: bytes as u64, done: 0, begun: false }
    }

    /// The next piece of a message, of at most `most` bytes, if there is room for it: where it begins and
    /// ends, and its words.
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
        // Many small pieces would cost more than waiting for room.
        let least = (left + PIECE_COST).min(self.window / 8);
        if room < least && outstanding != 0 {
            return None;
        }
        let bytes = left.min(room.max(least).saturating_sub(PIECE_COST));
        let Sending { number, done, .. } = *sending;
        Some((FragmentHeader { number, bytes: sending.bytes, offset: done }, bytes as usize))
    }

    /// A piece of so many bytes is on its way.
    pub(crate) fn on_sent(&mut self, sending: &mut Sending, bytes: usize) {
        self.sent += PIECE_COST + bytes as u64;
        sending.done += bytes as u64;
        sending.begun = true;
        if sending.is_done() {
            self.next = sending.number + 1;
        }
    }

    /// The peer has given back so much, ever.
    pub(crate) fn handle_credit(&mut self, total: u64) {
        self.given_back = self.given_back.max(total.min(self.sent));
    }

    /// Nothing more will be sent; gives the number of messages.
    pub(crate) fn finish(&mut self) -> u64 {
        self.finished = true;
        self.next
    }

    /// Whether nothing more will be sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }
}
