//! A rank of a job, and what it shares with the others besides clump.

use clump_am::RankContext;
use clump_os::sync::{AtomicUsize, Ordering};
use clump_rma::{Rma, Segment, SegmentName, Target};
use clump_shm::job::Death;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankState;
use std::sync::{Arc, Mutex};

/// State that all ranks share besides clump, to synchronize without it.
#[derive(Debug)]
pub(crate) struct Shared {
    nodes: Vec<NodeMemory>,
    arrived: AtomicUsize,
    names: Mutex<Vec<Vec<SegmentName>>>,
    ranks: usize,
}

impl Shared {
    pub(crate) fn new(nodes: Vec<NodeMemory>, ranks: usize) -> Self {
        let names = Mutex::new(vec![Vec::new(); ranks]);
        Self { nodes, arrived: AtomicUsize::new(0), names, ranks }
    }
}

/// One rank of a job.
#[derive(Debug, Clone)]
pub struct Seat {
    /// The rank's context.
    pub context: Arc<RankContext>,
    pub(crate) shared: Arc<Shared>,
}

impl Seat {
    /// Returns the rank.
    pub fn rank(&self) -> usize {
        self.context.rank() as usize
    }

    /// Returns the rank's node.
    pub fn node(&self) -> u32 {
        self.context.node().node()
    }

    /// Returns the number of ranks of the job.
    pub fn ranks(&self) -> usize {
        self.shared.ranks
    }

    /// Returns when all ranks have called it as often as this one.
    pub fn meet(&self) {
        self.meet_serving(std::thread::yield_now);
    }

    /// Returns when all ranks have called it, or [`Seat::meet`], as often as this one; calls
    /// `serve` until then.
    pub fn meet_serving(&self, mut serve: impl FnMut()) {
        let before = self.shared.arrived.fetch_add(1, Ordering::SeqCst);
        let full = (before / self.shared.ranks + 1) * self.shared.ranks;
        while self.shared.arrived.load(Ordering::SeqCst) < full {
            serve();
        }
    }

    /// Gathers the names of segments from all ranks; all ranks must call it in the same order.
    pub fn exchange(&self, name: SegmentName) -> Vec<SegmentName> {
        self.meet();
        self.shared.names.lock().unwrap()[self.rank()].push(name);
        self.meet();
        let all = self.shared.names.lock().unwrap();
        all.iter().map(|names| *names.last().unwrap()).collect()
    }

    /// Exports so many bytes on every rank.
    pub fn allocate(&self, rma: &Rma, bytes: u64) -> (Segment, Vec<Target>) {
        let mine = rma.export(bytes).unwrap();
        let names = self.exchange(mine.name());
        (mine, names.into_iter().map(|name| rma.target(name).unwrap()).collect())
    }

    /// Declares a rank dead on all nodes.
    pub fn declare_dead(&self, death: Death) {
        self.shared.nodes.iter().for_each(|node| node.declare_dead(death));
    }

    /// Finalizes the rank on all nodes.
    pub fn finalize(&self) {
        let rank = self.context.rank();
        let barrier = self.context.node().last_barrier(rank);
        for node in &self.shared.nodes {
            if node.is_local(rank) {
                node.finalize(rank);
            } else {
                node.mirror_last_barrier(rank, barrier);
                node.peer(rank).unwrap().mirror_state(RankState::Finalized);
            }
        }
    }
}
