//! The table of a job in virtual time, as it lies in shared memory.

use super::TimePlan;
use crate::geometry::{MAX_LOCAL_RANKS, VIRTUAL_TIME_SPACE};
use crate::node::{place, place_slice};
use crate::shared::{Shared, SharedLayout, SharedSlice};
use crate::{Error, Result};
use clump_os::map::{Mapping, PAGE};
use clump_os::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use clump_virtual::turn::NEVER;
use clump_virtual::{Compute, MACHINE_WORDS, Machine};

/// Time of the clocks at the beginning, so that no time is 0.
pub(super) const BEGIN_NS: u64 = 1_000_000_000;
/// Most messages whose due time their receivers have not seen yet.
pub(super) const RECORDS: usize = 1 << 16;
/// Most NICs: one of each actor within its node, and four of each node.
const NICS: usize = MAX_ACTORS + MAX_LOCAL_RANKS * 4;
/// Longest path of the folder of a recording, in bytes.
pub(super) const MAX_FOLDER: usize = 1024;
/// Most actors: ranks, and an executor for each node.
const MAX_ACTORS: usize = MAX_LOCAL_RANKS * 2;

const ACTORS_AT: usize = PAGE;
const NICS_AT: usize = ACTORS_AT + (MAX_ACTORS * size_of::<ActorLine>()).next_multiple_of(PAGE);
const RECORDS_AT: usize = NICS_AT + (NICS * size_of::<NicLine>()).next_multiple_of(PAGE);
const QUEUE_AT: usize = RECORDS_AT + RECORDS * size_of::<MessageRecord>();

const _: () = assert!(size_of::<TimeHeader>() <= PAGE);
const _: () = assert!(QUEUE_AT + RECORDS * size_of::<AtomicU32>() <= VIRTUAL_TIME_SPACE);
const _: () = assert!(size_of::<ActorLine>() == 128 && size_of::<MessageRecord>() == 64);

/// State of the job.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct TimeHeader {
    pub(super) machine: [AtomicU64; MACHINE_WORDS],
    pub(super) compute: [AtomicU64; 2],
    /// The folder of the recording, as bytes with zeros behind.
    pub(super) folder: [AtomicU64; MAX_FOLDER / 8],
    pub(super) nodes: AtomicU64,
    /// Actors that have joined, and those that have left.
    pub(super) joined: AtomicU32,
    pub(super) left: AtomicU32,
    /// The early end of the job: an [`super::End`], or 0.
    pub(super) end: AtomicU32,
    /// Time of the last act that was no wait, and of the longest time limit of sends.
    pub(super) active_ns: AtomicU64,
    pub(super) send_timeout_ns: AtomicU64,
    /// Messages in the queue of those whose due time is not known yet.
    pub(super) queued: AtomicU64,
    /// First free record, plus one, records ever used, and those that are taken.
    pub(super) free: AtomicU64,
    pub(super) used: AtomicU64,
    pub(super) taken: AtomicU64,
    /// Hand-overs of the token.
    pub(super) turns: AtomicU64,
}

/// State of an actor. Its first line is accessed by those that hand over the token.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct ActorLine {
    /// 1: the token is handed over to it.
    pub(super) turn: AtomicU32,
    /// An [`super::actor::State`].
    pub(super) state: AtomicU32,
    pub(super) clock_ns: AtomicU64,
    /// Time at which its wait ends in any case.
    pub(super) timer_ns: AtomicU64,
    /// Time of the first message that is due, of those whose due time is known.
    pub(super) due_ns: AtomicU64,
    /// Time at which the word that it waits for was woken.
    pub(super) wake_ns: AtomicU64,
    /// The place of that word in its page.
    pub(super) word: AtomicU32,
    pub(super) node: AtomicU32,
    /// 1: words that an executor watches may have changed.
    pub(super) changed: AtomicU32,
    /// Messages that it has sent.
    pub(super) sent: AtomicU64,
    pub(super) handled: AtomicU64,
    /// Requests of it that are not handled yet.
    pub(super) unhandled: AtomicU64,
    /// A number that all that it did has made.
    pub(super) digest: AtomicU64,
    /// Its computation, in virtual ns.
    pub(super) computed_ns: AtomicU64,
    /// The part of it that no recording had, and that in which the thread lost the processor.
    pub(super) diverged_ns: AtomicU64,
    pub(super) preempted_ns: AtomicU64,
}

