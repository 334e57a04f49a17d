//! States on disk: sorted runs, as in a log-structured merge tree. A run is searched for many
//! states at a time, in their order, so that none costs an access of its own where many come.

use crate::murphi::store::word_log::WordLog;
use std::cmp::Ordering;
use std::io::Result;
use std::path::PathBuf;

/// Records between two whose keys are in memory.
const STRIDE: u64 = 512;

/// A run: records of a key, the words of a state, and the level that it was found in.
#[derive(Debug)]
struct SortedRun {
    log: WordLog,
    records: u64,
    /// Key of each record whose number is a multiple of [`STRIDE`].
    firsts: Vec<u64>,
    /// First record that the next search has to look at.
    cursor: u64,
}

/// Runs of states.
#[derive(Debug)]
pub struct SortedRuns {
    folder: PathBuf,
    /// Words of a state behind its key.
    words: usize,
    runs: Vec<SortedRun>,
}

impl SortedRun {
    fn new(folder: &std::path::Path) -> Result<Self> {
        Ok(Self { log: WordLog::new(Some(folder))?, records: 0, firsts: Vec::new(), cursor: 0 })
    }

    fn push(&mut self, record: &[u64]) -> Result<()> {
        if self.records.is_multiple_of(STRIDE) {
            self.firsts.extend(record.first());
        }
        self.records += 1;
        self.log.push(record)
    }

    fn read(&mut self, at: u64, record: &mut [u64]) -> Result<()> {
        debug_assert!(at < self.records, "record {at} is in this run");
        self.log.read(at * record.len() as u64, record)
    }

    /// Returns the level that a state was found in, if it is in this run. States come in order.
    fn find(&mut self, key: u64, state: &[u64], record: &mut [u64]) -> Result<Option<u64>> {
        let block = self.firsts.partition_point(|first| *first < key) as u64;
        self.cursor = self.cursor.max(block.saturating_sub(1) * STRIDE);
        while self.cursor < self.records {
            self.read(self.cursor, record)?;
            let (level, here) = record.split_last().map_or((0, &[][..]), |(l, r)| (*l, r));
            let (here_key, here_state) = here.split_first().map_or((0, &[][..]), |(k, s)| (*k, s));
            match here_key.cmp(&key).then_with(|| here_state.cmp(state)) {
                Ordering::Less => self.cursor += 1,
                Ordering::Equal => return Ok(Some(level)),
                Ordering::Greater => return Ok(None),
            }
        }
        Ok(None)
    }
}

impl SortedRuns {
    /// Creates an empty set of states of so many words behind their keys.
    pub fn new(folder: PathBuf, words: usize) -> Self {
        Self { folder, words, runs: Vec::new() }
    }

    /// Returns the number of states.
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.records).sum()
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        let of = |run: &SortedRun| run.log.bytes() + 8 * run.firsts.capacity() as u64;
        self.runs.iter().map(of).sum()
    }

    /// Returns the bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.log.disk_bytes()).sum()
    }

    /// Begins a search for states in order.
    pub fn rewind(&mut self) {
        self.runs.iter_mut().for_each(|run| run.cursor = 0);
    }

    /// Returns the level that a state was found in, if it is here.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn find(&mut self, key: u64, state: &[u64]) -> Result<Option<u64>> {
        debug_assert_eq!(state.len(), self.words, "a state");
        let mut record = vec![0; self.words + 2];
        for run in &mut self.runs {
            let found = run.find(key, state, &mut record)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Adds a run: `records` calls a function with each record, in order, none of which is here.
    ///
    /// # Errors
    /// Fails if the disk is full, or as `records` does.
    pub fn add(
        &mut self,
        records: impl FnOnce(&mut dyn FnMut(&[u64]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut run = SortedRun::new(&self.folder)?;
        records(&mut |record| run.push(record))?;
        if run.records > 0 {
            self.runs.push(run);
        }
        self.merge_small()
    }

    /// Merges runs until each has twice the records of the next one.
    fn merge_small(&mut self) -> Result<()> {
        let is_small = |runs: &[SortedRun]| match runs {
            [.., a, b] => a.records < 2 * b.records,
            _ => false,
        };
        while is_small(&self.runs) {
            let (Some(mut b), Some(mut a)) = (self.runs.pop(), self.runs.pop()) else { break };
            let merged = self.merge(&mut a, &mut b)?;
            debug_assert_eq!(merged.records, a.records + b.records, "each record is kept");
            self.runs.push(merged);
        }
        Ok(())
    }

    fn merge(&self, a: &mut SortedRun, b: &mut SortedRun) -> Result<SortedRun> {
        let mut merged = SortedRun::new(&self.folder)?;
        let size = self.words + 2;
        let (mut left, mut right) = (vec![0; size], vec![0; size]);
        let (mut i, mut j) = (0, 0);
        let next = |run: &mut SortedRun, at: u64, to: &mut [u64]| {
            if at < run.records { run.read(at, to) } else { Ok(()) }
        };
        next(a, 0, &mut left)?;
        next(b, 0, &mut right)?;
        while i < a.records || j < b.records {
            if j == b.records || (i < a.records && left < right) {
                merged.push(&left)?;
                i += 1;
                next(a, i, &mut left)?;
            } else {
                merged.push(&right)?;
                j += 1;
                next(b, j, &mut right)?;
            }
        }
        Ok(merged)
    }

    /// Calls a function with the key and the words of each state.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or as the function does.
    pub fn each(&mut self, mut each: impl FnMut(u64, &[u64]) -> Result<()>) -> Result<()> {
        let mut record = vec![0; self.words + 2];
        for run in &mut self.runs {
            for at in 0..run.records {
                run.read(at, &mut record)?;
                if let [key, state @ .., _] = &record[..] {
                    each(*key, state)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::SortedRuns;
    use crate::murphi::store::keys::fingerprint;
    use std::collections::BTreeMap;

    #[test]
    fn states_of_all_runs_are_found() {
        let mut runs = SortedRuns::new(std::env::temp_dir(), 1);
        let mut model = BTreeMap::new();
        for level in 0..9_u64 {
            let count = [3000, 1, 700, 0, 5, 4000, 20, 21, 900][level as usize];
            // A few keys are those of several states.
            let state = |it: u64| (fingerprint(&[it]) >> 50 << 50, level << 32 | it);
            let these: BTreeMap<_, _> = (0..count).map(|it| (state(it), level)).collect();
            runs.add(|push| {
                these.iter().try_for_each(|((key, state), level)| push(&[*key, *state, *level]))
            })
            .unwrap();
            model.extend(these);
        }
        assert_eq!(runs.count(), model.len() as u64);
        assert!(runs.runs.len() < 5, "small runs are merged");
        for absent in [0, 1 << 60] {
            runs.rewind();
            for ((key, state), level) in &model {
                let found = runs.find(*key, &[absent | *state]).unwrap();
                assert_eq!(found, (absent == 0).then_some(*level));
            }
        }
        let mut all = 0;
        runs.each(|key, state| {
            assert!(model.contains_key(&(key, state[0])));
            all += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(all, model.len());
    }
}
