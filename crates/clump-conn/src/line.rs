//! The state of one side of a connection, over any route: both directions, and how it ended.

use crate::error::End;
use crate::inbound::{Bytes, Inbound};
use crate::outbound::{Outbound, Sending};
use crate::port::Order;
use crate::receive_window::FIRST_WINDOW;
use crate::words::{FragmentHeader, ask};
use clump_os::clock;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Maximum time for the last message of a peer to arrive after its endpoint is known to be closed.
const LAST_WORD_NS: u64 = 5_000_000_000;
/// Maximum number of bytes of a message.
pub(crate) const MAX_MESSAGE: usize = 1 << 30;

/// Answer to a request to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectAnswer {
    Queued,
    Refused(u64),
}

/// The state of one side of a connection, shared by all threads.
#[derive(Debug)]
pub(crate) struct ConnectionLine {
    state: Mutex<LineState>,
    /// Held by the thread that sends a message, from its first fragment to its last.
    sender: Mutex<()>,
}

/// The state behind the lock, which is held briefly and never while anything is sent.
#[derive(Debug)]
pub(crate) struct LineState {
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    /// The number that the peer gave the connection.
    pub(crate) theirs: u64,
    pub(crate) answer: Option<ConnectAnswer>,
    /// Why it ended: nothing more can be sent, and only messages that have arrived can be received.
    pub(crate) end: Option<End>,
    /// This side has closed.
    pub(crate) hung_up: bool,
    /// The time since which the peer is known to receive nothing, if it has not said so itself.
    doubted_ns: Option<u64>,
    /// A message whose rest waits for space.
    pub(crate) rest: Option<Rest>,
}

/// The rest of a message, without its first bytes.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) skipped: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sending: Sending,
}

impl Rest {
    /// Copies the part of `message` that has not been sent.
    pub(crate) fn of(message: &[u8], sending: Sending) -> Self {
        let skipped = sending.sent();
        let bytes = message.get(skipped as usize..).unwrap_or_default().to_vec();
        Self { skipped, bytes, sending }
    }
}

impl ConnectionLine {
    pub(crate) fn new(order: Order, theirs: u64) -> Self {
        let state = LineState {
            inbound: Inbound::new(order, FIRST_WINDOW, MAX_MESSAGE as u64),
            outbound: Outbound::new(FIRST_WINDOW),
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

    /// Takes the right to send, unless another thread has it.
    pub(crate) fn try_sender(&self) -> Option<MutexGuard<'_, ()>> {
        match self.sender.try_lock() {
            Ok(sender) => Some(sender),
            Err(TryLockError::Poisoned(sender)) => Some(sender.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns true if it ended, for any reason: nothing can be sent.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// Ends the connection for this reason, unless it is cut already.
    pub(crate) fn end(&self, why: End) {
        let mut state = self.state();
        if !state.is_cut() {
            state.end = Some(why);
        }
    }

    /// Records that the peer's endpoint returned a message at `now`.
    pub(crate) fn doubt(&self, now: u64) {
        let mut state = self.state();
        state.end.get_or_insert(End::Closed);
        state.doubted_ns.get_or_insert(now);
    }

    /// Ends the connection when a peer was doubted for [`LAST_WORD_NS`] and has not sent its total.
    pub(crate) fn handle_time(&self, now: u64) {
        let mut state = self.state();
        if state.doubted_ns.is_some_and(|since| now.saturating_sub(since) >= LAST_WORD_NS)
            && !state.inbound.knows_total()
            && !state.is_cut()
        {
            state.end = Some(End::PeerLeft);
        }
    }

    /// Handles a message of the peer; returns true if that has made something due.
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
            ask::FRAGMENT => match FragmentHeader::of(words) {
                Some(fragment) => state.inbound.handle_fragment(clock::now_ns(), fragment, payload),
                None => Err(crate::inbound::ProtocolViolation),
            },
            ask::CREDIT => {
                state.outbound.handle_credit(word(2), word(3));
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
    /// Returns true if a receive would not have to wait.
    pub(crate) fn is_ready(&self) -> bool {
        self.inbound.is_ready() || self.inbound.is_over() || self.is_cut()
    }

    /// Returns true if nothing more can arrive although the peer has not finished. After a close
    /// its earlier messages may still be in flight.
    pub(crate) fn is_cut(&self) -> bool {
        self.end.is_some_and(|end| end != End::Closed)
    }
}
