//! The layout of a node's memory: one sparse memory file, sized once.
//!
//! ```text
//! job block | first ranks of the nodes | barrier lines | blocks | ports | table of regions
//! | peer records | addresses
//! | per block: endpoint blocks (header, queues, lanes, traffic)
//! | per rank of the node: segments | regions of the node
//! ```
//! On a job in virtual time the regions are those of all virtual nodes. Blocks are those of the
//! ranks of this node, and behind them of its network interfaces, which
//! have no segments. Of ranks and interfaces of other nodes there are peer records, addresses, and
//! lines in the rows of traffic, and nothing else. Every offset is computed from the numbers of
//! these, so what another process writes never decides where this process reads. Untouched pages
//! cost no memory.

use crate::rank_map::RankMap;
pub use crate::rank_map::{MAX_NODES, MAX_RANKS};
use crate::slot::MAX_WORDS;
pub(crate) use clump_os::map::PAGE;

/// Endpoints that a rank may have open at one time.
pub const ENDPOINTS: usize = 32;
/// Slots of one lane; a power of two.
pub const LANE_SLOTS: usize = 128;
/// Slots of one shared queue; a power of two.
pub const QUEUE_SLOTS: usize = 64;
/// Payload blocks beside each shared queue.
pub const QUEUE_BLOCKS: usize = 8;
/// Bytes reserved (as address space) for the segments of one rank.
pub const SEGMENT_SPACE: u64 = 1 << 36;
/// Bytes reserved (as address space) for one region of the node.
pub const REGION_SPACE: u64 = 1 << 40;
/// Regions that a node may own.
pub const NODE_REGIONS: usize = 16;
/// Bytes of an entry of the table of regions.
pub(crate) const REGION_ENTRY: usize = 16;
/// Most ranks of a node that is the only one of its job. Of several nodes each has one less at
/// most: deposits from other nodes need a number that no rank of the node has.
pub const MAX_LOCAL_RANKS: usize = 1024;
/// Ports of a node, the unusable port 0 among them.
pub const PORTS: usize = 1 << 16;
/// Most network interfaces of a node.
pub const MAX_LOCAL_INTERFACES: usize = 16;
/// Most network interfaces of all nodes together.
pub const MAX_INTERFACES: usize = MAX_NODES * MAX_LOCAL_INTERFACES;
/// Most lanes into one endpoint.
pub const MAX_LANES: usize = 1024;

/// Bytes of a peer record.
pub const PEER_RECORD: usize = 16;
/// Bytes of the address of a rank or network interface.
pub const PEER_ADDRESS: usize = 136;
/// Most pages of a row of traffic.
pub const TRAFFIC_PAGES: usize = (MAX_RANKS + MAX_INTERFACES) * 64 / PAGE;
/// Cells for counters of a rank or endpoint.
pub const COUNTERS: usize = 192;
/// Bytes of a rank's block.
pub const RANK_BLOCK: usize = 2 * PAGE;
/// Bytes of an endpoint's header. Its second page is used only on jobs of more than half a million
/// ranks.
pub const ENDPOINT_HEADER: usize = 2 * PAGE;
/// Bytes of a lane before its bulk ring: control lines and slots.
pub const LANE_FRONT: usize = (LANE_CONTROL + LANE_SLOTS * 64).next_multiple_of(PAGE);
/// Bytes of the control lines of a lane.
pub const LANE_CONTROL: usize = 512;

/// Bytes of the table of virtual time.
pub(crate) const VIRTUAL_TIME_SPACE: usize = 8 << 20;

// Positions are mapped to slots by masks, and the states of a queue's blocks fill a page at most.
const _: () = assert!(LANE_SLOTS.is_power_of_two() && QUEUE_SLOTS.is_power_of_two());
const _: () = assert!(QUEUE_BLOCKS * size_of::<u64>() <= PAGE);
const _: () = assert!(LANE_CONTROL + LANE_SLOTS * 64 <= LANE_FRONT);
// A name holds the index of an endpoint in 8 bits, its rank or interface in 24.
const _: () = assert!(ENDPOINTS <= 1 << u8::BITS && MAX_RANKS + MAX_INTERFACES < 1 << 24);
// Every rank of a node finds a lane into each endpoint.
const _: () = assert!(MAX_LOCAL_RANKS <= MAX_LANES && MAX_LOCAL_RANKS < MAX_RANKS);

