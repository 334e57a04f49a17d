//! A store in a checkpoint: what it knows, what it has to expand, and the log of parents. Files of
//! any number of ranks make a store.

use crate::murphi::store::disk_states::DiskStates;
use crate::murphi::store::keys::fingerprint;
use crate::murphi::store::record_table::{AddedRecord, RecordTable};
use crate::murphi::store::word_log::WordLog;
use crate::murphi::store::{Frontier, StateStore};
use std::io::{Error, Result};

/// Keys of a run that is written while a store is restored.
const MAX_KEYS: usize = 1 << 20;

/// Takes words of a checkpoint.
pub type PutWords<'a> = &'a mut dyn FnMut(&[u64]) -> Result<()>;

impl StateStore {
    /// Returns the words that stand for a state: its key with compaction, else all.
    pub fn known_words(&self) -> usize {
        if self.bounds.compact.is_some() { 1 } else { self.bounds.words }
    }

    /// Returns the number of states that are known.
    fn known(&self) -> u64 {
        match (&self.disk, &self.keys) {
            (Some(disk), _) => disk.count(),
            (None, Some(keys)) => keys.count(),
            (None, None) => self.young.count(),
        }
    }

    /// Ends of the levels of the log, with those of parents that are in records.
    fn log_ends(&self) -> Vec<u64> {
        let mut ends = self.log.ends.clone();
        if self.keys.is_none() && self.disk.is_none() && self.bounds.traces {
            let before = self.log.pairs.len();
            let end = |start: &u64| before + 2 * (start - self.logged);
            ends.extend(self.level_starts.iter().skip(1).map(end));
        }
        ends
    }

    /// Writes the store, behind the end of a level: counts of known states, of states to expand and
    /// of levels, and then these.
    ///
    /// # Errors
    /// Fails as `put` does, or if a file cannot be read.
    pub fn save(&mut self, put: PutWords<'_>) -> Result<()> {
        let ends = self.log_ends();
        put(&[self.known(), self.level_states(), ends.len() as u64])?;
        if let Some(disk) = &mut self.disk {
            let compact = self.bounds.compact.is_some();
            disk.each(|key, state| if compact { put(&[key]) } else { put(state) })?;
        } else if let Some(keys) = &self.keys {
            keys.each(|key| put(&[key]))?;
        } else {
            (0..self.young.count()).try_for_each(|at| put(self.young.record(at).0))?;
        }
        let mut state = vec![0; self.bounds.words];
        for number in 0..self.level_states() {
            self.level_state(number, &mut state)?;
            put(&state)?;
        }
        put(&ends)?;
        let mut pair = [0; 2];
        for at in (0..self.log.pairs.len()).step_by(2) {
            self.log.pairs.read(at, &mut pair)?;
            put(&pair)?;
        }
        let rest = ends.last().map_or(0, |end| (end - self.log.pairs.len()) / 2);
        for index in self.logged..self.logged + rest {
            let (state, parent) = self.young.record(index);
            put(&[self.key(state), parent])?;
        }
        Ok(())
    }

    /// Adds a state that is known, by the words that stand for it.
    ///
    /// # Errors
    /// Fails if memory and disk are full.
    pub fn restore_known(&mut self, words: &[u64]) -> Result<()> {
        debug_assert_eq!(words.len(), self.known_words(), "what stands for a state");
        self.old += 1;
        if self.bounds.compact.is_some() {
            return self.restore_key(words.first().copied().unwrap_or(0));
        }
        while self.young.add(fingerprint(words), words, 0, self.room()) == AddedRecord::Full {
            if self.young.count() == 0 {
                return Err(too_small());
            }
            self.spill_restored()?;
        }
        Ok(())
    }

    fn restore_key(&mut self, key: u64) -> Result<()> {
        let others = self.bytes() - self.key_bytes();
        let room = self.bounds.max_bytes.saturating_sub(others);
        if let Some(keys) = &mut self.keys {
            if keys.insert(key, room).is_some() {
                return Ok(());
            }
            let folder = self.bounds.spill.clone().ok_or_else(too_small)?;
            let mut disk = DiskStates::new(folder, 0)?;
            disk.add_known(|push| keys.each(|key| push(&[key, 0])))?;
            (self.keys, self.disk) = (None, Some(disk));
        }
        self.restored.push(key);
        if self.restored.len() < MAX_KEYS { Ok(()) } else { self.spill_restored() }
    }

    /// Moves restored states to disk.
    fn spill_restored(&mut self) -> Result<()> {
        if self.disk.is_none() {
            let folder = self.bounds.spill.clone().ok_or_else(too_small)?;
            self.disk = Some(DiskStates::new(folder, self.bounds.words)?);
        }
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let mut keys = std::mem::take(&mut self.restored);
        keys.sort_unstable();
        disk.add_known(|push| keys.iter().try_for_each(|key| push(&[*key, 0])))?;
        let (sorted, young) = (self.young.sorted(), &self.young);
        disk.add_known(|push| {
            sorted.iter().try_for_each(|(key, index)| {
                let mut record = vec![*key];
                record.extend_from_slice(young.record(*index).0);
                record.push(0);
                push(&record)
            })
        })?;
        self.young = RecordTable::new(self.bounds.words);
        Ok(())
    }

    /// Ends the restoring of known states, and begins that of states to expand.
    ///
    /// # Errors
    /// Fails if the disk is full.
    pub fn restored_known(&mut self) -> Result<()> {
        if self.disk.is_some() {
            self.spill_restored()?;
        }
        self.logged = self.young.count();
        self.level_starts = vec![self.logged];
        self.frontier = Frontier::List(WordLog::new(self.bounds.spill.as_deref())?);
        Ok(())
    }

    /// Adds a state to expand.
    ///
    /// # Errors
    /// Fails if memory or disk are full.
    pub fn restore_frontier(&mut self, state: &[u64]) -> Result<()> {
        debug_assert_eq!(state.len(), self.bounds.words, "a state");
        match &mut self.frontier {
            Frontier::List(list) => list.push(state),
            _ => Err(Error::other("known states come first")),
        }
    }

    /// Adds to the log of parents; `None` ends a level.
    ///
    /// # Errors
    /// Fails if memory or disk are full.
    pub fn restore_log(&mut self, pair: Option<[u64; 2]>) -> Result<()> {
        match pair {
            Some([key, parent]) => self.log.push(key, parent)?,
            None => self.log.end_level(),
        }
        Ok(())
    }
}

fn too_small() -> Error {
    Error::other(
        "memory has no room for the states of the checkpoint: give more by --memory, or a folder \
         by --spill",
    )
}
