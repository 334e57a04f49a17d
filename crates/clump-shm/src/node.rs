//! The memory of a node: created by the agent, attached by ranks, watched by observers.
//!
//! On a job with several nodes each has a memory of its own, laid out for the ranks of all. The
//! blocks of ranks of other nodes are *mirrors*, which the agent keeps up to date: the rank's
//! state, and its address. They hold nothing else, and no thread sleeps there.

use crate::barrier::Lines;
use crate::block::EndpointBlock;
use crate::cells::Cells;
use crate::export::{Extent, SegmentName};
use crate::geometry::{ENDPOINT_HEADER, ENDPOINTS, Geometry, MAX_RANKS};
use crate::job::JobBlock;
use crate::port_entry::PortEntry;
use crate::rank::RankBlock;
use crate::shared::{Shared, SharedSlice};
use crate::traffic::{CELLS_OF_PAGE, Traffic, TrafficCell};
use crate::{Error, Result};
use clump_os::alarm::Alarm;
use clump_os::fence::{self, FenceKind};
use clump_os::map::{self, Mapping, PAGE};
use clump_os::sync::Ordering;
pub(crate) use mapped::{place, place_slice};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The name of a node's memory in `/proc/PID/fd` and `/proc/PID/maps`.
pub const MEMORY_LABEL: &str = "clump-node";
const MAGIC: u64 = u64::from_le_bytes(*b"clumpnod");
/// Layout version; processes of different builds refuse each other.
const VERSION: u64 = 12;
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
    /// Random identity of the job.
    pub job_id: u64,
    /// Survivors go on after a death, and get their messages to the dead returned.
    pub survive: bool,
    /// Time for which a waiting rank spins before it yields, in ns.
    pub spin_ns: u64,
    /// Time for which it yields before it sleeps, in ns.
    pub yield_ns: u64,
}

