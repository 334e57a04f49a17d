//! The network as the endpoints of a rank use it.

use crate::credit::credit_bytes;
use crate::error::Result;
use crate::own_stack::OwnStack;
use crate::proxy::ProxyClient;
use crate::registry::Registry;
use crate::requesters::ReplyOutlet;
use crate::resources::NetworkResources;
use crate::transport::{Accept, Transport};
use clump_boot::Dispatch;
use clump_net::{Batch, FlowId, Polling, Progress};
use clump_os::forked;
use clump_shm::block::EndpointBlock;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_shm::segment::Segment;
use clump_shm::shared::Shared;
use clump_wire::frame::stack_of;
use clump_wire::{Message, OwnedMessage, Reason, SendResult};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Polls between two attempts to hand stored messages to a proxy.
const PROXY_POLLS: u32 = 256;

/// A rank's transport to other nodes, and its endpoints as that transport sees them.
#[derive(Debug)]
pub struct Network {
    transport: Box<dyn Transport>,
    registry: Arc<Registry>,
    credit: u64,
    polling: Polling,
}

impl Network {
    /// Opens the network by a stack of the rank's own.
    ///
    /// # Errors
    /// The socket or the key cannot be used.
    pub fn open(node: &NodeMemory, rank: u32, resources: NetworkResources) -> Result<Self> {
        debug_assert!(node.is_local(rank), "a rank opens the network on its own node");
        // A rank that is alone on its node has nothing else to poll.
        let alone = node.local_ranks().len() == 1;
        let (least, most) = if alone { (1, 1) } else { resources.polling };
        let registry = Arc::new(Registry::new(rank));
        let transport = Box::new(OwnStack::open(node, rank, resources, &registry)?);
        let polling = Polling::new(least, most);
        Ok(Self { transport, registry, credit: credit_bytes(node), polling })
    }

