//! Settings of the laboratory in the memory of a node.

use super::NodeMemory;
use crate::Result;
use crate::doorbell::REPLY_QUEUE;
use crate::job::KNOB_WORDS;
use clump_os::sync::Ordering;

impl NodeMemory {
    /// Changes the settings of the laboratory, and rings at all endpoints of the node, so that each
    /// reads them before it handles its next message. One process of the node at a time.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn set_knobs(&self, words: &[u64; KNOB_WORDS]) -> Result<()> {
        self.job().set_knobs(words);
        for rank in self.local_ranks() {
            for block in self.endpoint_blocks(rank)?.iter().filter(|block| block.last_opened().1) {
                // A poll that finds the doorbell rung does more than usual; the queue may be empty.
                block.doorbell().ring(REPLY_QUEUE);
            }
        }
        debug_assert!(self.job().knob_epoch().is_multiple_of(2), "the change is complete");
        Ok(())
    }

    /// Records that these nodes run on other kernels, whose clocks differ. Before ranks start;
    /// until then all nodes count as reading one clock.
    pub fn note_other_clocks(&self, nodes: impl IntoIterator<Item = u32>) {
        for node in nodes {
            debug_assert!(node != self.node(), "a node reads its own clock");
            if let Some(word) = self.job().other_clocks.get(node as usize / 64) {
                word.fetch_or(1 << (node % 64), Ordering::Relaxed);
            }
        }
    }

    /// Returns true if times of that node and of this one can be compared. Of a node beyond those
    /// that have a bit, nothing is known.
    pub fn has_clock_of(&self, node: u32) -> bool {
        let word = self.job().other_clocks.get(node as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (node % 64) == 0)
    }
}