/// The sizes that depend on the ranks and interfaces of a node and of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    ranks: u32,
    nodes: u32,
    /// The lowest rank of the node, and the number of its ranks.
    local: (u32, u32),
    /// The first network interface of the node, and the number of its interfaces.
    own: (u32, u32),
    lanes: usize,
    bulk: usize,
    /// Nodes whose regions the file has.
    owners: u32,
}

impl Geometry {
    /// Returns the geometry of `node`, one of those of `map`, on a job whose nodes have `each`
    /// network interfaces. `None` if one of the nodes has more than [`MAX_LOCAL_RANKS`] ranks or
    /// [`MAX_LOCAL_INTERFACES`] interfaces.
    ///
    /// Bulk rings shrink as ranks grow, because their worst case grows with the square of the ranks
    /// of a node. They are of one length on all nodes: the longest medium message is.
    pub fn new(map: &RankMap, node: u32, each: u32) -> Option<Self> {
        let (local, widest) = (map.ranks_of(node), map.widest() as usize);
        let most = MAX_LOCAL_RANKS - usize::from(map.nodes() > 1);
        if local.is_empty() || widest > most || each as usize > MAX_LOCAL_INTERFACES {
            return None;
        }
        let lanes = (local.len() * 4).next_power_of_two().clamp(64, MAX_LANES);
        let bulk: usize = match widest {
            0..=8 => 256 << 10,
            9..=32 => 128 << 10,
            _ => 64 << 10,
        };
        debug_assert!(lanes.is_power_of_two() && lanes <= MAX_LANES, "lanes have doorbell bits");
        debug_assert!(lanes >= local.len(), "every rank finds a lane");
        debug_assert!(bulk.is_multiple_of(PAGE), "a bulk ring is mapped by pages");
        let own = (map.ranks() + node * each, each);
        let local = (local.start, local.end - local.start);
        let (ranks, nodes, owners) = (map.ranks(), map.nodes(), 1);
        Some(Self { ranks, nodes, local, own, lanes, bulk, owners })
    }

    /// Returns it with regions for so many nodes, all of which are virtual.
    pub fn with_virtual_nodes(self, nodes: u32) -> Self {
        debug_assert!(nodes >= 1 && nodes <= self.ranks, "each virtual node has a rank");
        debug_assert_eq!(self.nodes, 1, "one machine has all of them");
        Self { owners: nodes, ..self }
    }

    /// Returns the number of nodes of the job.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Returns the number of nodes whose regions the file has.
    pub fn region_owners(&self) -> usize {
        self.owners as usize
    }

    /// Returns the number of region `index` of one of the nodes whose regions the file has, among
    /// all of them; `None` if there is no such one.
    pub(crate) fn region_number(&self, owner: u32, index: u8) -> Option<usize> {
        let (owner, index) = (owner as usize, usize::from(index));
        let is_inside = owner < self.region_owners() && index < NODE_REGIONS;
        debug_assert!(self.owners >= 1, "a node has regions");
        is_inside.then_some(owner * NODE_REGIONS + index)
    }

    /// Returns the number of ranks of the job.
    pub fn ranks(&self) -> usize {
        self.ranks as usize
    }

    /// Returns the number of ranks and network interfaces of the job.
    pub fn ids(&self) -> usize {
        self.ranks as usize + self.nodes as usize * self.own.1 as usize
    }

    /// Returns the number of ranks of the node.
    pub fn local_ranks(&self) -> usize {
        self.local.1 as usize
    }

    /// Returns the number of blocks: of the ranks and network interfaces of the node.
    pub fn blocks(&self) -> usize {
        self.local.1 as usize + self.own.1 as usize
    }

    /// Returns the number of the block of a rank or network interface; `None` if it is not of this
    /// node.
    #[inline]
    pub fn slot_of(&self, id: u32) -> Option<usize> {
        let (first, ranks) = self.local;
        let at = id.wrapping_sub(first);
        if at < ranks {
            return Some(at as usize);
        }
        let (first, interfaces) = self.own;
        debug_assert!(first >= self.ranks, "interfaces are numbered behind the ranks");
        let at = id.wrapping_sub(first);
        (at < interfaces).then(|| (ranks + at) as usize)
    }

