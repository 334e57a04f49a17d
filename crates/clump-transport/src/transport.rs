//! The interface of a way of messages to other nodes. [`crate::Network`] drives one of them for the
//! endpoints of a rank.

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

/// A transport of a rank's messages to other nodes. Any thread of the rank may call it.
///
/// Arriving messages come in one of two ways: [`Transport::poll`] returns them, or the transport
/// puts them into the endpoints' lanes, and the endpoint shows each to [`Transport::accept`].
pub trait Transport: std::fmt::Debug + Send + Sync {
    /// Opens the flow between two endpoints, or returns the one that is open.
    fn open_flow(&self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId;

    /// Returns true if the calling thread may call this: false if it may be inside a call already,
    /// interrupted by a signal.
    fn is_free(&self) -> bool;

    /// Sends a request over the flow between its endpoints; of a long one as much as there is room
    /// for, which `progress` tells.
    fn request(&self, flow: FlowId, message: &Message<'_>, progress: &mut Progress) -> SendResult;

    /// Sends a reply to an endpoint of `peer`.
    fn reply(&self, peer: u32, reply: &Message<'_>) -> SendResult;

    /// Sends a reply without regard to limits. For messages whose number is bounded by the requests
    /// of peers.
    fn reply_anyway(&self, peer: u32, reply: &Message<'_>);

    /// Reports to the endpoint `to` of `peer` the bytes of its requests that `from` has consumed in
    /// all.
    fn report(&self, peer: u32, from: u64, to: u64, total: u64);

    /// Returns true if something sent on a flow is not known to be consumed; its peer has then been
    /// asked to report.
    fn request_consumption_report(&self, flow: FlowId) -> bool;

    /// Polls once for messages of endpoint `wanted`; returns the number of packets, and which
    /// message is to be timed.
    fn poll(&self, wanted: u8, batch: &mut Batch) -> (usize, Option<usize>);

    /// Updates the account of flows with a message that came by a lane.
    fn accept(&self, queued: &OwnedMessage) -> Accept;

    /// Notes that the message to be timed, of so many bytes, is about to be handled.
    fn on_delivery(&self, bytes: usize);

    /// Returns the number of packets of peers that polls have found: it grows while fragments
    /// arrive, even before a message is complete.
    fn packets_heard(&self) -> u64;

    /// Sends what messages since the last poll have left to be sent; returns true if there was
    /// anything.
    fn flush(&self) -> bool;

    /// Sends and acknowledges everything that is due.
    fn service(&self);

    /// Sends what is due before a sleep; returns the time until the next poll is needed.
    fn before_sleep(&self) -> Option<Duration>;

    /// Returns a descriptor that becomes readable when packets arrive.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;

    /// Returns true if messages wait for an endpoint.
    fn has_queued(&self, index: u8) -> bool;

    /// Returns to their senders messages that were handed over and not handled.
    fn return_queued(&self, queued: Vec<OwnedMessage>);

    /// Closes an endpoint: messages that wait for it are returned to their senders.
    fn close_endpoint(&self, index: u8, name: u64);

    /// Gives up peers that died or finalized, and copies counters and notes into the rank's block.
    fn housekeeping(&self, node: &NodeMemory, block: &RankBlock);

    /// Performs the close handshake with all peers, until it is complete or `over`.
    fn close(&self, node: &NodeMemory, block: &RankBlock, over: &dyn Fn() -> bool);

    /// Returns the bytes kept for peers: in flight, waiting to be sent, and waiting for endpoints.
    fn memory_bytes(&self) -> usize;

    /// Sets the bytes of buffers that may be kept for reuse, beyond those in flight at one time.
    fn set_spare(&self, bytes: usize);

    /// Returns the number by which packets of this job are told from those of others, if this
    /// process makes the packets.
    fn job_tag(&self) -> Option<u32>;
}
