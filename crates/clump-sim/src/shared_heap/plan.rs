//! The plan that a seed makes for a cluster whose ranks share a heap.

use crate::kernel::{
    BasePlan, LinkFaults, MICROSECOND, MILLISECOND, NodeFaults, Random, SECOND, Time, channel, port,
};
use clump_hlrc::testing::{Op, ProgramShape, random_programs};
use clump_hlrc::{DiffTransfer, FetchRule, NoticeTransfer};
use clump_svm::{Home, PAGE_BYTES, SimulatedHeap};
use clump_wire::Security;

/// Subcommand of `soak` that runs it.
pub(super) const TASK: &str = "shared-heap ";
/// Bytes of each page that programs use.
const USED_BYTES: usize = 24;

/// A simulated cluster: ranks, their programs, network and faults.
#[derive(Debug, Clone)]
pub struct SharedHeapPlan {
    /// Network, clocks and faults; a socket for each rank, and behind them for each interface.
    pub base: BasePlan,
    /// Node of each rank, ascending.
    pub node_of: Vec<u32>,
    /// Proxies of each node; 0: interfaces carry no messages of ranks.
    pub proxies: u32,
    /// Time for which an interface that finds nothing keeps polling before it sleeps.
    pub spin: Time,
    /// Mean time between two steps of a rank.
    pub think: Time,
    /// Settings of the heap.
    pub heap: SimulatedHeap,
    /// Homes of pages: the first page, their number, and the rule.
    pub places: Vec<(u32, u32, Home)>,
    /// True if ranks keep locks that no other rank requests.
    pub keeps_locks: bool,
    /// Distance of used bytes in a page.
    pub stride: usize,
    /// Program of each rank.
    pub programs: Vec<Vec<Op>>,
}

impl SharedHeapPlan {
    /// Creates the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6865_6170);
        let node_of = nodes(&mut random);
        let ranks = node_of.len();
        let nodes = node_of.last().map_or(0, |last| last + 1);
        let proxies = u32::from(random.one_in(2));
        let spin = random.below(40 * MICROSECOND);
        let heap = heap(&mut random);
        let places = places(&mut random, heap.pages, nodes);
        let (keeps_locks, stride) = (random.one_in(2), *random.pick(&[1, 8, 170]));
        debug_assert!(USED_BYTES * stride <= PAGE_BYTES, "used bytes are in their page");
        let shape = ProgramShape {
            ranks,
            bytes: heap.pages as usize * USED_BYTES,
            locks: random.between(1, 5),
            flags: random.between(1, 4),
            phases: random.between(3, 8) as usize,
        };
        let mut programs = random_programs(&shape, &mut || random.word());
        for program in &mut programs {
            // Behind the last barrier each rank reads all that was written.
            program.extend((0..shape.bytes).map(Op::Read));
        }
        let steps = programs.iter().map(Vec::len).max().unwrap_or(1) as u64;
        let base = base(&mut random, seed, ranks + nodes as usize);
        // Most programs are under way while there are faults.
        let think = base.heal_at / (steps * random.between(1, 20));
        let mut plan = Self {
            base,
            node_of,
            proxies,
            spin,
            think,
            heap,
            places,
            keeps_locks,
            stride,
            programs,
        };
        let deaths = random.one_in(4);
        NodeFaults { node_of: &plan.node_of, interfaces: 1, deaths }
            .add_to(&mut plan.base, &mut random);
        plan.base.close();
        plan
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// Nodes of the job.
    pub fn nodes(&self) -> u32 {
        self.node_of.last().map_or(0, |last| last + 1)
    }

    /// Returns the place of a byte of the programs: its page, and its offset there.
    pub(super) fn place_of(&self, addr: usize) -> (u32, usize) {
        let page = addr / USED_BYTES;
        debug_assert!(page < self.heap.pages as usize, "a byte of the heap");
        (page as u32, addr % USED_BYTES * self.stride)
    }
}

/// Draws two to four nodes of one to three ranks.
fn nodes(random: &mut Random) -> Vec<u32> {
    let nodes = random.between(2, 4) as u32;
    let ranks = |node| (0..random.between(1, 3)).map(move |_| node);
    (0..nodes).flat_map(ranks).collect()
}

fn heap(random: &mut Random) -> SimulatedHeap {
    SimulatedHeap {
        pages: random.between(1, 6) as u32,
        fetch_consistency: random.one_in(3),
        notices: *random.pick(&[NoticeTransfer::Push, NoticeTransfer::Pull]),
        fetch: *random.pick(&[FetchRule::WaitAtHome, FetchRule::Retry]),
        diffs: *random.pick(&[DiffTransfer::Runs, DiffTransfer::Pages, DiffTransfer::Home]),
        move_after: random.below(3) as u8,
        scans: random.one_in(3),
    }
}

/// Draws the homes of all pages, in ranges.
fn places(random: &mut Random, pages: u32, nodes: u32) -> Vec<(u32, u32, Home)> {
    let (mut places, mut first) = (Vec::new(), 0);
    while first < pages {
        let count = random.between(1, u64::from(pages - first)) as u32;
        let node = random.below(u64::from(nodes)) as usize;
        let home = *random.pick(&[Home::Block, Home::Cyclic, Home::FirstWrite, Home::Node(node)]);
        places.push((first, count, home));
        first += count;
    }
    debug_assert_eq!(first, pages, "each page has a rule");
    places
}

/// Draws the network, without faults.
fn base(random: &mut Random, seed: u64, actors: usize) -> BasePlan {
    let datagram = *random.pick(&[1472, 1472, 8972, 65507]);
    let span = random.magnitude(20 * MILLISECOND, 2 * SECOND);
    let delay = random.magnitude(MICROSECOND, 1 + span / 1000).min(2 * MILLISECOND);
    let mut link = LinkFaults::clean(delay, datagram);
    if random.one_in(4) {
        link.jitter = random.magnitude(MICROSECOND, 4 * delay);
    }
    let mut port = port(random, datagram, span);
    port.rate = port.rate.max(20_000_000);
    BasePlan {
        seed,
        security: if random.one_in(6) { Security::Aead } else { Security::Crc },
        channel: channel(random),
        port,
        link,
        turn: random.magnitude(300, 5 * MICROSECOND),
        clocks: (0..actors).map(|_| random.below(1 << 40)).collect(),
        faults: Vec::new(),
        heal_at: span,
    }
}
