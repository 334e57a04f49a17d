//! What a store does once memory is full: states go to disk, and are looked up there in batches.

use crate::murphi::store::record_table::RecordTable;
use crate::murphi::store::sorted_runs::SortedRuns;
use crate::murphi::store::word_log::WordLog;
use crate::murphi::store::{Frontier, StateStore, short_key};
use std::io::Result;
use std::path::PathBuf;

/// States on disk.
#[derive(Debug)]
pub struct DiskStates {
    runs: SortedRuns,
    folder: PathBuf,
    /// States of the level that is being found, of which it is known that they are new.
    next: WordLog,
    /// Their number.
    pub found: u64,
    /// The level that is being found, from 1 on.
    level: u64,
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

impl StateStore {
    /// Returns the words of a state that its key does not stand for.
    fn identity<'a>(&self, state: &'a [u64]) -> &'a [u64] {
        if self.bounds.compact.is_some() { &[] } else { state }
    }

    /// Makes room for young states. Returns false if there is none.
    pub(super) fn make_room(&mut self) -> Result<bool> {
        let Some(folder) = self.bounds.spill.clone() else { return Ok(false) };
        if self.disk.is_some() {
            if self.young.count() == 0 {
                return Ok(false);
            }
            self.resolve()?;
            return Ok(true);
        }
        let words = if self.bounds.compact.is_some() { 0 } else { self.bounds.words };
        let mut disk = DiskStates::new(folder, words)?;
        if let Some(keys) = self.keys.take() {
            disk.add_known(|push| keys.each(|key| push(&[key, 0])))?;
            self.disk = Some(disk);
        } else {
            self.move_records(disk)?;
        }
        self.list_frontier()?;
        Ok(true)
    }

    /// Moves the states that are expanded to a list.
    fn list_frontier(&mut self) -> Result<()> {
        let mut list = WordLog::new(self.bounds.spill.as_deref())?;
        match &mut self.frontier {
            Frontier::Records(table) => {
                (0..table.count()).try_for_each(|at| list.push(table.record(at).0))?;
            }
            // Ranges were moved with their records.
            Frontier::Range(..) => return Ok(()),
            Frontier::List(known) => {
                known.spill(self.bounds.spill.as_deref().unwrap_or("/".as_ref()))?;
                return Ok(());
            }
        }
        self.frontier = Frontier::List(list);
        Ok(())
    }

    /// Moves the states of all levels to disk, and their parents to the log.
    fn move_records(&mut self, mut disk: DiskStates) -> Result<()> {
        let folder = self.bounds.spill.clone();
        let (from, count) = (self.level_from(), self.young.count());
        let mut starts = std::mem::take(&mut self.level_starts).into_iter().skip(1).peekable();
        self.log.pairs.spill(folder.as_deref().unwrap_or("/".as_ref()))?;
        for index in self.logged..=count {
            while starts.next_if(|start| *start <= index).is_some() {
                self.log.end_level();
            }
            if index < count && self.bounds.traces {
                let (state, parent) = self.young.record(index);
                self.log.push(self.key(state), parent)?;
            }
        }
        if let Frontier::Range(first, end) = self.frontier {
            let mut list = WordLog::new(folder.as_deref())?;
            (first..end).try_for_each(|at| list.push(self.young.record(at).0))?;
            self.frontier = Frontier::List(list);
        }
        let sorted = self.young.sorted();
        let mut record = Vec::new();
        disk.runs.add(|push| {
            for (key, index) in &sorted {
                let level = if *index >= from { disk.level } else { 0 };
                record.clear();
                record.push(*key);
                record.extend_from_slice(self.young.record(*index).0);
                record.push(level);
                push(&record)?;
            }
            Ok(())
        })?;
        (from..count).try_for_each(|at| disk.next.push(self.young.record(at).0))?;
        disk.found = count - from;
        self.level_starts = vec![0];
        self.young = RecordTable::new(self.bounds.words);
        self.disk = Some(disk);
        Ok(())
    }

    /// Moves the keys of a level that memory has no room for to disk, with all others.
    pub(super) fn overflow_keys(&mut self, level: &RecordTable) -> Result<()> {
        let Some(folder) = self.bounds.spill.clone() else { return Ok(()) };
        let mut disk = DiskStates::new(folder, 0)?;
        let Some(keys) = self.keys.take() else { return Ok(()) };
        disk.add_known(|push| keys.each(|key| push(&[key, 0])))?;
        let mut rest: Vec<u64> =
            (0..level.count()).map(|at| self.key(level.record(at).0)).collect();
        rest.sort_unstable();
        rest.dedup();
        let absent: Vec<u64> = rest.into_iter().filter(|key| !keys.contains(*key)).collect();
        drop(keys);
        disk.add_known(|push| absent.iter().try_for_each(|key| push(&[*key, 0])))?;
        self.disk = Some(disk);
        Ok(())
    }

    /// Looks young states up on disk, and moves those that are not there.
    pub(super) fn resolve(&mut self) -> Result<()> {
        let Some(mut disk) = self.disk.take() else { return Ok(()) };
        let sorted = self.young.sorted();
        let mut fresh: Vec<(u64, u64)> = Vec::new();
        disk.runs.rewind();
        for (print, index) in sorted {
            let (state, parent) = self.young.record(index);
            let key = short_key(&self.bounds, print);
            match disk.runs.find(key, self.identity(state))? {
                None => fresh.push((key, index)),
                // It was found in this level before: the lowest parent counts.
                Some(level) if level == disk.level && self.bounds.traces => {
                    self.log.push(key, parent)?;
                }
                Some(_) => (),
            }
        }
        for (key, index) in &fresh {
            let (state, parent) = self.young.record(*index);
            disk.next.push(state)?;
            if self.bounds.traces {
                self.log.push(*key, parent)?;
            }
        }
        disk.found += fresh.len() as u64;
        let (mut record, mut last) = (Vec::new(), None);
        disk.runs.add(|push| {
            for (key, index) in &fresh {
                let state = self.identity(self.young.record(*index).0);
                // States of one level that have the same short key are all kept.
                if state.is_empty() && last == Some(*key) {
                    continue;
                }
                last = Some(*key);
                record.clear();
                record.push(*key);
                record.extend_from_slice(state);
                record.push(disk.level);
                push(&record)?;
            }
            Ok(())
        })?;
        self.young.clear();
        self.disk = Some(disk);
        Ok(())
    }
}