    /// Returns the number of lanes into each endpoint.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Returns the bytes of the bulk ring of each lane.
    pub fn bulk(&self) -> usize {
        self.bulk
    }

    /// Returns the most bytes of a medium message: a quarter of a bulk ring, so that four are in
    /// flight at once.
    pub fn max_medium(&self) -> usize {
        self.bulk / 4
    }

    /// Returns the offset of the table of the first ranks of the nodes, a word of 4 bytes each, and
    /// of one more behind them: all ranks.
    pub(crate) fn first_ranks() -> usize {
        PAGE
    }

    /// Returns the offset behind the table of the first ranks of so many nodes.
    pub(crate) fn first_ranks_end(nodes: usize) -> usize {
        debug_assert!(nodes <= MAX_NODES, "no more nodes than a job may have");
        let end = (Self::first_ranks() + (nodes + 1) * size_of::<u32>()).next_multiple_of(PAGE);
        debug_assert!(end >= 2 * PAGE, "the table has pages of its own");
        end
    }

    /// Returns the offset of the barrier lines, one cache line a rank of the node. They are
    /// contiguous because a rank on a crowded node reads all of them right after a process switch,
    /// when every page it touches costs a page walk.
    pub fn arrivals(&self) -> usize {
        Self::first_ranks_end(self.nodes as usize)
    }

    /// Returns the offset of the barrier lines of nodes: behind those of the ranks, and in their
    /// page where both are few.
    pub fn node_lines(&self) -> usize {
        self.arrivals() + self.local_ranks() * 64
    }

    /// Returns the offset of block `slot`, [`RANK_BLOCK`] bytes each.
    pub fn rank_block(&self, slot: usize) -> usize {
        debug_assert!(slot <= self.blocks(), "a block, or the end of all");
        (self.node_lines() + self.nodes as usize * 64).next_multiple_of(PAGE) + slot * RANK_BLOCK
    }

    /// Returns the offset of the table of ports, one word each.
    pub fn ports(&self) -> usize {
        self.rank_block(self.blocks())
    }

    /// Returns the offset of the table of regions.
    pub(crate) fn region_table(&self) -> usize {
        debug_assert!(self.ports().is_multiple_of(PAGE), "the ports begin a page");
        self.ports() + PORTS * size_of::<u64>()
    }

    /// Returns the offset of the peer records, [`PEER_RECORD`] bytes for each rank and network
    /// interface of the job.
    pub fn peer_records(&self) -> usize {
        let table = self.region_owners() * NODE_REGIONS * REGION_ENTRY;
        debug_assert!(table > 0, "a node has regions");
        self.region_table() + table.next_multiple_of(PAGE)
    }

    /// Returns the offset of the addresses, [`PEER_ADDRESS`] bytes for each rank and network
    /// interface of the job. They are stored apart: where proxies drive the network, ranks have
    /// none, and their pages stay untouched.
    pub fn peer_addresses(&self) -> usize {
        debug_assert!(self.peer_records().is_multiple_of(PAGE), "the records begin a page");
        (self.peer_records() + self.ids() * PEER_RECORD).next_multiple_of(PAGE)
    }

    /// Returns the number of bytes before the endpoint blocks, which every process maps whole.
    pub fn front_bytes(&self) -> usize {
        (self.peer_addresses() + self.ids() * PEER_ADDRESS).next_multiple_of(PAGE)
    }

    /// Returns the bytes of one shared queue: slots, then the states of its blocks, then the
    /// blocks.
    pub fn queue_bytes(&self) -> usize {
        QUEUE_SLOTS * 64 + PAGE + QUEUE_BLOCKS * self.block_bytes()
    }

    /// Returns the bytes of a payload block beside a shared queue: all spilled words and the
    /// payload.
    pub fn block_bytes(&self) -> usize {
        let whole = (self.max_medium() + 128).next_multiple_of(PAGE);
        debug_assert!(whole >= self.max_medium() + MAX_WORDS * 8, "spilled words and the payload");
        whole
    }

    /// Returns the bytes of one lane.
    pub fn lane_bytes(&self) -> usize {
        LANE_FRONT + self.bulk
    }

