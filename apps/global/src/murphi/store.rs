//! States that a rank owns, each once, with the key of the state that it was reached from: the
//! lowest one of those that reach it in the fewest steps.
//!
//! States of the level that is being found are in a [`RecordTable`]. Those of earlier levels are
//! there, too; or, with hash compaction, their keys in a [`KeySet`]; or, once memory is full, on
//! disk as [`SortedRuns`]. On disk they are looked up for many states at a time: states of a level
//! stay in memory as candidates until then.

pub mod disk_states;
pub mod key_set;
pub mod keys;
pub mod persist;
pub mod record_table;
pub mod sorted_runs;
pub mod word_log;

use self::disk_states::DiskStates;
use self::key_set::KeySet;
use self::keys::{StoreBounds, fingerprint, short_key};
use self::record_table::{AddedRecord, RecordTable};
use self::word_log::{LevelLog, WordLog};
use std::io::Result;

/// States that are expanded.
#[derive(Debug)]
enum Frontier {
    /// Records of the table, from the first one to before the last one.
    Range(u64, u64),
    /// All records of the table of the level before.
    Records(RecordTable),
    /// A list of states.
    List(WordLog),
}

/// States of a rank.
#[derive(Debug)]
pub struct StateStore {
    bounds: StoreBounds,
    /// States of the level that is being found; without compaction and disk, those of all levels.
    young: RecordTable,
    /// First record of each level that is there.
    level_starts: Vec<u64>,
    /// First record whose parent is not in the log.
    logged: u64,
    keys: Option<KeySet>,
    log: LevelLog,
    disk: Option<DiskStates>,
    frontier: Frontier,
    /// Keys that are being restored to disk.
    restored: Vec<u64>,
    /// States of earlier levels.
    old: u64,
    /// States that there was no memory for.
    lost: u64,
    /// Largest number of bytes of memory that were in use.
    peak: u64,
}

impl StateStore {
    /// Creates an empty store.
    ///
    /// # Errors
    /// Fails if the folder cannot be written.
    pub fn new(bounds: StoreBounds) -> Result<Self> {
        let log = LevelLog::new(bounds.spill.as_deref())?;
        Ok(Self {
            young: RecordTable::new(bounds.words),
            level_starts: vec![0],
            logged: 0,
            keys: bounds.compact.map(KeySet::new),
            log,
            disk: None,
            frontier: Frontier::Range(0, 0),
            restored: Vec::new(),
            old: 0,
            lost: 0,
            peak: 0,
            bounds,
        })
    }

    /// Returns the key of a state.
    pub fn key(&self, state: &[u64]) -> u64 {
        short_key(&self.bounds, fingerprint(state))
    }

    /// Returns the states of the level that is expanded.
    pub fn level_states(&self) -> u64 {
        match &self.frontier {
            Frontier::Range(first, end) => end - first,
            Frontier::Records(table) => table.count(),
            Frontier::List(list) => list.len() / self.bounds.words as u64,
        }
    }

    /// Returns true if keys stand for states.
    pub fn stores_keys(&self) -> bool {
        self.bounds.compact.is_some()
    }

    /// Returns the states that there was no memory for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of states.
    pub fn count(&self) -> u64 {
        let found = match &self.disk {
            Some(disk) => disk.found + self.young.count(),
            None => self.young.count() - self.level_from(),
        };
        self.old + found
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        let frontier = match &self.frontier {
            Frontier::Range(..) => 0,
            Frontier::Records(table) => table.bytes(),
            Frontier::List(list) => list.bytes(),
        };
        let keys = self.keys.as_ref().map_or(0, KeySet::bytes);
        let disk = self.disk.as_ref().map_or(0, DiskStates::bytes);
        self.young.bytes() + frontier + keys + disk + self.log.pairs.bytes()
    }

    /// Returns the largest number of bytes of memory that were in use.
    pub fn peak_bytes(&self) -> u64 {
        self.peak.max(self.bytes())
    }

    /// Returns the bytes of keys that stand for states.
    pub fn key_bytes(&self) -> u64 {
        self.keys.as_ref().map_or(0, KeySet::bytes)
    }