/// A NIC.
#[derive(Debug)]
#[repr(C, align(16))]
pub(super) struct NicLine {
    /// Times from which it can send and receive again.
    pub(super) out_ns: AtomicU64,
    pub(super) in_ns: AtomicU64,
}

/// A message until its receiver has seen its due time.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct MessageRecord {
    /// Time at which its sender has handed it over.
    pub(super) sent_ns: AtomicU64,
    /// Sender, and number among its messages.
    pub(super) source: AtomicU64,
    pub(super) number: AtomicU64,
    pub(super) to: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Due time; 0 while it is not known.
    pub(super) due_ns: AtomicU64,
    /// Next free record, plus one.
    pub(super) next: AtomicU64,
    /// Key of the message, for recordings.
    pub(super) key: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl SharedLayout for TimeHeader {}
// SAFETY: atomics only.
unsafe impl SharedLayout for ActorLine {}
// SAFETY: atomics only.
unsafe impl SharedLayout for NicLine {}
// SAFETY: atomics only.
unsafe impl SharedLayout for MessageRecord {}

/// The table of a job in virtual time.
#[derive(Debug, Clone)]
pub(crate) struct TimeTable {
    pub(super) header: Shared<TimeHeader>,
    pub(super) actors: SharedSlice<ActorLine>,
    pub(super) nics: SharedSlice<NicLine>,
    pub(super) records: SharedSlice<MessageRecord>,
    /// A heap of records, the message sent first at its top.
    pub(super) queue: SharedSlice<AtomicU32>,
    pub(super) machine: Machine,
    pub(super) compute: Compute,
    /// The node of each rank, and the number of nodes: private copies.
    pub(super) node_of: Vec<u32>,
    pub(super) nodes: u32,
}

/// Returns the number of actors: ranks, and behind them the executors of one-sided operations, one
/// for each of several nodes.
fn actors_of(ranks: usize, nodes: u32) -> usize {
    ranks + if nodes > 1 { nodes as usize } else { 0 }
}

