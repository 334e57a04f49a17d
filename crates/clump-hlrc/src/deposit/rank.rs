//! One rank of a node.

use crate::deposit::layout::DepositLayout;
use crate::deposit::node_side::{DepositConfig, NodeSide};
use crate::deposit::port::DepositPort;
use crate::deposit::release::Publisher;

/// Protocol of one rank. All state is in the memory of its node.
#[derive(Debug, Clone, Copy)]
pub struct DepositRank {
    pub(super) node: NodeSide,
}

impl DepositRank {
    /// Returns the protocol of a rank.
    pub fn new(config: DepositConfig, layout: DepositLayout) -> Self {
        assert!(config.node < layout.nodes(), "the node is one of the job's");
        assert!(config.pages > 0, "there are pages");
        Self { node: NodeSide { config, layout } }
    }

    /// Returns the places of words.
    pub fn layout(&self) -> &DepositLayout {
        &self.node.layout
    }

    /// Returns the home of a page, if this node knows it.
    pub fn known_home<P: DepositPort>(&self, port: &P, page: u32) -> Option<u16> {
        self.node.known_home(port, page)
    }

    /// Publishes pages that this rank has written: their bytes are on their way to their homes, and
    /// its notices to all nodes, when it returns. Pages ascend. `ranks_of` says how many ranks a
    /// node has. One thread of the rank at a time; another than before [settles](Self::settle)
    /// first.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost, or if there is no memory for a twin. Then the rank must
    /// end: others of its node wait for the interval.
    pub fn publish<P: DepositPort>(
        &self,
        port: &P,
        written: &[u32],
        ranks_of: impl Fn(u16) -> u32,
    ) -> Result<(), P::Error> {
        Publisher { node: self.node }.publish(port, written, ranks_of)
    }

    /// Waits until all bytes that this rank has published are at their homes.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn settle<P: DepositPort>(&self, port: &P) -> Result<(), P::Error> {
        let me = self.node.job_rank();
        self.node.await_own(port, me..me + 1)
    }
}
