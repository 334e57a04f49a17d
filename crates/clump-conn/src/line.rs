//! What one side of a connection knows, whatever carries it: both directions, and how it ended.

use crate::error::End;
use crate::inbound::{Bytes, Inbound};
use crate::outbound::{Outbound, Sending};
use crate::port::Order;
use crate::words::{FragmentHeader, ask};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// What a connection may keep of messages that were not received, in bytes and 64 for each piece.
pub(crate) const WINDOW: u64 = 256 << 10;
/// How long the last word of a peer may take after what shows that it said it.
const LAST_WORD_NS: u64 = 5_000_000_000;
/// Longest message.
pub(crate) const MAX_MESSAGE: usize = 1 << 30;

/// Which answer to a wish to connect has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectAnswer {
    Queued,
    Refused(u64),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ConnectionLine {
    state: Mutex<LineState>,
    /// Held by whoever sends a message, from its first piece to its last.
    sender: Mutex<()>,
}

/// The state behind the lock, which is held for moments only and never while anything is sent.
#[derive(Debug)]
pub(crate) struct LineState {
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    /// The number that the peer gave the connection.
    pub(crate) theirs: u64,
    pub(crate) answer: Option<ConnectAnswer>,
    /// Why it ended: nothing more can be sent, and only what has arrived can be received.
    pub(crate) end: Option<End>,
    /// This side has said its last word.
    pub(crate) hung_up: bool,
    /// Since when the peer is known to take nothing, if it has not said so itself.
    doubted_ns: Option<u64>,
    /// A message whose rest waits for room.
    pub(crate) rest: Option<Rest>,
}

/// What is left of a message: what follows its first bytes.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) skipped: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sending: Sending,
}

impl Rest {
    /// What of `message` has not been sent.
    pub(crate) fn of(message: &[u8], sending: Sending) -> Self {
        let skipped = sending.sent();
        let bytes = message.get(skipped as usize..).unwrap_or_default().to_vec();
        Self { skipped, bytes, sending }
    }
}

impl ConnectionLine {
    pub(crate) fn new(order: Order, theirs: u64) -> Self {
        let state = LineState {
            inbound: Inbound::new(order, WINDOW, MAX_MESSAGE as u64),
            outbound: Outbound::new(WINDOW),
            theirs,
            answer: None,
            end: None,
            hung_up: false,
            doubted_ns: None,
            rest: None,
        };
        Self { state: Mutex::new(state), sender: Mutex::new(()) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to send, unless another thread has it.
    pub(crate) fn try_sender(&self) -> Option<MutexGuard<'_, ()>> {
        match self.sender.try_lock() {
            Ok(sender) => Some(sender),
            Err(TryLockError::Poisoned(sender)) => Some(sender.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether it ended, for whatever reason: nothing can be sent.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// Nothing more arrives, for this reason, unless it is known that nothing does.
    pub(crate) fn end(&self, why: End) {
        let mut state = self.state();
        if !state.is_cut() {
            state.end = Some(why);
        }
    }

    /// The peer's endpoint took nothing more at `now`.
    pub(crate) fn doubt(&self, now: u64) {
        let mut state = self.state();
        state.end.get_or_insert(End::Closed);
        state.doubted_ns.get_or_insert(now);
    }

    /// A peer that was doubted for long and has not said its last word never will.
    pub(crate) fn handle_time(&self, now: u64) {
        let mut state = self.state();
        if state.doubted_ns.is_some_and(|since| now.saturating_sub(since) >= LAST_WORD_NS)
            && !state.inbound.knows_total()
            && !state.is_cut()
        {
            state.end = Some(End::PeerLeft);
        }
    }

    /// Takes in a message of the peer; says whether that has made something due.
    pub(crate) fn handle(
        &self,
        handler: u8,
        words: &[u64],
        payload: &(impl Bytes + ?Sized),
    ) -> bool {
        let mut state = self.state();
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let taken = match handler {
            _ if state.end == Some(End::Nonsense) => Ok(()),
            ask::PIECE => match FragmentHeader::of(words) {
                Some(fragment) => state.inbound.handle_fragment(fragment, payload),
                None => Err(crate::inbound::ProtocolViolation),
            },
            ask::CREDIT => {
                state.outbound.handle_credit(word(2));
                Ok(())
            }
            ask::CLOSE if word(3) != 0 => {
                state.end = Some(End::Broken);
                Ok(())
            }
            ask::FINISH | ask::CLOSE => state.inbound.handle_total(word(2)),
            _ => Ok(()),
        };
        if taken.is_err() {
            state.end = Some(End::Nonsense);
        } else if handler == ask::CLOSE {
            state.end.get_or_insert(End::Closed);
        }
        state.inbound.wants_credit() || (handler == ask::CREDIT && state.rest.is_some())
    }
}

impl LineState {
    /// Whether a receive would not have to wait.
    pub(crate) fn is_ready(&self) -> bool {
        self.inbound.is_ready() || self.inbound.is_over() || self.is_cut()
    }

    /// Whether nothing more can arrive although the peer has not said that it is done. After a close what it
    /// sent before may still be on its way.
    pub(crate) fn is_cut(&self) -> bool {
        self.end.is_some_and(|end| end != End::Closed)
    }
}
