//! The memory of a node: created by the agent, attached by ranks, watched by observers.
//!
//! On a job with several nodes each has a memory of its own. It has blocks for the ranks and
//! network interfaces of its node, and a *peer record* for each rank and interface of the job
//! ([`NodeMemory::peer`]), which the agent keeps up to date.

use crate::barrier::Lines;
use crate::block::EndpointBlock;
use crate::cells::Cells;
use crate::export::{Extent, SegmentName};
use crate::geometry::{
    ENDPOINT_HEADER, ENDPOINTS, Geometry, MAX_LOCAL_INTERFACES, MAX_LOCAL_RANKS, MAX_NODES,
    MAX_RANKS,
};
use crate::job::JobBlock;
use crate::peer::PeerRecord;
use crate::port_entry::PortEntry;
use crate::process_address::ProcessAddressLine;
use crate::rank::RankBlock;
use crate::rank_map::RankMap;
use crate::shared::{Shared, SharedSlice};
use crate::traffic::{CELLS_OF_PAGE, Traffic, TrafficCell};
use crate::{Error, Result};
use clump_os::alarm::Alarm;
use clump_os::fence::{self, FenceKind};
use clump_os::map::{self, Mapping, PAGE};
use clump_os::sync::{AtomicU32, Ordering};
pub(crate) use mapped::{place, place_slice};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The name of a node's memory in `/proc/PID/fd` and `/proc/PID/maps`.
pub const MEMORY_LABEL: &str = "clump-node";
const MAGIC: u64 = u64::from_le_bytes(*b"clumpnod");
/// Layout version; processes of different builds refuse each other.
const VERSION: u64 = 16;
const _: () = assert!(size_of::<JobBlock>() <= PAGE);

/// Settings that the creator of a node's memory chooses for all its processes.
#[derive(Debug, Clone, Copy)]
pub struct NodeConfig<'a> {
    /// Ranks of the job, on all nodes.
    pub ranks: usize,
    /// The node whose memory this is.
    pub node: u32,
    /// The node of each rank, ascending; empty when all are on node 0.
    pub node_of: &'a [u32],
    /// Proxies of each node, on a job of several; 0: ranks drive stacks of their own.
    pub proxies: u32,
    /// Virtual nodes of a job in virtual time, of which this memory has all; 0: time is the
    /// machine's.
    pub virtual_nodes: u32,
    /// Random identity of the job.
    pub job_id: u64,
    /// Survivors go on after a death, and get their messages to the dead returned.
    pub survive: bool,
    /// Time for which a waiting rank spins before it yields, in ns.
    pub spin_ns: u64,
    /// Time for which it yields before it sleeps, in ns.
    pub yield_ns: u64,
}

impl NodeConfig<'_> {
    /// Returns the settings of a job with so many ranks, all on one node, that hardly spin: others
    /// are built from these.
    pub const fn new(ranks: usize) -> Self {
        Self {
            ranks,
            node: 0,
            node_of: &[],
            proxies: 0,
            virtual_nodes: 0,
            job_id: 1,
            survive: false,
            spin_ns: 1,
            yield_ns: 1,
        }
    }
}

/// The shared memory of one node.
#[derive(Debug, Clone)]
pub struct NodeMemory {
    fd: Arc<OwnedFd>,
    geometry: Geometry,
    front: Mapping,
    job: Shared<JobBlock>,
    /// By rank and interface, of all nodes.
    records: SharedSlice<PeerRecord>,
    /// Addresses, in the order of the records.
    addresses: SharedSlice<ProcessAddressLine>,
    fence: FenceKind,
    read_only: bool,
    node: u32,
    proxies: u32,
    map: RankMap,
    local: Range<u32>,
    /// By block; empty on a job of one node.
    alarms: Arc<[Option<Arc<Alarm>>]>,
}

impl NodeMemory {
    /// Creates the memory of a node: a sealed, nameless, sparse file.
    ///
    /// # Errors
    /// Too many ranks, or ranks of a node that do not follow each other.
    pub fn create(config: &NodeConfig<'_>) -> Result<Self> {
        Self::create_with_fence(config, fence::register())
    }

