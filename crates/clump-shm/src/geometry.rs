//! The layout of a node's memory: one sparse memory file, sized once.
//!
//! ```text
//! job block | barrier lines | rank blocks | ports
//! | table of regions | per rank: endpoint blocks (header, queues, lanes, traffic)
//! | per rank: segments | regions of the node
//! ```
//! Behind the ranks come the network interfaces of all nodes, which have blocks as ranks do, but no
//! segments. Every offset is computed from the numbers of both, so what another process writes
//! never decides where this process reads. Untouched pages cost no memory.

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
/// Most ranks in the memory of one node.
pub const MAX_RANKS: usize = 1024;
/// Ports of a node, the unusable port 0 among them.
pub const PORTS: usize = 1 << 16;
/// Most network interfaces of all nodes together.
pub const MAX_INTERFACES: usize = 4096;
/// Most lanes into one endpoint.
pub const MAX_LANES: usize = 1024;

/// Cells for counters of a rank or endpoint.
pub const COUNTERS: usize = 192;
/// Bytes of a rank's block.
pub const RANK_BLOCK: usize = 2 * PAGE;
/// Bytes of an endpoint's header page.
pub const ENDPOINT_HEADER: usize = PAGE;
/// Bytes of a lane before its bulk ring: control lines and slots.
pub const LANE_FRONT: usize = (LANE_CONTROL + LANE_SLOTS * 64).next_multiple_of(PAGE);
/// Bytes of the control lines of a lane.
pub const LANE_CONTROL: usize = 512;

// Positions are mapped to slots by masks, and the states of a queue's blocks fill a page at most.
const _: () = assert!(LANE_SLOTS.is_power_of_two() && QUEUE_SLOTS.is_power_of_two());
const _: () = assert!(QUEUE_BLOCKS * size_of::<u64>() <= PAGE);
const _: () = assert!(LANE_CONTROL + LANE_SLOTS * 64 <= LANE_FRONT);
// A name holds the index of an endpoint in 8 bits, its rank or interface in 24; the queue lock
// holds a rank in 16.
const _: () = assert!(ENDPOINTS <= 1 << u8::BITS && MAX_RANKS + MAX_INTERFACES < 1 << 24);
const _: () = assert!(MAX_RANKS <= 1 << u16::BITS);

/// The sizes that depend on the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    ranks: usize,
    interfaces: usize,
    lanes: usize,
    bulk: usize,
}

impl Geometry {
    /// Returns the geometry of a job with `ranks` ranks (1..=[`MAX_RANKS`]) and no network
    /// interfaces.
    ///
    /// Bulk rings shrink as ranks grow, because their worst case grows with the square of the
    /// ranks.
    pub fn for_ranks(ranks: usize) -> Option<Self> {
        if ranks == 0 || ranks > MAX_RANKS {
            return None;
        }
        let lanes = (ranks * 4).next_power_of_two().clamp(64, MAX_LANES);
        let bulk: usize = match ranks {
            0..=8 => 256 << 10,
            9..=32 => 128 << 10,
            _ => 64 << 10,
        };
        debug_assert!(lanes.is_power_of_two() && lanes <= MAX_LANES, "lanes have doorbell bits");
        debug_assert!(lanes >= ranks, "every rank finds a lane");
        debug_assert!(bulk.is_multiple_of(PAGE), "a bulk ring is mapped by pages");
        Some(Self { ranks, interfaces: 0, lanes, bulk })
    }

    /// Returns this geometry with `interfaces` network interfaces on all nodes together (at most
    /// [`MAX_INTERFACES`]).
    pub fn with_interfaces(self, interfaces: usize) -> Option<Self> {
        debug_assert_eq!(self.interfaces, 0, "interfaces are added once");
        (interfaces <= MAX_INTERFACES).then_some(Self { interfaces, ..self })
    }

