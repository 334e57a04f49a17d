//! The network as the endpoints of a rank use it.

use crate::credit::{credit_bytes, pool_of};
use crate::error::Result;
use crate::locked_stack::LockedStack;
use crate::proxy::ProxyClient;
use crate::registry::Registry;
use crate::requesters::{ReplyOutlet, SharedPool};
use crate::resources::NetworkResources;
use crate::transport::{ReplyRoom, Transport};
use clump_boot::Dispatch;
use clump_net::Polling;
use clump_os::forked;
use clump_shm::block::EndpointBlock;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::segment::Segment;
use clump_shm::shared::Shared;
use clump_wire::frame::FrameKind;
use clump_wire::{Message, Reason, SendResult};
use std::ops::Deref;
use std::sync::Arc;

/// Polls between two attempts to hand stored messages to a proxy.
const PROXY_POLLS: u32 = 256;

/// A rank's [`Transport`] to other nodes, and its endpoints as that transport sees them.
#[derive(Debug)]
pub struct Network {
    transport: Box<dyn Transport>,
    registry: Arc<Registry>,
    credit: u64,
    pool: SharedPool,
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
        let transport = Box::new(LockedStack::open(node, rank, resources, &registry)?);
        let polling = Polling::new(least, most);
        let (credit, pool) = (credit_bytes(node), pool_of(node.local_ranks().len()));
        Ok(Self { transport, registry, credit, pool, polling })
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
        let (credit, pool) = (credit_bytes(node), pool_of(node.local_ranks().len()));
        Ok(Self { transport, registry, credit, pool, polling })
    }

    /// Registers an endpoint that has opened.
    pub fn enter(&self, name: Name, block: Shared<EndpointBlock>) {
        self.registry.enter(name, block);
    }

    /// Sets or removes the segment of an endpoint.
    pub fn set_segment(&self, name: Name, segment: Option<Segment>) {
        self.registry.set_segment(name, segment);
    }

    /// Returns the pool out of which the rank's endpoints grant credit.
    pub fn credit_pool(&self) -> SharedPool {
        self.pool.clone()
    }

    /// Returns the schedule by which an endpoint polls the network.
    pub fn polling(&self) -> Polling {
        self.polling.clone()
    }

    /// Performs the close handshake with all peers: waits until everything sent has arrived, tells
    /// them that this rank accepts nothing more, and waits until they know. Peers that die or
    /// finalize meanwhile are not waited for. All endpoints are closed.
    pub fn close(&self, node: &NodeMemory, rank: u32) {
        debug_assert!(node.is_local(rank), "a rank closes its own network");
        debug_assert!(!forked::is_child(), "a child closes its parent's network");
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
}

impl Deref for Network {
    type Target = dyn Transport;

    #[inline]
    fn deref(&self) -> &(dyn Transport + 'static) {
        &*self.transport
    }
}

/// The way of a rank's replies. A child forked in a handler replies to nobody.
impl ReplyOutlet for &Network {
    #[inline]
    fn reply(&mut self, reply: &Message<'_>) -> SendResult {
        debug_assert!(reply.route.tag == 0, "replies show no tag");
        if forked::is_child() {
            return SendResult::Refused(Reason::EndpointGone);
        }
        self.transport.reply(reply, ReplyRoom::Limited)
    }

    fn reply_anyway(&mut self, reply: &Message<'_>) {
        if !forked::is_child() {
            let sent = self.transport.reply(reply, ReplyRoom::Unlimited);
            debug_assert!(sent != SendResult::Full, "there is room without a limit");
        }
    }

    fn report(&mut self, from: u64, to: u64, consumed: [u64; 2]) {
        let words = &consumed;
        self.reply_anyway(&Message::answer((FrameKind::Credit, 0), (from, to), (words, &[])));
    }

    fn credit(&self) -> u64 {
        self.credit
    }
}