    /// Creates the memory of a node whose ranks and interfaces use that fence: the symmetric one
    /// costs less where one thread runs them all, as in a simulation.
    ///
    /// # Errors
    /// As those of [`NodeMemory::create`].
    pub fn create_with_fence(config: &NodeConfig<'_>, fence: FenceKind) -> Result<Self> {
        if !(1..=MAX_RANKS).contains(&config.ranks) {
            return Err(Error::RankCount { asked: config.ranks, most: MAX_RANKS });
        }
        let map = RankMap::from_nodes(config.ranks, config.node_of);
        let map = map.filter(|map| config.node < map.nodes()).ok_or(Error::NodeMap)?;
        let proxies = if map.nodes() > 1 { config.proxies } else { 0 };
        let each = interface_count::of_each(map.nodes(), proxies);
        if each as usize > MAX_LOCAL_INTERFACES {
            return Err(Error::InterfaceCount { asked: each, most: MAX_LOCAL_INTERFACES });
        }
        let most = MAX_LOCAL_RANKS - usize::from(map.nodes() > 1);
        let too_many = Error::LocalRankCount { asked: map.widest(), most };
        let geometry = Geometry::new(&map, config.node, each).ok_or(too_many)?;
        let geometry = of_nodes(geometry, config.virtual_nodes).ok_or(Error::NodeMap)?;
        let fd = map::sealed_memory(MEMORY_LABEL, geometry.total_bytes())?;
        let node = Self::over(fd, (geometry, map), (config.node, proxies), (fence, false))?;
        let first =
            place_slice::<AtomicU32>(&node.front, Geometry::first_ranks(), node.map.first().len())?;
        for (word, &rank) in first.iter().zip(node.map.first()) {
            word.store(rank, Ordering::Relaxed);
        }
        let job = &node.job;
        job.node.store(config.node, Ordering::Relaxed);
        job.nnodes.store(node.map.nodes(), Ordering::Relaxed);
        job.proxies.store(proxies, Ordering::Relaxed);
        job.virtual_nodes.store(config.virtual_nodes, Ordering::Relaxed);
        job.version.store(VERSION, Ordering::Relaxed);
        job.job_id.store(config.job_id, Ordering::Relaxed);
        job.survive.store(u32::from(config.survive), Ordering::Relaxed);
        job.spin_ns.store(config.spin_ns, Ordering::Relaxed);
        job.yield_ns.store(config.yield_ns, Ordering::Relaxed);
        job.symmetric_fence.store(u32::from(fence == FenceKind::Symmetric), Ordering::Relaxed);
        job.magic.store(MAGIC, Ordering::Release);
        node.check_invariants();
        Ok(node)
    }

    /// Attaches to memory that another process created.
    ///
    /// # Errors
    /// The file could shrink, is not a clump node's memory, or was laid out by another build.
    pub fn attach(fd: OwnedFd) -> Result<Self> {
        let node = Self::open(fd, false)?;
        if node.fence == FenceKind::Asymmetric && fence::register() == FenceKind::Symmetric {
            return Err(Error::NotANode("this process may not use membarrier, but its job does"));
        }
        Ok(node)
    }

    /// Attaches to watch only.
    ///
    /// # Errors
    /// The file could shrink, is not a clump node's memory, or was laid out by another build.
    pub fn observe(fd: OwnedFd) -> Result<Self> {
        Self::open(fd, true)
    }

