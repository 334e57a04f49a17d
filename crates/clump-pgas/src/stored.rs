//! Counts of stored bytes: each rank has a word for them, to which the ranks that store add.

use crate::aggregator::{Aggregator, PeerSegment};
use crate::collector::BatchKind;
use crate::error::Result;
use clump_rma::{AtomicOp, Comparison, Rma, Segment};
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of the words of a rank: one for each of two epochs, which take turns.
pub(crate) const COUNT_BYTES: u64 = 16;

/// Bytes stored by this rank and not announced yet, and bytes stored here.
#[derive(Debug)]
pub(crate) struct StoreCounts {
    own: Segment,
    /// The words of all ranks.
    peers: Vec<Rc<PeerSegment>>,
    /// Bytes stored at each rank since they were last announced.
    pending: Vec<PendingBytes>,
    is_pending: Cell<bool>,
    /// Number of times that all ranks have agreed that every store has landed.
    epoch: Cell<u64>,
    /// Bytes that were waited for in this epoch.
    consumed: Cell<u64>,
}

/// Bytes stored at a rank, by the way that they went: each way keeps its own order.
#[derive(Debug, Default)]
struct PendingBytes {
    straight: Cell<u64>,
    forwarded: Cell<u64>,
}

/// Bytes that are announced once what was sent before has been executed: rank, bytes that went
/// straight, and bytes that were forwarded.
#[derive(Debug)]
pub(crate) struct Announcement(Vec<(usize, [u64; 2])>);

impl StoreCounts {
    pub(crate) fn new(own: Segment, peers: Vec<Rc<PeerSegment>>) -> Self {
        let pending = peers.iter().map(|_| PendingBytes::default()).collect();
        let (is_pending, epoch, consumed) = Default::default();
        Self { own, peers, pending, is_pending, epoch, consumed }
    }

    /// Returns the offset of this epoch's word.
    fn word(&self) -> u64 {
        self.epoch.get() % 2 * 8
    }

    /// Counts bytes stored at a rank. Those that are stored in memory of a node, which is no
    /// rank's, are counted nowhere. `forwarded`: they go by way of another node.
    #[inline(always)]
    pub(crate) fn note(&self, rank: usize, bytes: usize, forwarded: bool) {
        if let Some(PendingBytes { straight, forwarded: behind }) = self.pending.get(rank) {
            let pending = if forwarded { behind } else { straight };
            pending.set(pending.get() + bytes as u64);
            self.is_pending.set(true);
        }
    }

    /// Takes what is to be announced. The stores that it counts must be sent before
    /// [`StoreCounts::announce`]; what handlers store meanwhile is announced later.
    pub(crate) fn prepare(&self) -> Option<Announcement> {
        if !self.is_pending.replace(false) {
            return None;
        }
        let take = |bytes: &PendingBytes| [bytes.straight.replace(0), bytes.forwarded.replace(0)];
        let taken = self.pending.iter().map(take).enumerate();
        Some(Announcement(taken.filter(|&(_, bytes)| bytes != [0, 0]).collect()))
    }

    /// Adds to the words of the ranks that were stored to, after the stores (invariant 5): each way
    /// announces the bytes that went by it.
    pub(crate) fn announce(
        &self,
        rma: &Rma,
        aggregator: &Aggregator,
        announcement: Announcement,
    ) -> Result<()> {
        rma.fence();
        for (rank, [straight, forwarded]) in announcement.0 {
            debug_assert!(rank < self.peers.len(), "a rank of the job");
            let Some(peer) = self.peers.get(rank) else { continue };
            if straight > 0 {
                peer.target.signal(self.word(), straight, true)?;
            }
            let kind = BatchKind { op: AtomicOp::Add, halves: false };
            if let Some(via) = peer.forwarder(kind, self.word()).filter(|_| forwarded > 0) {
                let index = (self.word() / 8) as u32;
                aggregator.add_behind(via, (peer.name(), index), forwarded)?;
            }
        }
        Ok(())
    }

    /// Waits until so many bytes more have been stored here.
    pub(crate) fn wait(&self, bytes: u64) -> Result<()> {
        let wanted = self.consumed.get() + bytes;
        self.own.wait_until(self.word(), Comparison::AtLeast, wanted)?;
        self.consumed.set(wanted);
        Ok(())
    }

    /// Begins the next epoch, after all ranks have seen that all stores of this one have landed.
    /// Its word is cleared for the epoch after the next, which no rank begins before this one
    /// joins.
    pub(crate) fn next_epoch(&self) -> Result<()> {
        self.own.store(self.word(), 0_u64)?;
        self.epoch.set(self.epoch.get() + 1);
        self.consumed.set(0);
        Ok(())
    }
}