/// The shared memory of one node.
#[derive(Debug, Clone)]
pub struct NodeMemory {
    fd: Arc<OwnedFd>,
    geometry: Geometry,
    front: Mapping,
    job: Shared<JobBlock>,
    fence: FenceKind,
    read_only: bool,
    node: u32,
    nnodes: u32,
    proxies: u32,
    /// Empty on a job of one node.
    node_of: Arc<[u32]>,
    local: Range<u32>,
    /// By rank, of this node; empty on a job of one node.
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
        let nnodes = config.node_of.iter().max().map_or(1, |last| last.saturating_add(1));
        local_range(config.node, nnodes, config.node_of, config.ranks)?;
        let proxies = if nnodes > 1 { config.proxies } else { 0 };
        let each = interface_count::of_each(nnodes, proxies);
        let geometry = Geometry::for_ranks(config.ranks)
            .ok_or(Error::RankCount { asked: config.ranks, most: MAX_RANKS })?
            .with_interfaces(each as usize * nnodes as usize)
            .ok_or(Error::InterfaceCount { asked: each, nodes: nnodes })?;
        debug_assert_eq!(
            geometry.blocks(),
            config.ranks + (each * nnodes) as usize,
            "a block each"
        );
        let fd = map::sealed_memory(MEMORY_LABEL, geometry.total_bytes())?;
        let mut node = Self::over(fd, geometry, fence, false)?;
        for (block, &number) in node.rank_blocks().zip(config.node_of) {
            block.set_node(number);
        }
        let job = &node.job;
        job.node.store(config.node, Ordering::Relaxed);
        job.nnodes.store(nnodes, Ordering::Relaxed);
        job.proxies.store(proxies, Ordering::Relaxed);
        job.version.store(VERSION, Ordering::Relaxed);
        job.ranks.store(config.ranks as u64, Ordering::Relaxed);
        job.job_id.store(config.job_id, Ordering::Relaxed);
        job.survive.store(u32::from(config.survive), Ordering::Relaxed);
        job.spin_ns.store(config.spin_ns, Ordering::Relaxed);
        job.yield_ns.store(config.yield_ns, Ordering::Relaxed);
        job.symmetric_fence.store(u32::from(fence == FenceKind::Symmetric), Ordering::Relaxed);
        job.magic.store(MAGIC, Ordering::Release);
        node.read_map()?;
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
        let ranks = usize::try_from(job.ranks.load(Ordering::Relaxed)).unwrap_or(0);
        let nnodes = job.nnodes.load(Ordering::Relaxed);
        let each = interface_count::of_each(nnodes, job.proxies.load(Ordering::Relaxed));
        let geometry = Geometry::for_ranks(ranks)
            .and_then(|g| g.with_interfaces((nnodes as usize).checked_mul(each as usize)?))
            .filter(|g| g.total_bytes() == bytes)
            .ok_or(Error::NotANode("its size does not fit its number of ranks"))?;
        let symmetric = job.symmetric_fence.load(Ordering::Relaxed) != 0;
        let fence = if symmetric { FenceKind::Symmetric } else { FenceKind::Asymmetric };
        let mut node = Self::over(fd, geometry, fence, read_only)?;
        node.read_map()?;
        node.check_invariants();
        Ok(node)
    }

    /// Asserts the relations between the private copies of what the creator wrote.
    fn check_invariants(&self) {
        let ranks = self.ranks() as u32;
        debug_assert!(self.node < self.nnodes, "this node is one of all");
        debug_assert!(!self.local.is_empty() && self.local.end <= ranks, "every node has ranks");
        debug_assert!(
            self.local.clone().all(|rank| self.node_of(rank) == self.node),
            "the local ranks are those of this node"
        );
        debug_assert!(
            (0..ranks).filter(|rank| !self.is_local(*rank)).all(|r| self.node_of(r) != self.node),
            "no other rank is on this node"
        );
        debug_assert_eq!(self.node_of.is_empty(), self.nnodes == 1, "one node needs no map");
        let (own, all) = (self.own_interfaces(), self.all_interfaces());
        debug_assert!(
            all.start <= own.start && own.end <= all.end,
            "own interfaces are some of all"
        );
        debug_assert_eq!(own.len(), self.interfaces() as usize, "every node has as many");
        debug_assert_eq!(all.end as usize, self.geometry.blocks(), "every interface has a block");
        debug_assert_eq!(self.rank_blocks().count(), self.ranks(), "every rank has a block");
    }

    fn over(fd: OwnedFd, geometry: Geometry, fence: FenceKind, read_only: bool) -> Result<Self> {
        let map = if read_only { Mapping::read_only } else { Mapping::shared };
        let front = map(fd.as_fd(), 0, geometry.front_bytes())?;
        let job = place(&front, 0)?;
        debug_assert!(front.bytes() >= geometry.front_bytes(), "all blocks are mapped");
        let ranks = u32::try_from(geometry.ranks()).unwrap_or(u32::MAX);
        Ok(Self {
            fd: Arc::new(fd),
            geometry,
            front,
            job,
            fence,
            read_only,
            node: 0,
            nnodes: 1,
            proxies: 0,
            node_of: Arc::default(),
            local: 0..ranks,
            alarms: Arc::default(),
        })
    }

    /// Takes a private copy of the ranks' nodes: they never change, and others can write the
    /// memory.
    fn read_map(&mut self) -> Result<()> {
        let nnodes = self.job.nnodes.load(Ordering::Relaxed);
        if nnodes > 1 {
            self.node = self.job.node.load(Ordering::Relaxed);
            self.nnodes = nnodes;
            self.proxies = self.job.proxies.load(Ordering::Relaxed);
            self.node_of = self.rank_blocks().map(|block| block.node()).collect();
            self.local = local_range(self.node, nnodes, &self.node_of, self.ranks())?;
        }
        Ok(())
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
        self.nnodes
    }

    /// Returns the node of `rank`; of one beyond the last, a number beyond the last node.
    #[inline]
    pub fn node_of(&self, rank: u32) -> u32 {
        match self.node_of.get(rank as usize) {
            Some(&node) => node,
            None if self.nnodes == 1 && (rank as usize) < self.ranks() => 0,
            None => u32::MAX,
        }
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
        // Network interfaces are numbered behind the ranks.
        let own = self.own_interfaces();
        debug_assert!(own.end >= self.local.end, "interfaces are numbered behind the ranks");
        let mut by_rank: Vec<Option<Arc<Alarm>>> = vec![None; own.end as usize];
        for (rank, alarm) in alarms {
            let is_here = self.is_local(rank) || own.contains(&rank);
            if let Some(place) = by_rank.get_mut(rank as usize).filter(|_| is_here) {
                *place = Some(Arc::new(alarm));
            }
        }
        self.alarms = by_rank.into();
    }

    /// Returns the alarm that wakes `rank`, if it is on this node and this job has alarms.
    #[inline]
    pub fn alarm(&self, rank: u32) -> Option<&Arc<Alarm>> {
        self.alarms.get(rank as usize)?.as_ref()
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

    /// Returns the block of `rank`, or of the network interface of that number; `None` beyond the
    /// last.
    pub fn rank(&self, rank: u32) -> Option<Shared<RankBlock>> {
        let index = usize::try_from(rank).ok().filter(|&r| r < self.geometry.blocks())?;
        place(&self.front, self.geometry.rank_block(index)).ok()
    }

    /// Returns the lines that ranks share in barriers.
    pub(crate) fn lines(&self) -> Result<Lines> {
        let (ranks, nodes) = (self.ranks(), self.nnodes as usize);
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

    /// Returns all rank blocks, in order.
    pub fn rank_blocks(&self) -> impl Iterator<Item = Shared<RankBlock>> + '_ {
        (0..self.ranks()).filter_map(|r| self.rank(u32::try_from(r).ok()?))
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
            if block.generation() == 0 {
                break;
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Returns the block of endpoint `index` of a rank or network interface, open or not.
    ///
    /// # Errors
    /// There is no such endpoint, or address space has run out.
    pub fn endpoint_block(&self, rank: u32, index: usize) -> Result<Shared<EndpointBlock>> {
        if rank as usize >= self.geometry.blocks() || index >= ENDPOINTS {
            return Err(Error::NotANode("an endpoint's name points outside of it"));
        }
        let offset = self.geometry.endpoint(rank as usize, index);
        place(&self.map(offset, ENDPOINT_HEADER)?, 0)
    }

    /// Returns the traffic of all endpoints that `rank` ever opened, by destination, for observers.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn traffic_of(&self, rank: u32) -> Result<BTreeMap<u32, Traffic>> {
        let mut all: BTreeMap<u32, Traffic> = BTreeMap::new();
        let (g, cells) = (self.geometry, self.geometry.blocks());
        for (index, block) in self.endpoint_blocks(rank)?.iter().enumerate() {
            let row = g.endpoint(rank as usize, index) + g.traffic_in_block() as u64;
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
            "who reads beyond the end of the file is killed"
        );
        let map = if self.read_only { Mapping::read_only } else { Mapping::shared };
        Ok(map(self.fd.as_fd(), offset, bytes)?)
    }
}

/// Returns the ranks of `node`, if every node has ranks and they follow each other.
fn local_range(node: u32, nnodes: u32, node_of: &[u32], ranks: usize) -> Result<Range<u32>> {
    let all = u32::try_from(ranks).unwrap_or(u32::MAX);
    if node_of.is_empty() && node == 0 && nnodes == 1 {
        return Ok(0..all);
    }
    let ascending = node_of
        .windows(2)
        .all(|pair| pair[1] == pair[0] || pair[1].checked_sub(1) == Some(pair[0]));
    let whole = node_of.first() == Some(&0) && node_of.last() == Some(&(nnodes - 1));
    if node_of.len() != ranks || !ascending || !whole || node >= nnodes {
        return Err(Error::NodeMap);
    }
    let before = node_of.iter().take_while(|&&n| n < node).count();
    let here = node_of.iter().filter(|&&n| n == node).count();
    debug_assert_eq!(node_of[before], node, "the node has ranks");
    debug_assert!(node_of[before + here..].iter().all(|&n| n > node), "they follow each other");
    let bound = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(bound(before)..bound(before + here))
}

mod deaths;
mod interface_count;
mod interfaces;
mod knobs;
mod mapped;
mod registered;
#[cfg(test)]
mod tests;
