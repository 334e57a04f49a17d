//! What the endpoints of a rank share: the node's memory, the rank's block, patience, segment space.

use crate::error::{ErrorKind, Result};
use crate::network::{Dispatch, Network, NetworkResources};
use clump_shm::job::Death;
use clump_shm::node::NodeMemory;
use clump_shm::rank::{RankBlock, WaitReason};
use clump_shm::segment::SegmentSpace;
use clump_shm::shared::Shared;
use clump_shm::waiter::SpinPolicy;
use clump_trace::Counters;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a program may set about its endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Lanes of its own for each destination, while they last; else the shared queues only.
    pub lanes: bool,
    /// How long a request waits for room before it is returned; `None` for ever.
    pub send_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { lanes: true, send_timeout: None }
    }
}

/// The rank that endpoints belong to.
#[derive(Debug)]
pub struct RankContext {
    node: NodeMemory,
    rank: u32,
    block: Shared<RankBlock>,
    spin_policy: SpinPolicy,
    segments: Mutex<SegmentSpace>,
    settings: Settings,
    network: Option<Network>,
}

impl RankContext {
    /// The context of `rank`. One per process and rank.
    pub fn new(node: &NodeMemory, rank: u32, settings: Settings) -> Result<Self> {
        let missing = clump_shm::Error::NotANode("this rank has no block in it");
        let block = node.rank(rank).ok_or(missing)?;
        let (spin_ns, yield_ns) = node.spin_policy_ns();
        let segments = Mutex::new(SegmentSpace::new(node, rank));
        let spin_policy = SpinPolicy::new(spin_ns, yield_ns);
        let node = node.clone();
        Ok(Self { node, rank, block, spin_policy, segments, settings, network: None })
    }

    /// The same, with a seat at the network between nodes.
    ///
    /// # Errors
    /// The socket or the key cannot be used.
    pub fn with_network(
        node: &NodeMemory,
        rank: u32,
        settings: Settings,
        seat: NetworkResources,
    ) -> Result<Self> {
        let mut context = Self::new(node, rank, settings)?;
        context.network = Some(Network::open(node, rank, seat)?);
        Ok(context)
    }

    /// The same, on a node whose proxies drive the network.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn with_proxies(
        node: &NodeMemory,
        rank: u32,
        settings: Settings,
        dispatch: Dispatch,
    ) -> Result<Self> {
        let mut context = Self::new(node, rank, settings)?;
        context.network = Some(Network::through_proxies(node, rank, dispatch)?);
        Ok(context)
    }

    /// The network between nodes, on a job of several.
    #[inline]
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// Leaves the network, if there is one: returns once everything sent has arrived and all peers know.
    /// All endpoints should be closed.
    pub fn close_network(&self) {
        if let Some(network) = &self.network {
            // The agent looks for this: a rank that leaves has no other business any more.
            self.block.note_waiting(Some(WaitReason::Leave));
            network.close(&self.node, self.rank);
            self.block.note_waiting(None);
        }
    }

    /// This rank's own counters.
    pub fn counters(&self) -> Counters<'_> {
        Counters::over(self.block.counters())
    }

    /// The node's memory.
    pub fn node(&self) -> &NodeMemory {
        &self.node
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// This rank's block.
    pub fn block(&self) -> &Shared<RankBlock> {
        &self.block
    }

    /// How long this rank spins, yields and sleeps.
    pub fn spin_policy(&self) -> &SpinPolicy {
        &self.spin_policy
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    pub(crate) fn take_segment(&self, bytes: u64) -> Result<u64> {
        self.reserve_segment(bytes, bytes)
    }

    /// Takes `reserved` bytes of this rank's segment space, of which the first `bytes` have memory; gives
    /// their offset in the node's memory.
    ///
    /// # Errors
    /// Space or memory has run out.
    pub fn reserve_segment(&self, reserved: u64, bytes: u64) -> Result<u64> {
        let mut space = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(space.take_reserved(reserved, bytes)?)
    }

    /// Gives memory to all of what was reserved at `offset` up to `bytes`.
    ///
    /// # Errors
    /// Memory has run out.
    pub fn commit_segment(&self, offset: u64, bytes: u64) -> Result<()> {
        let space = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(space.commit(offset, bytes)?)
    }

    /// Gives back what was reserved at `offset`.
    pub fn give_back_segment(&self, offset: u64, bytes: u64) {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).give_back(offset, bytes);
    }

    /// The death that ends this job, unless survivors go on.
    pub fn fatal_death(&self) -> Option<Death> {
        if self.node.job().survive() { None } else { self.node.job().first_death() }
    }

    /// Fails in a child by `fork`, whose sockets and mappings are its parent's or gone.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if clump_os::forked::is_child() { Err(ErrorKind::Forked.into()) } else { Ok(()) }
    }

    /// Fails when a rank died and survivors do not go on, and in a child by `fork`.
    pub fn check_alive(&self) -> Result<()> {
        self.check_process()?;
        self.fatal_death().map_or(Ok(()), |death| Err(ErrorKind::RankDied(death).into()))
    }
}
