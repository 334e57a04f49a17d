//! States that a rank owns, each once, with the key of the state that it was reached from: the
//! lowest one of those that reach it in the fewest steps.
//!
//! States of the level that is being found are in a [`RecordTable`]. Those of earlier levels are
//! there, too; or, with hash compaction, their keys in a [`KeySet`]; or, once memory is full, on
//! disk as [`SortedRuns`]. On disk they are looked up for many states at a time: states of a level
//! stay in memory as candidates until then.

pub mod key_set;
pub mod record_table;
pub mod sorted_runs;
pub mod word_log;

mod overflow;
pub mod persist;

use self::key_set::KeySet;
use self::overflow::DiskStates;
use self::record_table::{AddedRecord, RecordTable};
use self::word_log::{LevelLog, WordLog};
use std::io::Result;
use std::path::PathBuf;

/// Returns a number that differs for different words, but by chance. It is neither 0 nor the
/// largest one.
pub fn fingerprint(words: &[u64]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ words.len() as u64;
    for word in words {
        hash = mix(hash ^ word, 0xd6e8_feb8_6659_fd93);
        hash ^= word.rotate_left(29);
    }
    mix(hash, 0xa076_1d64_78bd_642f).clamp(1, u64::MAX - 1)
}

/// Multiplies, and folds both halves of the product.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x2545_f491_4f6c_dd1d) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Returns the rank that owns the state with a key.
pub fn owner(key: u64, ranks: usize) -> usize {
    let spread = mix(key, 0xe703_7ed1_a0b4_28db) >> 32;
    ((spread * ranks as u64) >> 32) as usize
}

/// Bounds of a rank's states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreBounds {
    /// Words of a state.
    pub words: usize,
    /// Bits of a key that stands for its state.
    pub compact: Option<u32>,
    /// Bytes of memory.
    pub max_bytes: u64,
    /// Folder for what memory has no room for.
    pub spill: Option<PathBuf>,
    /// False if no parents are kept: then there is no path to an error.
    pub traces: bool,
}

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
}

/// Returns a key of as many bits as are kept.
fn short_key(bounds: &StoreBounds, print: u64) -> u64 {
    match bounds.compact {
        Some(bits) if bits < 64 => (print >> (64 - bits)).max(1),
        _ => print,
    }
}

#[cfg(test)]
mod tests;
