//! Interface services: operations that upper layers add to those of a network interface.
//!
//! A service is pure: it has no clock, socket or thread. It sees one request at a time, accesses
//! exported memory through a [`ServiceContext`], and ends the request at once or later. The engine
//! counts, fences, credits and cancels its requests as its own operations.
//!
//! # Invariants
//! 1. A request to a service is answered, or counted as refused, exactly once.
//! 2. A request that ends later has an answer, which its requester can cancel, or parts that other
//!    interfaces execute: so `quiet` always ends.
//! 3. Requests between interfaces are answered without further requests.

mod apply;
mod batch;
mod catalogue;
mod context;
mod gather;
mod spread;
mod when;

pub use catalogue::Services;
pub(crate) use context::{Asked, JointPart, ServiceEffects};
pub use context::{ServiceContext, Ticket};

use clump_onesided::Refusal;
use clump_shm::export::SegmentName;
use clump_shm::name::Name;

/// Name, version and request numbers of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceId {
    /// Name: letters, digits and `-`.
    pub name: &'static str,
    /// Version: other ones are other services.
    pub version: u32,
    /// First number of its requests.
    pub first: u8,
    /// Number of its requests.
    pub count: u8,
}

/// A request to a service.
#[derive(Debug, Clone, Copy)]
pub struct ServiceRequest<'a> {
    /// Endpoint that sent it.
    pub from: Name,
    /// Request number.
    pub code: u8,
    /// Segment that it names.
    pub segment: SegmentName,
    /// Offset in that segment.
    pub offset: u64,
    /// True if it is owed an answer.
    pub answered: bool,
    /// Words behind those three.
    pub words: &'a [u64],
    /// Payload of the request.
    pub payload: &'a [u8],
}

/// State of a request after a step of its service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceOutcome {
    /// Ended without a result.
    Done,
    /// Ended with a value.
    Value(u64),
    /// Ended with the bytes in [`ServiceContext::bytes`].
    Bytes,
    /// Ends later, after a watched word changes or an interface answers.
    Later,
    /// Refused, without effect.
    Refused(Refusal),
    /// Refused for the part that concerns this segment; the rest was executed.
    RefusedAt(Refusal, SegmentName),
}

/// Event that a request waited for.
#[derive(Debug, Clone, Copy)]
pub enum Wakeup<'a> {
    /// A watched word may have changed.
    Changed,
    /// The interface of this node has answered: a value or bytes, or its refusal.
    Answered(u32, Result<&'a [u8], Refusal>),
}

/// Message of a service to the interface of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceMessage {
    /// The node.
    pub node: u32,
    /// One of the service's request numbers.
    pub code: u8,
    /// Words behind segment, offset and cookie, which are 0.
    pub words: [u64; 4],
    /// Payload, at most [`clump_onesided::protocol::MAX_PIECE`] bytes.
    pub payload: Vec<u8>,
}

/// Operations that an interface executes for an upper layer.
pub trait Service: Send {
    /// Returns its name, version and request numbers.
    fn id(&self) -> ServiceId;

    /// Begins a request.
    fn handle(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome;

    /// Continues a request that was to end later. May be called although nothing has changed.
    fn resume(
        &mut self,
        ticket: Ticket,
        why: Wakeup<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome;

    /// Drops what is kept for a request that was to end later: it was cancelled, or its rank died.
    fn forget(&mut self, ticket: Ticket);

    /// Drops what is kept for a rank that died or finalized, besides its requests.
    fn rank_gone(&mut self, rank: u32) {
        let _ = rank;
    }

    /// Handles requests of this node's ranks that bypass the network: `calls` has a bit for each
    /// rank that has left a call, modulo 64 ([`clump_shm::rank::RankBlock::call_interface`]).
    fn handle_calls(&mut self, calls: u64, context: &mut ServiceContext<'_>) {
        let _ = (calls, context);
    }

    /// Returns the next message to the interface of another node, which handles it as a request
    /// without an answer. Called after each step, until there is none.
    fn poll_message(&mut self) -> Option<ServiceMessage> {
        None
    }

    /// Returns the bytes kept now.
    fn memory_bytes(&self) -> usize;

    /// Returns the bytes above which it is given no more requests; those are refused.
    fn memory_bound(&self) -> usize;
}