impl TimeTable {
    /// Writes the table of a job whose actors have not joined yet.
    pub(crate) fn create(map: &Mapping, plan: &TimePlan) -> Result<Self> {
        let header: Shared<TimeHeader> = place(map, 0)?;
        let nodes = plan.node_of.iter().max().map_or(1, |last| last + 1);
        for (cell, word) in header.machine.iter().zip(plan.machine.to_words()) {
            cell.store(word, Relaxed);
        }
        for (cell, word) in header.compute.iter().zip(plan.compute.to_words()) {
            cell.store(word, Relaxed);
        }
        let mut folder = [0; MAX_FOLDER];
        let Some(start) = folder.get_mut(..plan.folder.len()) else {
            return Err(Error::NotANode("the path of its recording is too long"));
        };
        start.copy_from_slice(plan.folder.as_bytes());
        for (cell, bytes) in header.folder.iter().zip(folder.as_chunks().0) {
            cell.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        header.nodes.store(u64::from(nodes), Relaxed);
        let count = actors_of(plan.node_of.len(), nodes);
        let actors: SharedSlice<ActorLine> = place_slice(map, ACTORS_AT, count)?;
        for (line, node) in actors.iter().zip(plan.node_of.iter().copied().chain(0..nodes)) {
            line.node.store(node, Relaxed);
            for time in [&line.timer_ns, &line.due_ns, &line.wake_ns] {
                time.store(NEVER, Relaxed);
            }
        }
        debug_assert!(nodes as usize <= plan.node_of.len(), "every node has a rank");
        debug_assert!(plan.node_of.is_sorted(), "ranks of a node follow each other");
        Self::open(map, plan.node_of.len())
    }

    /// Opens the table of so many actors.
    pub(crate) fn open(map: &Mapping, ranks: usize) -> Result<Self> {
        let header: Shared<TimeHeader> = place(map, 0)?;
        let words = header.machine.each_ref().map(|word| word.load(Relaxed));
        let compute = header.compute.each_ref().map(|word| word.load(Relaxed));
        let nodes = u32::try_from(header.nodes.load(Relaxed)).unwrap_or(u32::MAX);
        if nodes as usize > ranks {
            return Err(Error::NotANode("its virtual nodes have no ranks"));
        }
        let actors: SharedSlice<ActorLine> = place_slice(map, ACTORS_AT, actors_of(ranks, nodes))?;
        debug_assert!(actors.len() >= ranks && ranks > 0, "each rank is an actor");
        let of_ranks = actors.iter().take(ranks);
        let node_of: Vec<u32> = of_ranks.map(|line| line.node.load(Relaxed)).collect();
        if node_of.iter().any(|&node| node >= nodes) {
            return Err(Error::NotANode("its virtual nodes have no ranks"));
        }
        Ok(Self {
            actors,
            nics: place_slice(map, NICS_AT, NICS)?,
            records: place_slice(map, RECORDS_AT, RECORDS)?,
            queue: place_slice(map, QUEUE_AT, RECORDS)?,
            machine: Machine::from_words(&words),
            compute: Compute::from_words(compute),
            header,
            node_of,
            nodes,
        })
    }

    /// Returns the folder of the recording.
    pub(super) fn folder(&self) -> String {
        let bytes = self.header.folder.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        debug_assert!(bytes.len() <= MAX_FOLDER, "as long as there is room");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the node of an actor: executors are numbered behind ranks.
    pub(super) fn node_of_actor(&self, actor: usize) -> Option<u32> {
        debug_assert!(actor < self.actors.len(), "an actor of the job");
        let ranks = self.node_of.len();
        self.node_of.get(actor).copied().or_else(|| u32::try_from(actor.checked_sub(ranks)?).ok())
    }

    /// Returns the executor of a node's one-sided operations, of several nodes.
    pub(super) fn executor_of(&self, node: u32) -> usize {
        debug_assert!(self.nodes > 1 && node < self.nodes, "a node of several");
        self.node_of.len() + node as usize
    }

    /// Returns the first rank of a node: ranks of a node follow each other.
    pub(super) fn first_of(&self, node: u32) -> usize {
        debug_assert!(node <= self.nodes, "a node of the job, or behind the last one");
        self.node_of.partition_point(|&other| other < node)
    }

    /// Returns true if a message between two actors goes over the network.
    pub(super) fn is_between_nodes(&self, from: usize, to: usize) -> bool {
        debug_assert!(from.max(to) < self.actors.len(), "each actor has a node");
        self.node_of_actor(from) != self.node_of_actor(to)
    }

    /// Returns the NIC of an actor for messages within its node, or between nodes.
    pub(super) fn nic_of(&self, actor: usize, between_nodes: bool) -> Option<&NicLine> {
        debug_assert!(actor < self.actors.len(), "an actor of the job");
        debug_assert!(self.nics.len() == NICS, "enough for all");
        if !between_nodes {
            return self.nics.get(actor);
        }
        let node = self.node_of_actor(actor)?;
        // An executor uses the NIC of its node's first rank.
        let is_rank = actor < self.node_of.len();
        let place = if is_rank { actor.saturating_sub(self.first_of(node)) } else { 0 };
        let nics = usize::try_from(self.machine.nics).unwrap_or(1);
        self.nics.get(self.actors.len() + node as usize * nics + place % nics)
    }
}
