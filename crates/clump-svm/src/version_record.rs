//! Versions of pages in a fixed number of words: in memory that a node's ranks share with its
//! interface, and behind a page that a rank has fetched.

use clump_hlrc::PageVersion;
use clump_os::sync::{AtomicU64, Ordering};

/// Words of a record: as many writers as a page has at most whose version fits.
pub(crate) const RECORD_WORDS: usize = 7;
/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 8 * RECORD_WORDS;

/// Version of a page that few nodes have written. Needs no memory but its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct VersionRecord {
    /// Writer, and its last interval in the lower half; 0 for none.
    writers: [u64; RECORD_WORDS],
}

impl VersionRecord {
    /// Returns the record of a version; none if it has too many writers.
    pub(crate) fn of(version: &PageVersion) -> Option<Self> {
        let mut record = Self::default();
        let all = version.writers();
        for (place, &(writer, interval)) in record.writers.get_mut(..all.len())?.iter_mut().zip(all)
        {
            *place = u64::from(writer) << 32 | u64::from(interval);
        }
        Some(record)
    }

    fn entries(&self) -> impl Iterator<Item = (u64, u32)> {
        let used = self.writers.iter().filter(|&&entry| entry as u32 != 0);
        used.map(|&entry| (entry >> 32, entry as u32))
    }

    /// Returns the version, of a job of `nodes` nodes. The record is not trusted.
    pub(crate) fn version(&self, nodes: u16) -> Option<PageVersion> {
        let mut version = PageVersion::default();
        for (writer, interval) in self.entries() {
            let writer = u16::try_from(writer).ok().filter(|&writer| writer < nodes)?;
            version.raise(writer, interval);
        }
        Some(version)
    }

    /// Returns true if every interval of `other` is contained.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let last = |writer| self.entries().find(|entry| entry.0 == writer).map_or(0, |e| e.1);
        other.entries().all(|(writer, interval)| last(writer) >= interval)
    }

    /// Writes the record into shared words; what publishes them publishes it.
    pub(crate) fn store(&self, words: &[AtomicU64]) {
        debug_assert!(words.len() >= RECORD_WORDS, "there is room");
        words
            .iter()
            .zip(self.writers)
            .for_each(|(word, entry)| word.store(entry, Ordering::Relaxed));
    }

    /// Reads a record from shared words.
    pub(crate) fn load(words: &[AtomicU64]) -> Self {
        debug_assert!(words.len() >= RECORD_WORDS, "there is one");
        let mut writers = [0; RECORD_WORDS];
        let pairs = writers.iter_mut().zip(words);
        pairs.for_each(|(entry, word)| *entry = word.load(Ordering::Relaxed));
        Self { writers }
    }

    /// Returns the record as bytes of an answer.
    pub(crate) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let (places, _) = bytes.as_chunks_mut::<8>();
        places.iter_mut().zip(self.writers).for_each(|(to, entry)| *to = entry.to_le_bytes());
        bytes
    }

    /// Reads what [`VersionRecord::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let mut writers = [0; RECORD_WORDS];
        let (chunks, _) = bytes.as_chunks::<8>();
        writers.iter_mut().zip(chunks).for_each(|(entry, from)| *entry = u64::from_le_bytes(*from));
        Self { writers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(entries: &[(u16, u32)]) -> VersionRecord {
        let mut version = PageVersion::default();
        entries.iter().for_each(|&(writer, interval)| version.raise(writer, interval));
        VersionRecord::of(&version).unwrap()
    }

    #[test]
    fn a_record_covers_what_its_version_covers() {
        let all = [record(&[]), record(&[(0, 3)]), record(&[(0, 4), (7, 1)]), record(&[(7, 2)])];
        for one in &all {
            for other in &all {
                let (own, theirs) = (one.version(8).unwrap(), other.version(8).unwrap());
                assert_eq!(one.covers(other), own.covers(&theirs), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let written = record(&[(0, 1), (3, u32::MAX), (65_000, 7)]);
        let words: Vec<_> = (0..RECORD_WORDS).map(|_| AtomicU64::new(1)).collect();
        written.store(&words);
        assert_eq!(VersionRecord::load(&words), written);
        assert_eq!(VersionRecord::from_bytes(&written.to_bytes()), written);
        assert_eq!(written.version(65_000), None, "no such node");
        assert_eq!(VersionRecord::of(&written.version(u16::MAX).unwrap()), Some(written));
    }

    #[test]
    fn a_version_of_many_writers_has_no_record() {
        let mut version = PageVersion::default();
        (0..RECORD_WORDS as u16).for_each(|writer| version.raise(writer, 1));
        assert!(VersionRecord::of(&version).is_some());
        version.raise(100, 1);
        assert_eq!(VersionRecord::of(&version), None);
    }
}