    /// Opens the network by way of the node's proxies.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn through_proxies(node: &NodeMemory, rank: u32, dispatch: Dispatch) -> Result<Self> {
        debug_assert!(node.is_local(rank), "a rank opens the network on its own node");
        debug_assert!(node.proxies() > 0, "its node has proxies");
        let registry = Arc::new(Registry::new(rank));
        let transport = Box::new(ProxyClient::open(node, rank, dispatch)?);
        // Arriving messages lie in the lanes of endpoints; a poll only hands on messages that had
        // to wait.
        let polling = Polling::new(PROXY_POLLS, PROXY_POLLS);
        Ok(Self { transport, registry, credit: credit_bytes(node), polling })
    }

    /// Registers an endpoint that has opened.
    pub fn enter(&self, name: Name, block: Shared<EndpointBlock>) {
        self.registry.enter(name, block);
    }

    /// Sets or removes the segment of an endpoint.
    pub fn set_segment(&self, name: Name, segment: Option<Segment>) {
        self.registry.set_segment(name, segment);
    }

    /// Returns the schedule by which an endpoint polls the network.
    pub fn polling(&self) -> Polling {
        self.polling.clone()
    }

    /// Opens the flow between two endpoints, or returns the one that is open.
    pub fn open_flow(&self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        debug_assert_eq!(Name::from_bits(to).rank(), peer, "a flow leads to its peer");
        self.transport.open_flow(from, to, peer, ordered)
    }

    /// Returns true if the calling thread may use the network: false if it may be inside a call
    /// already, interrupted by a signal.
    pub fn is_free(&self) -> bool {
        self.transport.is_free()
    }

    /// Sends a request over the flow between its endpoints; of a long one as much as there is room
    /// for, which `progress` tells.
    #[inline]
    pub fn request(
        &self,
        flow: FlowId,
        message: &Message<'_>,
        progress: &mut Progress,
    ) -> SendResult {
        debug_assert!(!forked::is_child(), "invariant 2: endpoints refuse what a child sends");
        self.transport.request(flow, message, progress)
    }

    /// Returns true if something sent on a flow is not known to be consumed; its peer has then been
    /// asked to report.
    pub fn request_consumption_report(&self, flow: FlowId) -> bool {
        self.transport.request_consumption_report(flow)
    }

    /// Polls once for messages of endpoint `wanted`; returns the number of packets, and which
    /// message is to be timed.
    #[inline]
    pub fn poll(&self, wanted: u8, batch: &mut Batch) -> (usize, Option<usize>) {
        debug_assert!(usize::from(wanted) < ENDPOINTS, "an endpoint polls");
        self.transport.poll(wanted, batch)
    }

    /// Updates the account of flows with a message that came by a lane.
    pub fn accept(&self, queued: &OwnedMessage) -> Accept {
        self.transport.accept(queued)
    }

    /// Notes that the message to be timed, of so many bytes, is about to be handled.
    #[cold]
    pub fn on_delivery(&self, bytes: usize) {
        self.transport.on_delivery(bytes);
    }

    /// Returns the number of packets of peers that polls have found: it grows while fragments
    /// arrive, even before a message is complete.
    pub fn packets_heard(&self) -> u64 {
        self.transport.packets_heard()
    }

    /// Sends what messages since the last poll have left to be sent; returns true if there was
    /// anything.
    #[inline]
    pub fn flush(&self) -> bool {
        self.transport.flush()
    }

    /// Sends and acknowledges everything that is due.
    pub fn service(&self) {
        self.transport.service();
    }

    /// Sends what is due before a sleep; returns the time until the next poll is needed.
    pub fn before_sleep(&self) -> Option<Duration> {
        self.transport.before_sleep()
    }

    /// Returns a descriptor that becomes readable when packets arrive.
    pub fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.transport.readiness()
    }

    /// Returns true if messages wait for an endpoint.
    pub fn has_queued(&self, index: u8) -> bool {
        debug_assert!(usize::from(index) < ENDPOINTS, "messages wait for endpoints");
        self.transport.has_queued(index)
    }

    /// Returns to their senders messages that were handed over and not handled.
    pub fn return_queued(&self, queued: Vec<OwnedMessage>) {
        self.transport.return_queued(queued);
    }

    /// Closes an endpoint: messages that wait for it are returned to their senders.
    pub fn close_endpoint(&self, index: u8, name: u64) {
        debug_assert_eq!(Name::from_bits(name).index(), index, "an endpoint has its index");
        self.transport.close_endpoint(index, name);
    }

    /// Gives up peers that died or finalized, and copies counters and notes into the rank's block.
    pub fn housekeeping(&self, node: &NodeMemory, block: &RankBlock) {
        self.transport.housekeeping(node, block);
    }

    /// Performs the close handshake with all peers: waits until everything sent has arrived, tells
    /// them that this rank accepts nothing more, and waits until they know. Peers that die or
    /// finalize meanwhile are not waited for. All endpoints are closed.
    pub fn close(&self, node: &NodeMemory, rank: u32) {
        debug_assert!(node.is_local(rank), "a rank closes its own network");
        let Some(block) = node.rank(rank) else {
            clump_bug::bug!("every rank has a block");
            return;
        };
        let over = || {
            let lost = node.job().first_death().is_some() && !node.job().survive();
            lost || node.death_of(rank).is_some()
        };
        self.transport.close(node, &block, &over);
    }

    /// Returns the bytes kept for peers: in flight, waiting to be sent, and waiting for endpoints.
    pub fn memory_bytes(&self) -> usize {
        self.transport.memory_bytes()
    }

    /// Sets the bytes of buffers that this rank's stack may keep for reuse, beyond those in flight
    /// at one time. For programs that count their memory.
    pub fn set_spare(&self, bytes: usize) {
        self.transport.set_spare(bytes);
    }

    /// Returns the number by which packets of this job are told from those of others; every packet
    /// carries it. A rank that has proxies does not know it.
    pub fn job_tag(&self) -> Option<u32> {
        self.transport.job_tag()
    }
}

/// The way of a rank's replies. A child forked in a handler replies to nobody.
impl ReplyOutlet for &Network {
    #[inline]
    fn reply(&mut self, reply: &Message<'_>) -> SendResult {
        if forked::is_child() {
            return SendResult::Refused(Reason::EndpointGone);
        }
        self.transport.reply(stack_of(reply.route.to), reply)
    }

    fn reply_anyway(&mut self, reply: &Message<'_>) {
        if !forked::is_child() {
            self.transport.reply_anyway(stack_of(reply.route.to), reply);
        }
    }

    fn report(&mut self, from: u64, to: u64, total: u64) {
        if !forked::is_child() {
            self.transport.report(stack_of(to), from, to, total);
        }
    }

    fn credit(&self) -> u64 {
        self.credit
    }
}
