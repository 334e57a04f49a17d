//! The interface of a way of messages to other nodes. A [`crate::Network`] gives the endpoints of a
//! rank one of them.

use clump_net::{Batch, FlowId, Progress};
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_wire::{Message, OwnedMessage, SendResult};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Action for a message that a transport has put into an endpoint's lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// The endpoint handles it.
    Handle,
    /// It concerned flow control only.
    Done,
}

/// Room that a reply takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyRoom {
    /// The part that the transport keeps for replies, which may be full.
    Limited,
    /// As much as it needs. For messages whose number is bounded by the requests of peers.
    Unlimited,
}

/// Amount that a flush sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Messages since the last poll that wait to share a packet.
    Gathered,
    /// Everything that is due, acknowledgements included.
    Due,
    /// Everything, because the rank is about to sleep.
    Sleep,
}

/// Numbers of a transport at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Bytes kept for peers: in flight, waiting to be sent, and waiting for endpoints.
    pub memory_bytes: usize,
    /// Number that distinguishes packets of this job from those of others, if this process makes
    /// the packets.
    pub job_tag: Option<u32>,
}

/// A transport of a rank's messages to other nodes. Any thread of the rank may call it.
///
/// Arriving messages come in one of two ways: [`Transport::poll`] returns them, or the transport
/// puts them into the endpoints' lanes, and the endpoint shows each to [`Transport::accept`].
pub trait Transport: std::fmt::Debug + Send + Sync {
    /// Opens the flow between two endpoints, or returns the one that is open.
    fn open_flow(&self, from: u64, to: u64, ordered: bool) -> FlowId;

    /// Sends a request over the flow between its endpoints; of a long one as much as there is room
    /// for, which `progress` tells.
    fn send(&self, flow: FlowId, message: &Message<'_>, progress: &mut Progress) -> SendResult;

    /// Sends a reply, a message that goes back, or a report of the bytes of requests consumed.
    fn reply(&self, reply: &Message<'_>, room: ReplyRoom) -> SendResult;

    /// Returns true if something sent on a flow is not known to be consumed; its peer has then been
    /// asked to report.
    fn request_consumption_report(&self, flow: FlowId) -> bool;

    /// Polls once for messages of endpoint `wanted`; returns the number of packets, and which
    /// message is to be timed. If there are messages, [`Transport::flush`] sends the packets that
    /// they cause.
    fn poll(&self, wanted: u8, batch: &mut Batch) -> (usize, Option<usize>);

    /// Updates the account of flows with a message that came by a lane.
    fn accept(&self, queued: &OwnedMessage) -> Accept;

    /// Notes that the message to be timed, of so many bytes, is about to be handled.
    fn on_delivery(&self, bytes: usize);

    /// Sends what waits. Returns the time until the next poll is needed, if one is.
    fn flush(&self, urgency: Urgency) -> Option<Duration>;

    /// Returns a descriptor that becomes readable when packets arrive.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;

    /// Notes that the rank waited for that until now: what it receives next has just arrived.
    fn note_watched(&self);

    /// Returns the number of packets of peers that polls have found: it grows while fragments
    /// arrive, even before a message is complete.
    fn packets_heard(&self) -> u64;

    /// Returns true if messages wait for an endpoint.
    fn has_queued(&self, index: u8) -> bool;

    /// Closes an endpoint: messages that wait for it, and those that it was handed and has not
    /// handled, are returned to their senders.
    fn close_endpoint(&self, name: u64, unhandled: Vec<OwnedMessage>);

    /// Gives up peers that died or finalized, and copies counters and notes into the rank's block.
    fn housekeeping(&self, node: &NodeMemory, block: &RankBlock);

    /// Performs the close handshake with all peers, until it is complete or `over`.
    fn close(&self, node: &NodeMemory, block: &RankBlock, over: &dyn Fn() -> bool);

    /// Returns its numbers as they are now.
    fn snapshot(&self) -> Snapshot;

    /// Sets the bytes of buffers that may be kept for reuse, beyond those in flight at one time.
    /// For programs that count their memory.
    fn set_spare(&self, bytes: usize);

    /// Returns true if the calling thread may call this: false if it may be inside a call already,
    /// interrupted by a signal.
    fn is_free(&self) -> bool;
}
