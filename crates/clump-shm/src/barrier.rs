//! A barrier of the ranks of this node: every rank writes its own line and reads the others'.
//!
//! Two ranks need one line transfer each way at once. With more ranks than cores nobody has to be
//! scheduled to release the others: whoever runs and sees all arrivals goes on, and has arrived at the
//! next barrier before it yields, so a rotation of the scheduler is a barrier.

use crate::node::NodeMemory;
use crate::rank::{ArrivalLine, Waiting};
use crate::shared::SharedSlice;
use crate::{Error, Result};
use clump_os::fence;
use clump_os::sync::{Ordering, Site, order};

/// One rank's part in the barriers of its node.
#[derive(Debug)]
pub struct Barrier {
    node: NodeMemory,
    /// The node's first rank: its line is the first.
    first: u32,
    me: usize,
    lines: SharedSlice<ArrivalLine>,
    epoch: u64,
    seen: usize,
}

impl Barrier {
    /// The part of `rank`. One per rank.
    ///
    /// # Errors
    /// The node has no such rank.
    pub fn new(node: &NodeMemory, rank: u32) -> Result<Self> {
        let (first, lines) = node.arrivals()?;
        let me = rank.checked_sub(first).map(|me| me as usize).filter(|&me| me < lines.len());
        let me = me.ok_or(Error::NotANode("this rank has no barrier line in it"))?;
        let seen = lines.len();
        Ok(Self { node: node.clone(), first, me, lines, epoch: 0, seen })
    }

    /// Arrives at the next barrier. Follow with [`Barrier::complete`] until it is.
    #[inline]
    pub fn arrive(&mut self) {
        self.epoch += 1;
        self.seen = 1;
        // SYNC 7: pairs with complete
        let release = order(Site::BarrierArrive, Ordering::Release);
        self.lines[self.me].epoch.store(self.epoch, release);
        fence::light(self.node.fence());
        if self.node.job().barrier.asleep.load(Ordering::Relaxed) != 0 {
            self.wake_if_last();
        }
    }

    /// Two last arrivals could each miss the other; the full fence lets at least one see both.
    #[cold]
    fn wake_if_last(&mut self) {
        fence::full();
        if self.complete() {
            self.node.wake_sleepers();
        }
    }

    /// Whether everybody has arrived.
    #[inline]
    pub fn complete(&mut self) -> bool {
        while self.seen < self.lines.len() {
            let other = (self.me + self.seen) % self.lines.len();
            // SYNC 7: pairs with arrive
            if self.lines[other].epoch.load(Ordering::Acquire) < self.epoch {
                return false;
            }
            self.seen += 1;
        }
        true
    }

    /// What this rank waits for, while [`Barrier::complete`] is false.
    pub fn waiting(&self) -> Waiting {
        let missing = (self.me + self.seen) % self.lines.len().max(1);
        Waiting::Barrier { epoch: self.epoch, missing: self.first + missing as u32 }
    }

    /// Announces that this rank will sleep in the barrier; before it announces itself to its park.
    pub fn announce_sleep(&self) {
        self.node.job().barrier.asleep.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes the announcement back.
    pub fn awake(&self) {
        self.node.job().barrier.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}
