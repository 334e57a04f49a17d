//! A request, as an engine gets it, the destination of what it sends, and its counts.

use clump_onesided::protocol::{FIRST_CODE, LAST_CODE, code};
use clump_shm::name::Name;
use clump_wire::SendResult;

/// A request as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Endpoint that sent it.
    pub from: Name,
    /// Operation, one of [`clump_onesided::protocol::ask`].
    pub handler: u8,
    /// Words of the request.
    pub words: &'a [u64],
    /// Payload, unless it was deposited.
    pub payload: &'a [u8],
    /// Bytes that were deposited.
    pub deposited: u64,
}

impl Request<'_> {
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
    fn answer(&mut self, to: Name, handler: u8, words: &[u64], payload: &[u8]) -> bool;
    /// Reports to an endpoint the total bytes of its requests consumed.
    fn report(&mut self, to: Name, consumed: u64);
    /// Sends a request of this interface to that of another node: its answer, or its return, is
    /// handed to the engine. Refused: the node is lost, or there is none of that number.
    fn ask(&mut self, node: u32, handler: u8, words: &[u64], payload: &[u8]) -> SendResult;
}

/// A destination without room, where requesters are gone.
pub(super) struct NoSink;

impl ReplySink for NoSink {
    fn answer(&mut self, _: Name, _: u8, _: &[u64], _: &[u8]) -> bool {
        false
    }

    fn report(&mut self, _: Name, _: u64) {}

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