    fn open(fd: OwnedFd, read_only: bool) -> Result<Self> {
        let bytes =
            map::sealed_size(fd.as_fd())?.ok_or(Error::NotANode("it is not a sealed memfd"))?;
        if bytes < PAGE as u64 {
            return Err(Error::NotANode("it is too short"));
        }
        let page = Mapping::read_only(&fd, 0, PAGE)?;
        let job: Shared<JobBlock> = place(&page, 0)?;
        if job.magic.load(Ordering::Acquire) != MAGIC {
            return Err(Error::NotANode("it does not begin with clump's mark"));
        }
        let found = job.version.load(Ordering::Relaxed);
        if found != VERSION {
            return Err(Error::OtherVersion { found, ours: VERSION });
        }
        let symmetric = job.symmetric_fence.load(Ordering::Relaxed) != 0;
        let fence = if symmetric { FenceKind::Symmetric } else { FenceKind::Asymmetric };
        let (node, proxies) =
            (job.node.load(Ordering::Relaxed), job.proxies.load(Ordering::Relaxed));
        let map = read_map(fd.as_fd(), job.nnodes.load(Ordering::Relaxed), bytes)?;
        let each = interface_count::of_each(map.nodes(), proxies);
        let virtual_nodes = job.virtual_nodes.load(Ordering::Relaxed);
        let geometry = Geometry::new(&map, node, each)
            .and_then(|geometry| of_nodes(geometry, virtual_nodes))
            .filter(|g| g.total_bytes() == bytes)
            .ok_or(Error::NotANode("its size does not fit its number of ranks"))?;
        let node = Self::over(fd, (geometry, map), (node, proxies), (fence, read_only))?;
        node.check_invariants();
        Ok(node)
    }

    /// Asserts the relations between the private copies of what the creator wrote.
    fn check_invariants(&self) {
        debug_assert!(self.node < self.nnodes(), "this node is one of all");
        debug_assert_eq!(self.local, self.map.ranks_of(self.node), "the local ranks are its");
        debug_assert!(!self.local.is_empty(), "every node has ranks");
        debug_assert_eq!(self.map.ranks() as usize, self.ranks(), "the map is that of the layout");
        let (own, all) = (self.own_interfaces(), self.all_interfaces());
        debug_assert!(
            all.start <= own.start && own.end <= all.end,
            "own interfaces are some of all"
        );
        debug_assert_eq!(own.len(), self.interfaces() as usize, "every node has as many");
        debug_assert_eq!(all.end as usize, self.geometry.ids(), "every interface has a record");
        let slots = self.local_ranks().chain(own).map(|id| self.geometry.slot_of(id));
        debug_assert!(slots.eq((0..self.geometry.blocks()).map(Some)), "a block each");
    }

    fn over(
        fd: OwnedFd,
        (geometry, map): (Geometry, RankMap),
        (node, proxies): (u32, u32),
        (fence, read_only): (FenceKind, bool),
    ) -> Result<Self> {
        let mapped = if read_only { Mapping::read_only } else { Mapping::shared };
        let front = mapped(fd.as_fd(), 0, geometry.front_bytes())?;
        let job = place(&front, 0)?;
        let records = place_slice(&front, geometry.peer_records(), geometry.ids())?;
        let addresses = place_slice(&front, geometry.peer_addresses(), geometry.ids())?;
        debug_assert!(front.bytes() >= geometry.front_bytes(), "all blocks are mapped");
        let local = map.ranks_of(node);
        let (fd, alarms) = (Arc::new(fd), Arc::default());
        Ok(Self {
            fd,
            geometry,
            front,
            job,
            records,
            addresses,
            fence,
            read_only,
            node,
            proxies,
            map,
            local,
            alarms,
        })
    }

    /// Returns the memory file, to be passed on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the layout of the memory.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the number of ranks of the job, on all nodes.
    pub fn ranks(&self) -> usize {
        self.geometry.ranks()
    }

    /// Returns the number of this node.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Returns the number of nodes of the job.
    pub fn nnodes(&self) -> u32 {
        self.map.nodes()
    }

    /// Returns the ranks of all nodes.
    pub fn rank_map(&self) -> &RankMap {
        &self.map
    }

    /// Returns the node of `rank`; of one beyond the last, a number beyond the last node.
    #[inline]
    pub fn node_of(&self, rank: u32) -> u32 {
        self.map.node_of(rank)
    }

    /// Returns true if `rank` is on this node, so that shared memory reaches it.
    #[inline]
    pub fn is_local(&self, rank: u32) -> bool {
        self.local.contains(&rank)
    }

    /// Returns the ranks of this node, ascending and without gaps.
    pub fn local_ranks(&self) -> Range<u32> {
        self.local.clone()
    }