    /// Returns the bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        let frontier = match &self.frontier {
            Frontier::List(list) => list.disk_bytes(),
            _ => 0,
        };
        let disk = self.disk.as_ref().map_or(0, DiskStates::disk_bytes);
        frontier + disk + self.log.pairs.disk_bytes()
    }

    fn level_from(&self) -> u64 {
        self.level_starts.last().copied().unwrap_or(0)
    }

    /// Returns the bytes of memory that the table of young states may have.
    fn room(&self) -> u64 {
        let others = self.bytes() - self.young.bytes();
        let sorting = if self.bounds.spill.is_some() { 16 * self.young.count() } else { 0 };
        // With compaction another table begins before this one ends.
        let next = if self.keys.is_some() { RecordTable::EMPTY_BYTES } else { 0 };
        self.bounds.max_bytes.saturating_sub(others + sorting + next)
    }

    /// Adds a state unless it is here. Without a folder for them, states that there is no memory
    /// for are counted as lost.
    ///
    /// # Errors
    /// Fails if the disk is full.
    pub fn insert(&mut self, state: &[u64], parent: u64) -> Result<()> {
        let print = fingerprint(state);
        if self.disk.is_none()
            && let Some(keys) = &self.keys
            && keys.contains(short_key(&self.bounds, print))
        {
            return Ok(());
        }
        loop {
            match self.young.add(print, state, parent, self.room()) {
                AddedRecord::New => return Ok(()),
                AddedRecord::Known(index) if index >= self.level_from() => {
                    self.young.lower_parent(index, parent);
                    return Ok(());
                }
                AddedRecord::Known(_) => return Ok(()),
                AddedRecord::Full => {
                    if !self.make_room()? {
                        self.lost += 1;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Begins the next level: states that were found are expanded. Returns their number.
    ///
    /// # Errors
    /// Fails if the disk is full.
    pub fn advance(&mut self) -> Result<u64> {
        self.peak = self.peak_bytes();
        if self.disk.is_some() {
            self.resolve()?;
            let disk = self.disk.as_mut();
            let (list, found) = match disk {
                Some(disk) => disk.end_level()?,
                None => (WordLog::default(), 0),
            };
            self.old += found;
            self.log.end_level();
            self.frontier = Frontier::List(list);
            return Ok(found);
        }
        let (from, end) = (self.level_from(), self.young.count());
        self.old += end - from;
        if self.keys.is_some() {
            self.frontier = Frontier::Range(0, 0);
            let young = std::mem::replace(&mut self.young, RecordTable::new(self.bounds.words));
            self.keep_keys(&young)?;
            self.frontier = Frontier::Records(young);
        } else {
            self.level_starts.push(end);
            self.frontier = Frontier::Range(from, end);
        }
        Ok(end - from)
    }

    /// Keeps the keys of a level, and the parents of its states.
    fn keep_keys(&mut self, level: &RecordTable) -> Result<()> {
        let mut missed = 0;
        for index in 0..level.count() {
            let (state, parent) = level.record(index);
            let key = self.key(state);
            let others = level.bytes() + self.young.bytes() + self.log.pairs.bytes();
            let room = self.bounds.max_bytes.saturating_sub(others);
            if let Some(keys) = &mut self.keys
                && keys.insert(key, room).is_none()
            {
                missed += 1;
            }
            let bytes = others + self.key_bytes() + self.log.pairs.bytes() / 8 + (32 << 10);
            if self.bounds.traces && (self.bounds.spill.is_some() || bytes < self.bounds.max_bytes)
            {
                self.log.push(key, parent)?;
            } else {
                missed += u64::from(self.bounds.traces);
            }
        }
        self.log.end_level();
        match &self.bounds.spill {
            Some(_) if missed > 0 => self.overflow_keys(level),
            // States without their keys are found again.
            _ => {
                self.lost += missed;
                Ok(())
            }
        }
    }

    /// Copies a state of the level that is expanded.
    ///
    /// # Errors
    /// Fails if it cannot be read from disk.
    pub fn level_state(&mut self, number: u64, to: &mut [u64]) -> Result<()> {
        debug_assert!(
            number < self.level_states() && to.len() == self.bounds.words,
            "a state of the level"
        );
        let state = match &mut self.frontier {
            Frontier::Range(first, _) => self.young.record(*first + number).0,
            Frontier::Records(table) => table.record(number).0,
            Frontier::List(list) => return list.read(number * to.len() as u64, to),
        };
        to.copy_from_slice(state);
        Ok(())
    }

    /// Returns the key of the state from which the state with a key was reached in `level` steps,
    /// or in any: 0 for start states; `None` if no such state is here.
    ///
    /// # Errors
    /// Fails if it cannot be read from disk.
    pub fn parent(&mut self, key: u64, level: Option<u64>) -> Result<Option<u64>> {
        if self.keys.is_none()
            && self.disk.is_none()
            && let Some(index) = self.young.find_key(key)
            && index >= self.logged
        {
            return Ok(Some(self.young.record(index).1));
        }
        self.log.find(level, key)
    }

    /// Returns the words of a state that its key does not stand for.
    fn identity<'a>(&self, state: &'a [u64]) -> &'a [u64] {
        if self.bounds.compact.is_some() { &[] } else { state }
    }

    /// Makes room for young states. Returns false if there is none.
    fn make_room(&mut self) -> Result<bool> {
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
    fn overflow_keys(&mut self, level: &RecordTable) -> Result<()> {
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
    fn resolve(&mut self) -> Result<()> {
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

#[cfg(test)]
mod tests;
