//! Settings of the laboratory in the memory of a node.

use super::NodeMemory;
use crate::Result;
use crate::doorbell::REPLY_QUEUE;
use crate::job::KNOB_WORDS;

impl NodeMemory {
    /// Changes the settings of the laboratory, and rings at all endpoints of the node, so that each
    /// reads them before it handles its next message. One process of the node at a time.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn set_knobs(&self, words: &[u64; KNOB_WORDS]) -> Result<()> {
        self.job().set_knobs(words);
        for rank in self.local_ranks() {
            for block in self.endpoint_blocks(rank)?.iter().filter(|block| block.is_open()) {
                // A poll that finds the doorbell rung does more than usual; the queue may be empty.
                block.doorbell().ring(REPLY_QUEUE);
            }
        }
        debug_assert!(self.job().knob_epoch().is_multiple_of(2), "the change is complete");
        Ok(())
    }
}
