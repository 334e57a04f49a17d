//! States on disk, and those of a level of which it is known that they are new.

use crate::murphi::store::sorted_runs::SortedRuns;
use crate::murphi::store::word_log::WordLog;
use std::io::Result;
use std::path::PathBuf;

/// States on disk.
#[derive(Debug)]
pub struct DiskStates {
    /// States of which it is known.
    pub runs: SortedRuns,
    folder: PathBuf,
    /// States of the level that is being found, of which it is known that they are new.
    pub next: WordLog,
    /// Their number.
    pub found: u64,
    /// The level that is being found, from 1 on.
    pub level: u64,
}

impl DiskStates {
    /// Creates an empty set of states of so many words behind their keys.
    ///
    /// # Errors
    /// Fails if the folder cannot be written.
    pub fn new(folder: PathBuf, words: usize) -> Result<Self> {
        let next = WordLog::new(Some(&folder))?;
        Ok(Self { runs: SortedRuns::new(folder.clone(), words), folder, next, found: 0, level: 1 })
    }

    /// Adds states of earlier levels, in order.
    ///
    /// # Errors
    /// Fails if the disk is full.
    pub fn add_known(
        &mut self,
        records: impl FnOnce(&mut dyn FnMut(&[u64]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.runs.add(records)
    }

    /// Returns the number of states.
    pub fn count(&self) -> u64 {
        self.runs.count()
    }

    /// Calls a function with the key and the other words of each state.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or as the function does.
    pub fn each(&mut self, each: impl FnMut(u64, &[u64]) -> Result<()>) -> Result<()> {
        self.runs.each(each)
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        self.runs.bytes() + self.next.bytes()
    }

    /// Returns the bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.runs.disk_bytes() + self.next.disk_bytes()
    }

    /// Ends a level. Returns its states, and their number.
    ///
    /// # Errors
    /// Fails if the folder cannot be written.
    pub fn end_level(&mut self) -> Result<(WordLog, u64)> {
        self.level += 1;
        let next = WordLog::new(Some(&self.folder))?;
        Ok((std::mem::replace(&mut self.next, next), std::mem::take(&mut self.found)))
    }
}
