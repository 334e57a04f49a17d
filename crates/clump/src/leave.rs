//! The end of a rank's part in its job.

use clump_am::RankContext;
use std::sync::Arc;

/// The last field of a runtime to be dropped: by then the endpoints of the collectives are closed.
#[derive(Debug)]
pub(crate) struct Leave(pub(crate) Arc<RankContext>);

impl Leave {
    /// Leaves, unless this is a child by `fork`, or a panic is under way.
    pub(crate) fn leave(&self) {
        // A child by `fork` has a copy of this, and is no rank that could leave.
        if !std::thread::panicking() && !clump_os::forked::is_child() {
            if let Some(error) = self.0.take_unreported() {
                let rank = self.0.rank();
                clump_os::console::err(&format!(
                    "clump: rank {rank} ended with an error that it never asked for: {error}"
                ));
            }
            self.0.close_network();
            if let Some(trace) = self.0.trace() {
                trace.conclude();
            }
            self.0.note_processor();
            self.0.node().finalize(self.0.rank());
            // Ranks that wait for this one have seen it finalized, whenever they run.
            self.0.end_virtual_time();
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.leave();
    }
}
