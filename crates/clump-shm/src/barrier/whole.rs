//! A rank's part in barriers, over the memory of its node.

use super::progress::{BarrierMessage, BarrierProgress, Listener, Missing};
use crate::node::NodeMemory;
use crate::rank::WaitReason;
use crate::{Error, Result};

/// One rank's part in the barriers of its job. [`BarrierProgress`] describes the order of calls.
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
        let map = node.rank_map();
        let attendance = BarrierProgress::new(&lines, map, rank).filter(|_| node.is_local(rank));
        let attendance =
            attendance.ok_or(Error::NotANode("this rank has no barrier line in it"))?;
        let listener = Listener::new(&lines, map, rank);
        let ear = BarrierListener { node: node.clone(), listener };
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

    /// Returns what this rank waits for, while [`Barrier::complete`] is false. For a node that has
    /// not notified this one, it names a rank known to have left, else the lowest.
    pub fn waiting(&self) -> WaitReason {
        debug_assert!(self.epoch() != 0, "a waiting rank has arrived");
        let missing = match self.attendance.missing() {
            Some(Missing::Rank(rank)) => rank,
            Some(Missing::Node(node)) => {
                self.who_left(node).unwrap_or_else(|| self.node.rank_map().ranks_of(node).start)
            }
            None => self.ear.listener.me(),
        };
        debug_assert!((missing as usize) < self.node.ranks(), "a rank of the job");
        WaitReason::Barrier { epoch: self.epoch(), missing }
    }

    /// Returns the rank without which the barrier cannot complete, if it is known: one of this node
    /// that has not arrived, or one of another node that has left.
    pub fn depends_on(&self) -> Option<u32> {
        let rank = match self.attendance.missing()? {
            Missing::Rank(rank) => rank,
            Missing::Node(node) => self.who_left(node)?,
        };
        debug_assert!((rank as usize) < self.node.ranks(), "a rank of the job");
        Some(rank)
    }

    /// Returns a rank of another node that left before this barrier, if one is known.
    fn who_left(&self, node: u32) -> Option<u32> {
        debug_assert_ne!(node, self.node.node(), "this node's arrivals are in its lines");
        let has_left = |&rank: &u32| (1..self.epoch()).contains(&self.node.last_barrier(rank));
        self.node.rank_map().ranks_of(node).find(has_left)
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
        if self.listener.handle_message(rank, epoch, self.node.fence())? {
            self.node.wake_sleepers();
        }
        Ok(())
    }
}

impl NodeMemory {
    /// Returns the barrier that `rank` arrived at last; of a rank of another node, once it has left
    /// and 0 before.
    pub fn last_barrier(&self, rank: u32) -> u64 {
        if !self.is_local(rank) {
            return self.peer(rank).map_or(0, |peer| peer.last_barrier());
        }
        let lines = self.lines();
        debug_assert!(lines.is_ok(), "the front holds all lines");
        lines.map_or(0, |lines| lines.arrived((rank - self.local_ranks().start) as usize))
    }

    /// Notes that `rank`, of another node, leaves the job after barrier `epoch`.
    pub fn mirror_last_barrier(&self, rank: u32, epoch: u64) {
        if let Some(peer) = self.peer(rank).filter(|_| !self.is_local(rank)) {
            peer.mirror_last_barrier(epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeConfig;

    #[test]
    fn a_rank_that_left_is_known_to_be_missing() {
        let config = NodeConfig { node_of: &[0, 0, 1, 1], ..NodeConfig::new(4) };
        let node = NodeMemory::create(&config).unwrap();
        let mut barriers = [0, 1].map(|rank| Barrier::new(&node, rank).unwrap());
        assert!(Barrier::new(&node, 2).is_err(), "of another node");
        let pass = |barriers: &mut [Barrier; 2]| {
            barriers.iter_mut().for_each(Barrier::arrive);
            for barrier in barriers {
                assert!(!barrier.complete());
                if barrier.poll_message().is_some() {
                    barrier.on_message_sent();
                }
            }
        };
        for epoch in 1..=2 {
            pass(&mut barriers);
            barriers[0].ear().handle_message(2, epoch).unwrap();
            assert!(barriers.iter_mut().all(Barrier::complete));
        }
        node.mirror_last_barrier(3, 2);
        assert_eq!((node.last_barrier(3), node.last_barrier(1)), (2, 2));
        pass(&mut barriers);
        assert_eq!(barriers[0].depends_on(), Some(3), "it does not come to barrier 3");
        assert_eq!(barriers[1].waiting(), WaitReason::Barrier { epoch: 3, missing: 3 });
        node.mirror_last_barrier(1, 9);
        assert_eq!(node.last_barrier(1), 3, "this node's arrivals are in its line");
    }
}
