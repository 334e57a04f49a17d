//! The input: one or more files of whole records, taken as one sequence in the order given.

use crate::lanes::FileRange;
use crate::record::{MAX_RECORDS, RECORD};
use anyhow::{Context, Result, bail};
use clump_os::file::DiskFile;
use std::path::PathBuf;
use std::sync::Arc;

/// Open input files and the number of records of each.
#[derive(Debug)]
pub struct Input {
    files: Vec<(Arc<DiskFile>, u64)>,
}

impl Input {
    /// Opens `paths`; every file must hold whole records. No file at all is an empty input.
    ///
    /// # Errors
    /// Fails if a file cannot be opened or does not hold whole records.
    pub fn open(paths: &[PathBuf], direct: bool) -> Result<Self> {
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let name = path.display();
            if path.is_dir() {
                bail!("{name} is a folder: --input takes files of {RECORD}-byte records");
            }
            let file = DiskFile::open(path, direct)
                .context("the input cannot be read: check its name and its permissions")?;
            let bytes = file.len()?;
            if !bytes.is_multiple_of(RECORD as u64) {
                bail!(
                    "{name} has {bytes} bytes, {} more than whole records of {RECORD}: it is cut off or \
                     is not in gensort's format",
                    bytes % RECORD as u64
                );
            }
            files.push((Arc::new(file), bytes / RECORD as u64));
        }
        let input = Self { files };
        if input.records() >= MAX_RECORDS {
            bail!("one sort takes at most 2^48 records");
        }
        Ok(input)
    }

    /// Returns the number of records in all files.
    pub fn records(&self) -> u64 {
        self.files.iter().map(|(_, records)| records).sum()
    }

    /// Returns the first record of part `part` of `parts`, and its number of records.
    pub fn part(&self, part: usize, parts: usize) -> (u64, u64) {
        let cut = |i: usize| (u128::from(self.records()) * i as u128 / parts.max(1) as u128) as u64;
        (cut(part), cut(part + 1) - cut(part))
    }

    /// Returns the file ranges of `count` records from record `first` on.
    pub fn pieces(&self, first: u64, count: u64) -> Vec<FileRange> {
        let (mut skip, mut left) = (first, count);
        let mut pieces = Vec::new();
        for (file, records) in &self.files {
            if skip < *records && left > 0 {
                let take = left.min(records - skip);
                pieces.push(FileRange {
                    file: file.clone(),
                    offset: skip * RECORD as u64,
                    bytes: take * RECORD as u64,
                });
                left -= take;
            }
            skip = skip.saturating_sub(*records);
        }
        pieces
    }

    /// Returns true if reads bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.files.iter().all(|(file, _)| file.is_direct())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_files_without_gap_or_overlap() {
        let dir = crate::test_dir("input");
        let sizes = [700usize, 0, 100, 2500];
        let paths: Vec<PathBuf> = sizes
            .iter()
            .enumerate()
            .map(|(i, bytes)| {
                let path = dir.join(format!("{i}"));
                std::fs::write(&path, vec![0; *bytes]).unwrap();
                path
            })
            .collect();
        let input = Input::open(&paths, true).unwrap();
        assert_eq!(input.records(), 33);
        for parts in 1..40 {
            let mut total = 0;
            for part in 0..parts {
                let (first, count) = input.part(part, parts);
                assert_eq!(first * 100, total);
                let pieces = input.pieces(first, count);
                assert_eq!(pieces.iter().map(|p| p.bytes).sum::<u64>(), count * 100);
                total += count * 100;
            }
            assert_eq!(total, 3300);
        }
        let middle = input.pieces(6, 3);
        let at: Vec<_> = middle.iter().map(|p| (p.offset, p.bytes)).collect();
        assert_eq!(at, [(600, 100), (0, 100), (0, 100)]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn bad_inputs_are_told_apart() {
        let dir = crate::test_dir("input-bad");
        std::fs::write(dir.join("cut"), [0; 150]).unwrap();
        let told = |path: PathBuf| format!("{:#}", Input::open(&[path], true).unwrap_err());
        assert!(told(dir.join("cut")).contains("50 more than whole records"));
        assert!(told(dir.join("none")).contains("No such file"));
        assert!(told(dir.clone()).contains("is a folder"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
