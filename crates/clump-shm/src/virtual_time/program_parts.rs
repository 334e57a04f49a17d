//! Parts of a program between calls of the runtime: their costs, and their recording, which is made
//! or charged.

use super::actor::Actor;
use clump_virtual::{Compute, Recording};
use std::path::PathBuf;

impl Actor {
    /// Enters a call of the runtime again that has been left for nothing.
    pub fn enter_quietly(&self) {
        self.computation.skip_part();
    }

    /// Begins a part of the program.
    pub fn begin_part(&self) {
        self.computation.begin_part();
    }

    /// Gives the cost of the part of the program that runs, instead of its time.
    pub fn give_cost(&self, ns: u64) {
        self.computation.give(ns);
    }

    /// Returns the file of this rank's recording, if it is charged.
    pub fn replays(&self) -> Option<PathBuf> {
        debug_assert!(self.me < self.table.node_of.len(), "executors compute nothing");
        (self.table.compute == Compute::Replay).then(|| self.recording_file())
    }

    /// Charges a recording from its beginning, before the program begins.
    pub fn replay(&self, recording: Recording) {
        debug_assert!(self.clock_ns() == 0, "it has not begun");
        self.computation.replay(recording);
    }

    /// Returns what was recorded, and its file.
    pub fn recorded(&self) -> Option<(PathBuf, Vec<u64>)> {
        let words = self.computation.recorded()?;
        debug_assert!(self.table.compute == Compute::Record, "nothing else is");
        Some((self.recording_file(), words))
    }

    fn recording_file(&self) -> PathBuf {
        debug_assert!(!self.table.folder().is_empty(), "a recording has a folder");
        PathBuf::from(self.table.folder()).join(format!("rank-{}.cpu", self.me))
    }
}