    /// Sets the alarms by which this process wakes ranks of this node from now on, in this object
    /// and in clones and paths made of it later.
    pub fn set_alarms(&mut self, alarms: Vec<(u32, Alarm)>) {
        let mut by_slot: Vec<Option<Arc<Alarm>>> = vec![None; self.geometry.blocks()];
        for (id, alarm) in alarms {
            let slot = self.geometry.slot_of(id);
            if let Some(place) = slot.and_then(|slot| by_slot.get_mut(slot)) {
                *place = Some(Arc::new(alarm));
            }
        }
        self.alarms = by_slot.into();
    }

    /// Returns the alarm that wakes `rank`, if it is on this node and this job has alarms.
    #[inline]
    pub fn alarm(&self, rank: u32) -> Option<&Arc<Alarm>> {
        debug_assert!([0, self.geometry.blocks()].contains(&self.alarms.len()), "one a block");
        self.alarms.get(self.geometry.slot_of(rank)?)?.as_ref()
    }

    /// Returns the bytes that may be accessed of a segment of a rank of this node; `None` if it is
    /// not exported now.
    pub fn bytes_of(&self, name: SegmentName) -> Option<u64> {
        let block = self.rank(name.rank()).filter(|_| self.is_local(name.rank()))?;
        block.exports().bytes_of(name.index(), name.generation())
    }

    /// Maps the memory of that name as words ([`NodeMemory::map_registered`]).
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn exported(&self, name: SegmentName) -> Result<Option<(Cells, Extent)>> {
        let mapped = self.map_registered(name)?;
        Ok(mapped.map(|(map, extent)| (Cells::over(map), extent)))
    }

    /// Returns the fence of this job between publishing and the check for sleepers.
    pub fn fence(&self) -> FenceKind {
        self.fence
    }

    /// Returns the job block.
    pub fn job(&self) -> &Shared<JobBlock> {
        &self.job
    }

    /// Returns how long to spin and how long to yield before sleeping, in ns.
    pub fn spin_policy_ns(&self) -> (u64, u64) {
        let spin = self.job.spin_ns.load(Ordering::Relaxed);
        (spin, self.job.yield_ns.load(Ordering::Relaxed))
    }

    /// Returns the block of `rank`, or of the network interface of that number; `None` if it is not
    /// of this node.
    pub fn rank(&self, rank: u32) -> Option<Shared<RankBlock>> {
        place(&self.front, self.geometry.rank_block(self.geometry.slot_of(rank)?)).ok()
    }

    /// Returns the lines that ranks share in barriers.
    pub(crate) fn lines(&self) -> Result<Lines> {
        let (ranks, nodes) = (self.local.len(), self.nnodes() as usize);
        Ok(Lines::new(
            place_slice(&self.front, self.geometry.arrivals(), ranks)?,
            place_slice(&self.front, self.geometry.node_lines(), nodes)?,
            self.job.part(|job| &job.barrier),
        ))
    }

    /// Returns the table entry of `port`.
    pub(crate) fn port_entry(&self, port: u16) -> Option<Shared<PortEntry>> {
        let offset = self.geometry.ports() + usize::from(port) * size_of::<PortEntry>();
        debug_assert!(offset < self.geometry.front_bytes(), "the front holds all ports");
        place(&self.front, offset).ok()
    }

