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

    /// Returns the file of this rank's recording of before, if it is charged or there may be one
    /// whose least is kept; true: there has to be one.
    pub fn recorded_before(&self) -> Option<(PathBuf, bool)> {
        debug_assert!(self.me < self.table.node_of.len(), "executors compute nothing");
        let must_exist = match self.table.compute {
            Compute::Replay => true,
            Compute::Learn => false,
            Compute::Measured | Compute::Fixed(_) | Compute::Record => return None,
        };
        Some((self.recording_file(), must_exist))
    }

    /// Takes that recording, as words, before the program begins. Returns false if they are none of
    /// a job of as many ranks.
    #[must_use]
    pub fn take_recording(&self, words: &[u64]) -> bool {
        debug_assert!(self.clock_ns() == 0, "it has not begun");
        let recording = Recording::from_words(words, self.ranks());
        recording.map(|recording| self.computation.take(recording)).is_some()
    }

    /// Returns what was recorded, as words, and its file: once.
    pub fn take_recorded(&self) -> Option<(PathBuf, Vec<u64>)> {
        let recording = self.computation.take_recorded()?;
        debug_assert!(self.table.compute.is_recorded(), "nothing else is");
        Some((self.recording_file(), recording.to_words(self.ranks())))
    }

    fn ranks(&self) -> u32 {
        u32::try_from(self.table.node_of.len()).unwrap_or(u32::MAX)
    }

    fn recording_file(&self) -> PathBuf {
        debug_assert!(!self.table.folder().is_empty(), "a recording has a folder");
        PathBuf::from(self.table.folder()).join(format!("rank-{}.cpu", self.me))
    }
}
