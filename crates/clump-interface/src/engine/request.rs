//! A request, as an engine gets it, the destination of what it sends, and its counts.

use clump_onesided::protocol::{FIRST_CODE, LAST_CODE, ask, code};
use clump_shm::name::Name;
use clump_wire::frame::FrameKind;
use clump_wire::{Message, OwnedMessage, SendResult};

/// A request, decoded from the message that brought it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    message: &'a Message<'a>,
    /// Endpoint that sent it.
    pub(super) from: Name,
    /// Operation, one of [`clump_onesided::protocol::ask`], without its flag.
    pub(super) handler: u8,
    /// Words of the request.
    pub(super) words: &'a [u64],
    /// Payload, unless it was deposited.
    pub(super) payload: &'a [u8],
    /// Bytes that were deposited.
    pub(super) deposited: u64,
    /// Number of requests of its endpoint that come before it.
    pub(super) after: u64,
}

impl<'a> Request<'a> {
    /// Decodes a message; `None` if it does not have the words of a request.
    #[inline]
    pub(super) fn of(message: &'a Message<'a>) -> Option<Self> {
        debug_assert!(message.is_request(), "all others are handled elsewhere");
        let (mut words, mut payload, mut deposited) = (message.words, message.payload, 0);
        if message.kind == FrameKind::Long {
            let &[_, bytes, ref rest @ ..] = words else { return None };
            (words, deposited) = (rest, bytes);
            payload = if bytes == 0 { payload } else { &[] };
        }
        let mut after = 0;
        if message.handler & ask::AFTER != 0 {
            let (&last, rest) = words.split_last()?;
            (words, after) = (rest, last);
        }
        let (from, handler) = (Name::from_bits(message.route.from), message.handler & !ask::AFTER);
        Some(Self { message, from, handler, words, payload, deposited, after })
    }

    /// Copies the message, so that it can be decoded again. What was deposited stays where it is.
    pub(super) fn keep(&self) -> OwnedMessage {
        debug_assert!(self.deposited == 0 || self.payload.is_empty(), "it was deposited");
        OwnedMessage::of(&self.message.head(), self.message.words, self.payload.to_vec())
    }

    /// Returns true if it is to a service.
    #[inline]
    pub(super) fn is_served(&self) -> bool {
        (FIRST_CODE..=LAST_CODE).contains(&self.handler)
    }

    /// Returns true if it is forwarded in parts to other interfaces.
    #[inline]
    pub(super) fn is_forwarded(&self) -> bool {
        self.handler == code::SPREAD
    }
}

/// Destination of answers.
pub trait ReplySink {
    /// Sends an answer. Returns false when there is no room now.
    fn answer(&mut self, answer: &Message<'_>) -> bool;
    /// Reports to an endpoint the total bytes of its requests consumed, and the credit granted to
    /// it; 0: as before.
    fn report(&mut self, to: Name, consumed: [u64; 2]);
    /// Sends a request of this interface to that of another node: its answer, or its return, is
    /// handed to the engine. Refused: the node is lost, or there is none of that number.
    fn ask(&mut self, node: u32, handler: u8, words: &[u64], payload: &[u8]) -> SendResult;
}

/// A destination without room, where requesters are gone.
pub(super) struct NoSink;

impl ReplySink for NoSink {
    fn answer(&mut self, _: &Message<'_>) -> bool {
        false
    }

    fn report(&mut self, _: Name, _: [u64; 2]) {}

    fn ask(&mut self, _: u32, _: u8, _: &[u64], _: &[u8]) -> SendResult {
        SendResult::Full
    }
}

/// Requests that an engine has executed since it was made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EngineCounts {
    /// Requests, those to services included.
    pub executed: u64,
    /// Requests that were refused, at once or later.
    pub refused: u64,
    /// Requests to services.
    pub services: u64,
    /// Requests to services that were not answered at once.
    pub later: u64,
    /// Requests of services to other interfaces.
    pub asked: u64,
    /// Requests to services that were forwarded together with an earlier one.
    pub joined: u64,
    /// Times that a request had to wait until less was being forwarded.
    pub delayed: u64,
}
