//! A rank's part in barriers, over the memory of its node.

use super::progress::{BarrierMessage, BarrierProgress, Listener, Missing, NodeRanks};
use crate::node::NodeMemory;
use crate::rank::WaitReason;
use crate::{Error, Result};

/// One rank's part in the barriers of its job. [`BarrierProgress`] says in which order to call.
#[derive(Debug)]
pub struct Barrier {
    node: NodeMemory,
    attendance: BarrierProgress,
    ear: BarrierListener,
}

/// Handler of the barrier messages of other nodes. Clones listen for the same rank.
#[derive(Debug, Clone)]
pub struct BarrierListener {
    node: NodeMemory,
    listener: Listener,
}

impl Barrier {
    /// Creates the part of `rank`. One per rank.
    ///
    /// # Errors
    /// The node has no such rank.
    pub fn new(node: &NodeMemory, rank: u32) -> Result<Self> {
        let lines = node.lines()?;
        let places = NodeRanks {
            me: rank as usize,
            node: node.node() as usize,
            ranks: (0..node.nnodes()).map(|n| ranks_of(node, n)).collect(),
        };
        let all = places.ranks.iter().map(ExactSizeIterator::len).sum::<usize>();
        debug_assert_eq!(all, node.ranks(), "every rank is on one node");
        let attendance = BarrierProgress::new(&lines, &places)
            .ok_or(Error::NotANode("this rank has no barrier line in it"))?;
        let ear = BarrierListener { node: node.clone(), listener: Listener::new(&lines, &places) };
        Ok(Self { node: node.clone(), attendance, ear })
    }

    /// Returns the listener for the handlers of this rank.
    pub fn ear(&self) -> &BarrierListener {
        &self.ear
    }

    /// Returns the number of the barrier that this rank arrived at last.
    pub fn epoch(&self) -> u64 {
        self.attendance.epoch()
    }

    /// Arrives at the next barrier. Follow with [`Barrier::complete`] until it is.
    #[inline]
    pub fn arrive(&mut self) {
        if self.attendance.arrive(self.node.fence()) {
            self.node.wake_sleepers();
        }
    }

    /// Returns true if all ranks have arrived, and this rank's messages are sent.
    #[inline]
    pub fn complete(&mut self) -> bool {
        self.attendance.complete()
    }

    /// Returns the next message that this rank has to send now.
    #[inline]
    pub fn poll_message(&self) -> Option<BarrierMessage> {
        self.attendance.poll_message()
    }

    /// Confirms that the message of [`Barrier::poll_message`] was sent.
    pub fn on_message_sent(&mut self) {
        self.attendance.on_message_sent();
    }

    /// Returns what this rank waits for, while [`Barrier::complete`] is false. Of a node that has
    /// not told, it names the rank that is known to have left, else the lowest.
    pub fn waiting(&self) -> WaitReason {
        debug_assert!(self.epoch() != 0, "who waits has arrived");
        let missing = match self.attendance.missing() {
            Some(Missing::Rank(rank)) => rank,
            Some(Missing::Node(node)) => {
                self.who_left(node).unwrap_or_else(|| ranks_of(&self.node, node as u32).start)
            }
            None => self.ear.listener.me(),
        };
        debug_assert!(missing < self.node.ranks(), "a rank of the job");
        WaitReason::Barrier { epoch: self.epoch(), missing: missing as u32 }
    }

    /// Returns the rank without which the barrier cannot complete, if it is known: one of this node
    /// that has not arrived, or one of another node that has left.
    pub fn depends_on(&self) -> Option<u32> {
        let rank = match self.attendance.missing()? {
            Missing::Rank(rank) => rank,
            Missing::Node(node) => self.who_left(node)?,
        };
        debug_assert!(rank < self.node.ranks(), "a rank of the job");
        Some(rank as u32)
    }

    fn who_left(&self, node: usize) -> Option<usize> {
        self.ear.listener.who_left(node, self.epoch())
    }

    /// Announces that this rank will sleep in the barrier. To be called before it announces itself
    /// to its park.
    pub fn announce_sleep(&self) {
        self.attendance.announce_sleep();
    }

    /// Withdraws the announcement.
    pub fn awake(&self) {
        self.attendance.awake();
    }
}

impl BarrierListener {
    /// Handles the message of `rank` that its node arrived at barrier `epoch`.
    ///
    /// # Errors
    /// No correct rank sends this message.
    pub fn handle_message(&self, rank: u32, epoch: u64) -> std::result::Result<(), &'static str> {
        if self.listener.handle_message(rank as usize, epoch, self.node.fence())? {
            self.node.wake_sleepers();
        }
        Ok(())
    }
}

impl NodeMemory {
    /// Returns the barrier that `rank`, of this node, arrived at last.
    pub fn last_barrier(&self, rank: u32) -> u64 {
        let lines = self.lines();
        debug_assert!(lines.is_ok(), "the front holds all lines");
        let lines = lines.ok().filter(|_| self.is_local(rank));
        lines.map_or(0, |lines| lines.arrived(rank as usize))
    }

    /// Notes that `rank`, of another node, leaves the job after barrier `epoch`.
    pub fn mirror_last_barrier(&self, rank: u32, epoch: u64) {
        let elsewhere = (rank as usize) < self.ranks() && !self.is_local(rank);
        let lines = self.lines();
        debug_assert!(lines.is_ok(), "the front holds all lines");
        if let Some(lines) = lines.ok().filter(|_| elsewhere) {
            lines.record_departure(rank as usize, epoch);
        }
    }
}

/// Returns the ranks of node `node`.
fn ranks_of(memory: &NodeMemory, node: u32) -> std::ops::Range<usize> {
    let mut of = (0..memory.ranks()).filter(|&rank| memory.node_of(rank as u32) == node);
    let first = of.next();
    debug_assert!(first.is_some(), "every node has ranks");
    let start = first.unwrap_or(0);
    start..of.next_back().unwrap_or(start) + 1
}