    /// Returns the number of ranks of the job.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the number of blocks: ranks and network interfaces.
    pub fn blocks(&self) -> usize {
        self.ranks + self.interfaces
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

    /// Returns the offset of the barrier lines, one cache line a rank. They lie together because a
    /// rank on a crowded node reads all of them right after a process switch, when every page it
    /// touches costs a page walk.
    pub fn arrivals(&self) -> usize {
        PAGE
    }

    /// Returns the offset of the barrier lines of nodes, of which there are no more than ranks:
    /// behind those of the ranks, and mostly in their page.
    pub fn node_lines(&self) -> usize {
        self.arrivals() + self.ranks * 64
    }

    /// Returns the offset of the block of `rank`, [`RANK_BLOCK`] bytes each.
    pub fn rank_block(&self, rank: usize) -> usize {
        debug_assert!(rank <= self.blocks(), "a block, or the end of all");
        self.arrivals() + (self.ranks * 2 * 64).next_multiple_of(PAGE) + rank * RANK_BLOCK
    }

    /// Returns the offset of the table of ports, one word each.
    pub fn ports(&self) -> usize {
        self.rank_block(self.blocks())
    }

    /// Returns the offset of the table of the node's regions, a page.
    pub(crate) fn region_table(&self) -> usize {
        debug_assert!(self.ports().is_multiple_of(PAGE), "the ports begin a page");
        self.ports() + PORTS * size_of::<u64>()
    }

    /// Returns the bytes of the job block, the barrier lines, all rank blocks, the ports and the
    /// table of regions, which every process maps whole.
    pub fn front_bytes(&self) -> usize {
        self.region_table() + PAGE
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

    /// Returns the bytes of an endpoint's row of traffic: a line for each rank and interface.
    pub fn traffic_bytes(&self) -> usize {
        let bytes = (self.blocks() * 64).next_multiple_of(PAGE);
        debug_assert!(bytes >= self.blocks() * 64, "everyone has a cell");
        bytes
    }

    /// Returns the offset of lane `lane` inside an endpoint block.
    pub fn lane_in_block(&self, lane: usize) -> usize {
        debug_assert!(lane <= self.lanes, "a lane, or the end of all");
        ENDPOINT_HEADER + 2 * self.queue_bytes() + lane * self.lane_bytes()
    }

    /// Returns the offset of endpoint `index` of `rank` in the file.
    pub fn endpoint(&self, rank: usize, index: usize) -> u64 {
        debug_assert!(rank <= self.blocks(), "a rank or interface, or the end of all");
        debug_assert!(index < ENDPOINTS, "an endpoint does not lie in the space of the next rank");
        let block = rank * ENDPOINTS + index;
        self.front_bytes() as u64 + block as u64 * self.endpoint_bytes() as u64
    }

    /// Returns the offset of the segments of `rank` in the file.
    pub fn segments(&self, rank: usize) -> u64 {
        debug_assert!(rank <= self.ranks, "network interfaces have no segments");
        self.endpoint(self.blocks(), 0).next_multiple_of(1 << 21) + rank as u64 * SEGMENT_SPACE
    }

    /// Returns the offset of region `number` of the node in the file.
    pub fn region(&self, number: usize) -> u64 {
        debug_assert!(number <= NODE_REGIONS, "a region, or the end of all");
        debug_assert!(self.segments(self.ranks).is_multiple_of(1 << 21), "of huge pages");
        self.segments(self.ranks) + number as u64 * REGION_SPACE
    }

    /// Returns the bytes of the whole file.
    pub fn total_bytes(&self) -> u64 {
        self.region(NODE_REGIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_page_aligned_and_do_not_overlap() {
        for ranks in [1, 2, 3, 8, 9, 33, 64, 1000, MAX_RANKS] {
            let g = Geometry::for_ranks(ranks).and_then(|g| g.with_interfaces(ranks)).unwrap();
            assert!(g.endpoint(0, 0) >= g.front_bytes() as u64);
            assert!(g.node_lines() + ranks * 64 <= g.rank_block(0));
            for rank in [0, ranks / 2, ranks - 1] {
                assert_eq!(g.endpoint(rank, 3) % PAGE as u64, 0);
                assert!(
                    g.endpoint(rank, 1)
                        >= g.endpoint(rank, 0) + (g.traffic_in_block() + 2 * ranks * 64) as u64
                );
                assert!(
                    g.segments(rank)
                        >= g.endpoint(2 * ranks - 1, ENDPOINTS - 1) + g.endpoint_bytes() as u64
                );
            }
            assert!(g.region(0).is_multiple_of(1 << 21), "regions may have huge pages");
            assert!(g.region(0) >= g.segments(ranks - 1) + SEGMENT_SPACE);
            assert!(i64::try_from(g.total_bytes()).is_ok());
        }
    }

    #[test]
    fn absurd_rank_counts_have_no_geometry() {
        assert_eq!(Geometry::for_ranks(0), None);
        assert_eq!(Geometry::for_ranks(MAX_RANKS + 1), None);
    }
}
