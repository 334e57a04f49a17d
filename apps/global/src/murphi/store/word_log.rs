//! An append-only list of words: in memory, or in a file that has no name.

use clump_os::file::DiskFile;
use std::io::{Error, Result};
use std::path::Path;
use zerocopy::IntoBytes;

/// Words of a write to a file, and of a read.
const BLOCK_WORDS: usize = 1 << 11;

/// A file that disappears with its descriptor.
///
/// # Errors
/// Fails if the folder cannot be written.
pub fn unnamed_file(folder: &Path) -> Result<DiskFile> {
    let failed = |error: clump_os::error::OsError| Error::other(format!("{error}"));
    if let Some(file) = DiskFile::unnamed(folder, false).map_err(failed)? {
        return Ok(file);
    }
    let path = folder.join(format!("murphi-{}-{}", std::process::id(), clump_os::clock::now_ns()));
    let file = DiskFile::create(&path, false).map_err(failed)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Words in the order in which they were appended.
#[derive(Debug, Default)]
pub struct WordLog {
    file: Option<DiskFile>,
    /// Words in the file.
    written: u64,
    /// Words behind them.
    tail: Vec<u64>,
    /// Words of the file that were read last, and the first one's number.
    block: Vec<u64>,
    block_at: u64,
}

impl WordLog {
    /// Creates an empty list; in a folder, most of it will be in a file there.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn new(folder: Option<&Path>) -> Result<Self> {
        let file = folder.map(unnamed_file).transpose()?;
        Ok(Self { file, ..Self::default() })
    }

    /// Returns the number of words.
    pub fn len(&self) -> u64 {
        self.written + self.tail.len() as u64
    }

    /// Returns true without words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory in use.
    pub fn bytes(&self) -> u64 {
        8 * (self.tail.capacity() + self.block.capacity()) as u64
    }

    /// Returns the bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        8 * self.written
    }

    /// Appends words.
    ///
    /// # Errors
    /// Fails if the disk or the memory is full.
    pub fn push(&mut self, words: &[u64]) -> Result<()> {
        if self.tail.len() + words.len() > self.tail.capacity() {
            let more = words.len() + 1024 + self.tail.len() / 8;
            self.tail.try_reserve_exact(more).map_err(Error::other)?;
        }
        self.tail.extend_from_slice(words);
        if self.file.is_some() && self.tail.len() >= BLOCK_WORDS { self.write() } else { Ok(()) }
    }

    /// Writes what is in memory to the file.
    fn write(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        debug_assert!(!self.tail.is_empty(), "there is something to write");
        file.write_at(self.tail.as_bytes(), 8 * self.written)
            .map_err(|error| Error::other(format!("{error}")))?;
        self.written += self.tail.len() as u64;
        self.tail.clear();
        Ok(())
    }

    /// Moves all words to a file in a folder.
    ///
    /// # Errors
    /// Fails if the disk is full.
    pub fn spill(&mut self, folder: &Path) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        self.file = Some(unnamed_file(folder)?);
        if !self.tail.is_empty() {
            self.write()?;
        }
        self.tail.shrink_to(BLOCK_WORDS);
        Ok(())
    }

    /// Copies words from number `at` on.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or ends before.
    pub fn read(&mut self, at: u64, to: &mut [u64]) -> Result<()> {
        debug_assert!(at + to.len() as u64 <= self.len(), "words that were appended");
        for (word, at) in to.iter_mut().zip(at..) {
            *word = self.word(at)?;
        }
        Ok(())
    }

    fn word(&mut self, at: u64) -> Result<u64> {
        let short = || Error::other("a file of states ends before its end");
        if at >= self.written {
            return self.tail.get((at - self.written) as usize).copied().ok_or_else(short);
        }
        let inside = at.wrapping_sub(self.block_at);
        if let Some(&word) = self.block.get(inside as usize) {
            return Ok(word);
        }
        self.block_at = at / BLOCK_WORDS as u64 * BLOCK_WORDS as u64;
        let count = BLOCK_WORDS.min((self.written - self.block_at) as usize);
        self.block.clear();
        self.block.resize(count, 0);
        let file = self.file.as_ref().ok_or_else(short)?;
        let read = file
            .read_at(self.block.as_mut_bytes(), 8 * self.block_at)
            .map_err(|error| Error::other(format!("{error}")))?;
        if read < 8 * count {
            self.block.clear();
            return Err(short());
        }
        self.block.get((at - self.block_at) as usize).copied().ok_or_else(short)
    }
}

/// Parents of states, by level: pairs of a state's key and its parent's.
#[derive(Debug, Default)]
pub struct LevelLog {
    /// The pairs.
    pub pairs: WordLog,
    /// Words before the end of each level.
    pub ends: Vec<u64>,
}

impl LevelLog {
    /// Creates an empty list; in a folder, most of it will be in a file there.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn new(folder: Option<&Path>) -> Result<Self> {
        Ok(Self { pairs: WordLog::new(folder)?, ends: Vec::new() })
    }

    /// Appends the parent of a state of the level that is being found.
    ///
    /// # Errors
    /// Fails if the disk or the memory is full.
    pub fn push(&mut self, key: u64, parent: u64) -> Result<()> {
        self.pairs.push(&[key, parent])
    }

    /// Ends a level.
    pub fn end_level(&mut self) {
        self.ends.push(self.pairs.len());
    }

    /// Returns the lowest parent of a state in a level, or in the first one that has it.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn find(&mut self, level: Option<u64>, key: u64) -> Result<Option<u64>> {
        let (first, last) = match level {
            Some(level) => (level as usize, level as usize),
            None => (0, self.ends.len()),
        };
        for level in first..=last {
            let begin = level.checked_sub(1).map_or(Some(0), |it| self.ends.get(it).copied());
            let Some(begin) = begin else { return Ok(None) };
            let end = self.ends.get(level).copied().unwrap_or(self.pairs.len());
            let mut found: Option<u64> = None;
            let mut pair = [0; 2];
            for at in (begin..end).step_by(2) {
                self.pairs.read(at, &mut pair)?;
                if pair[0] == key {
                    found = Some(found.map_or(pair[1], |known| known.min(pair[1])));
                }
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::{LevelLog, WordLog};

    #[test]
    fn words_are_read_where_they_were_appended() {
        let folder = std::env::temp_dir();
        for place in [None, Some(folder.as_path())] {
            let mut log = WordLog::new(place).unwrap();
            for word in (0..50_000).step_by(2) {
                log.push(&[word, word + 1]).unwrap();
            }
            if place.is_none() {
                log.spill(&folder).unwrap();
            }
            log.push(&[50_000]).unwrap();
            assert!(log.disk_bytes() > 380_000 && log.bytes() < 300_000, "{}", log.bytes());
            for at in [0, 8190, 8191, 8192, 30_000, 49_998] {
                let mut words = [0; 3];
                log.read(at, &mut words).unwrap();
                assert_eq!(words, [at, at + 1, at + 2]);
            }
        }
    }

    #[test]
    fn parents_are_found_by_level() {
        let mut log = LevelLog::new(None).unwrap();
        log.push(5, 0).unwrap();
        log.end_level();
        for parent in [9, 5, 7] {
            log.push(6, parent).unwrap();
        }
        log.end_level();
        log.end_level();
        assert_eq!(log.find(Some(1), 6).unwrap(), Some(5));
        assert_eq!(log.find(Some(0), 6).unwrap(), None);
        assert_eq!(log.find(Some(7), 6).unwrap(), None);
        assert_eq!(log.find(None, 6).unwrap(), Some(5));
        assert_eq!(log.find(None, 5).unwrap(), Some(0));
    }
}
