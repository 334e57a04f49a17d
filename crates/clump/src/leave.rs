//! The end of a rank's part in its job.

use clump_am::RankContext;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The last field of a runtime to be dropped: by then the endpoints of the collectives are closed.
#[derive(Debug)]
pub(crate) struct Leave {
    context: Arc<RankContext>,
    /// The executor beside this rank, in virtual time.
    executor: Mutex<Option<JoinHandle<()>>>,
}

impl Leave {
    pub(crate) fn new(context: Arc<RankContext>, executor: Option<JoinHandle<()>>) -> Self {
        debug_assert!(executor.is_none() || context.actor().is_some(), "only in virtual time");
        Self { context, executor: Mutex::new(executor) }
    }

    /// Leaves, unless this is a child by `fork`, or a panic is under way.
    pub(crate) fn leave(&self) {
        // A child by `fork` has a copy of this, and is no rank that could leave.
        if !std::thread::panicking() && !clump_os::forked::is_child() {
            if let Some(error) = self.context.take_unreported() {
                let rank = self.context.rank();
                clump_os::console::err(&format!(
                    "clump: rank {rank} ended with an error that it never asked for: {error}"
                ));
            }
            self.context.close_network();
            if let Some(trace) = self.context.trace() {
                trace.conclude();
            }
            self.context.note_processor();
            self.context.node().finalize(self.context.rank());
            // Ranks that wait for this one have seen it finalized, whenever they run.
            self.context.end_virtual_time();
            crate::recording::end(&self.context);
            // Other ranks may still use it.
            let executor = self.executor.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(executor) = executor {
                let _ = executor.join();
            }
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.leave();
    }
}