    /// Returns the bytes of an endpoint block.
    pub fn endpoint_bytes(&self) -> usize {
        self.traffic_in_block() + self.traffic_bytes()
    }

    /// Returns the offset of the row of traffic inside an endpoint block, behind its lanes.
    pub fn traffic_in_block(&self) -> usize {
        let behind = self.lane_in_block(self.lanes);
        debug_assert!(behind.is_multiple_of(PAGE), "a row begins a page");
        behind
    }

    /// Returns the bytes of an endpoint's row of traffic: a line for each rank and interface of the
    /// job.
    pub fn traffic_bytes(&self) -> usize {
        let bytes = (self.ids() * 64).next_multiple_of(PAGE);
        debug_assert!(bytes / PAGE <= TRAFFIC_PAGES, "the endpoint's header marks all pages");
        bytes
    }

    /// Returns the offset of lane `lane` inside an endpoint block.
    pub fn lane_in_block(&self, lane: usize) -> usize {
        debug_assert!(lane <= self.lanes, "a lane, or the end of all");
        ENDPOINT_HEADER + 2 * self.queue_bytes() + lane * self.lane_bytes()
    }

    /// Returns the offset of endpoint `index` of block `slot` in the file.
    pub fn endpoint(&self, slot: usize, index: usize) -> u64 {
        debug_assert!(slot <= self.blocks(), "a rank or interface, or the end of all");
        debug_assert!(index < ENDPOINTS, "an endpoint does not lie in the space of the next rank");
        let block = slot * ENDPOINTS + index;
        self.front_bytes() as u64 + block as u64 * self.endpoint_bytes() as u64
    }

    /// Returns the offset of the segments of the rank of block `slot` in the file.
    pub fn segments(&self, slot: usize) -> u64 {
        debug_assert!(slot <= self.local_ranks(), "network interfaces have no segments");
        self.endpoint(self.blocks(), 0).next_multiple_of(1 << 21) + slot as u64 * SEGMENT_SPACE
    }

    /// Returns the offset of a region in the file, by its number among those of all nodes that the
    /// file has.
    pub fn region(&self, number: usize) -> u64 {
        let all = self.region_owners() * NODE_REGIONS;
        debug_assert!(number <= all, "a region, or the end of all");
        let behind = self.segments(self.local_ranks());
        debug_assert!(behind.is_multiple_of(1 << 21), "of huge pages");
        behind + number as u64 * REGION_SPACE
    }

    /// Returns the offset of the table of virtual time, of which a job on the machine's time
    /// touches no page.
    pub(crate) fn virtual_time(&self) -> u64 {
        debug_assert!(REGION_SPACE.is_multiple_of(PAGE as u64), "the table begins a page");
        self.region(self.region_owners() * NODE_REGIONS)
    }