    /// Returns the blocks of all endpoints that `rank` ever opened, closed ones included, for
    /// observers.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn endpoint_blocks(&self, rank: u32) -> Result<Vec<Shared<EndpointBlock>>> {
        let mut blocks = Vec::new();
        for index in 0..ENDPOINTS {
            let block = self.endpoint_block(rank, index)?;
            // Indices are taken from the lowest, so the first that was never used ends the list.
            if block.last_opened().0 == 0 {
                break;
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Returns the block of endpoint `index` of a rank or network interface, open or not.
    ///
    /// # Errors
    /// There is no such endpoint on this node, or address space has run out.
    pub fn endpoint_block(&self, rank: u32, index: usize) -> Result<Shared<EndpointBlock>> {
        place(&self.map(self.endpoint_offset(rank, index)?, ENDPOINT_HEADER)?, 0)
    }

    /// Returns the offset of endpoint `index` of a rank or network interface of this node.
    pub(crate) fn endpoint_offset(&self, rank: u32, index: usize) -> Result<u64> {
        let slot = self.geometry.slot_of(rank).filter(|_| index < ENDPOINTS);
        let outside = Error::NotANode("an endpoint's name points outside of it");
        Ok(self.geometry.endpoint(slot.ok_or(outside)?, index))
    }

    /// Returns the traffic of all endpoints that `rank` ever opened, by destination, for observers;
    /// of a network interface, that of its answers.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn traffic_of(&self, rank: u32) -> Result<BTreeMap<u32, Traffic>> {
        let mut all: BTreeMap<u32, Traffic> = BTreeMap::new();
        let (g, cells) = (self.geometry, self.geometry.ids());
        // An interface counts at its first endpoint, which is open only where it is a proxy.
        let blocks = match self.own_interfaces().contains(&rank) {
            true => vec![self.endpoint_block(rank, 0)?],
            false => self.endpoint_blocks(rank)?,
        };
        for (index, block) in blocks.iter().enumerate() {
            let row = self.endpoint_offset(rank, index)? + g.traffic_in_block() as u64;
            let pages = cells.div_ceil(CELLS_OF_PAGE);
            for page in (0..pages).filter(|&page| block.has_traffic(page)) {
                let map = self.map(row + (page * PAGE) as u64, PAGE)?;
                let found: SharedSlice<TrafficCell> = place_slice(&map, 0, CELLS_OF_PAGE)?;
                for (to, cell) in (page * CELLS_OF_PAGE..cells).zip(found.iter()) {
                    let traffic = cell.read();
                    if traffic != Traffic::default() {
                        let sum = all.entry(to as u32).or_default();
                        *sum = sum.plus(traffic);
                    }
                }
            }
        }
        Ok(all)
    }

    /// Maps `[offset, offset + bytes)` of the node's memory.
    pub(crate) fn map(&self, offset: u64, bytes: usize) -> Result<Mapping> {
        debug_assert!(offset.is_multiple_of(PAGE as u64), "memory is mapped by pages");
        debug_assert!(
            offset + bytes as u64 <= self.geometry.total_bytes(),
            "a read beyond the end of the file kills the process"
        );
        let map = if self.read_only { Mapping::read_only } else { Mapping::shared };
        Ok(map(self.fd.as_fd(), offset, bytes)?)
    }
}

/// Returns a geometry with the regions of so many virtual nodes; `None` if it cannot have them.
fn of_nodes(geometry: Geometry, virtual_nodes: u32) -> Option<Geometry> {
    match virtual_nodes {
        0 => Some(geometry),
        nodes => {
            let fits = geometry.nodes() == 1 && nodes as usize <= geometry.ranks();
            fits.then(|| geometry.with_virtual_nodes(nodes))
        }
    }
}

/// Takes a private copy of the ranks of the nodes from a file of `bytes` bytes: they never change,
/// and others can write the memory.
fn read_map(fd: BorrowedFd<'_>, nodes: u32, bytes: u64) -> Result<RankMap> {
    let nodes = usize::try_from(nodes).unwrap_or(usize::MAX);
    let end = (1..=MAX_NODES).contains(&nodes).then(|| Geometry::first_ranks_end(nodes));
    let end = end.filter(|&end| end as u64 <= bytes);
    let front = Mapping::read_only(fd, 0, end.ok_or(Error::NotANode("it is too short"))?)?;
    let first: SharedSlice<AtomicU32> = place_slice(&front, Geometry::first_ranks(), nodes + 1)?;
    let first = first.iter().map(|word| word.load(Ordering::Relaxed)).collect();
    RankMap::from_first(first).ok_or(Error::NotANode("its nodes have no ranks"))
}

mod deaths;
mod interface_count;
mod interfaces;
mod knobs;
mod mapped;
mod peers;
mod registered;
#[cfg(test)]
mod tests;