    /// Returns the bytes of the whole file.
    pub fn total_bytes(&self) -> u64 {
        self.virtual_time() + VIRTUAL_TIME_SPACE as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of `each` ranks.
    fn even(nodes: usize, each: usize) -> RankMap {
        RankMap::from_first((0..=nodes).map(|node| (node * each) as u32).collect()).unwrap()
    }

    /// Checks that the parts of the memory of `node` follow each other, and that they end where a
    /// process can map them.
    fn check(map: &RankMap, node: u32, each: u32) {
        let g = Geometry::new(map, node, each).unwrap();
        let (ranks, nodes, local) = (map.ranks(), map.nodes() as usize, map.ranks_of(node));
        let (here, ids) = (local.len(), ranks as usize + nodes * each as usize);
        assert_eq!((g.ranks(), g.local_ranks()), (ranks as usize, here));
        assert_eq!((g.blocks(), g.ids()), (here + each as usize, ids));
        let parts = [
            (0, PAGE),
            (Geometry::first_ranks(), (nodes + 1) * 4),
            (g.arrivals(), here * 64),
            (g.node_lines(), nodes * 64),
            (g.rank_block(0), g.blocks() * RANK_BLOCK),
            (g.ports(), PORTS * 8),
            (g.region_table(), PAGE),
            (g.peer_records(), ids * PEER_RECORD),
            (g.peer_addresses(), ids * PEER_ADDRESS),
        ];
        let ends = parts.map(|(start, bytes)| start + bytes);
        assert!(parts[1..].iter().zip(ends).all(|((next, _), end)| end <= *next), "{parts:?}");
        assert!(ends[8] <= g.front_bytes() && g.front_bytes().is_multiple_of(PAGE));
        assert!(g.rank_block(0).is_multiple_of(PAGE) && g.peer_records().is_multiple_of(PAGE));
        let mut end = g.front_bytes() as u64;
        for slot in 0..g.blocks() {
            for index in 0..ENDPOINTS {
                let at = g.endpoint(slot, index);
                assert!(at >= end && at.is_multiple_of(PAGE as u64));
                end = at + (g.traffic_in_block() + ids * 64) as u64;
            }
        }
        for slot in 0..here {
            assert!(g.segments(slot) >= end, "segments of block {slot}");
            end = g.segments(slot) + SEGMENT_SPACE;
        }
        assert!(g.region(0) >= end && g.region(0).is_multiple_of(1 << 21), "of huge pages");
        assert_eq!(g.virtual_time() - g.region(0), NODE_REGIONS as u64 * REGION_SPACE);
        assert_eq!(g.total_bytes() - g.virtual_time(), VIRTUAL_TIME_SPACE as u64);
        assert!(g.total_bytes() < 1 << 47, "all of it could be mapped: {:x}", g.total_bytes());
        let first = ranks + node * each;
        let own: Vec<u32> = local.chain(first..first + each).collect();
        assert!((0..).zip(&own).all(|(slot, &id)| g.slot_of(id) == Some(slot)));
        let others = (0..ids as u32 + 2).step_by(97).chain([ids as u32, u32::MAX]);
        assert!(others.filter(|id| !own.contains(id)).all(|id| g.slot_of(id).is_none()));
    }

    #[test]
    fn parts_are_page_aligned_and_do_not_overlap() {
        for ranks in [1, 2, 3, 8, 9, 33, 64, 1000, MAX_LOCAL_RANKS] {
            check(&even(1, ranks), 0, 0);
        }
        for (nodes, each, interfaces) in [(2, 1, 1), (3, 5, 16), (64, 16, 2), (1025, 1023, 4)] {
            for node in [0, 1, nodes - 1] {
                check(&even(nodes, each), node as u32, interfaces);
            }
        }
    }

    #[test]
    fn a_million_ranks_on_four_thousand_nodes_have_a_layout() {
        let map = even(MAX_NODES, 256);
        assert_eq!(map.ranks() as usize, MAX_RANKS);
        for (node, each) in [(0, 1), (2000, 2), (4095, MAX_LOCAL_INTERFACES as u32)] {
            check(&map, node, each);
        }
        let g = Geometry::new(&map, 7, 1).unwrap();
        let blocks = g.rank_block(g.blocks()) - g.rank_block(0);
        assert_eq!(blocks, 257 * RANK_BLOCK, "blocks are those of the node");
        assert!(g.front_bytes() < 256 << 20, "every process maps it: {}", g.front_bytes());
    }

    #[test]
    fn nodes_of_one_job_agree_on_the_longest_medium_message() {
        for (first, medium) in
            [(vec![0, 1, 9], 64 << 10), (vec![0, 9, 10], 32 << 10), (vec![0, 2, 40], 16 << 10)]
        {
            let map = RankMap::from_first(first).unwrap();
            for node in 0..map.nodes() {
                assert_eq!(Geometry::new(&map, node, 1).unwrap().max_medium(), medium);
            }
        }
    }

    #[test]
    fn absurd_numbers_have_no_geometry() {
        let too_many = |map: &RankMap, node, each| Geometry::new(map, node, each).is_none();
        assert!(too_many(&even(1, MAX_LOCAL_RANKS + 1), 0, 0));
        assert!(too_many(&even(2, MAX_LOCAL_RANKS), 0, 1), "a number is left for the node");
        let wide = RankMap::from_first(vec![0, 1, 1 + MAX_LOCAL_RANKS as u32]).unwrap();
        assert!(too_many(&wide, 0, 1), "another node has too many");
        assert!(too_many(&even(2, 1), 2, 1) && !too_many(&even(2, 1), 1, 16));
        assert!(too_many(&even(2, 1), 0, MAX_LOCAL_INTERFACES as u32 + 1));
    }
}
