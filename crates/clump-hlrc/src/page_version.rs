//! Versions of pages: which intervals of which writers a copy contains.

use crate::varint::{ByteReader, DecodeError, push_u32};

/// Last interval of each writer whose bytes a copy of a page contains, or must contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageVersion {
    /// Writers in ascending order; no entry is 0.
    writers: Vec<(u16, u32)>,
}

impl PageVersion {
    /// Returns true if the page was never written.
    pub fn is_initial(&self) -> bool {
        self.writers.is_empty()
    }

    /// Returns the writers, in ascending order, and the last interval of each.
    pub fn writers(&self) -> &[(u16, u32)] {
        &self.writers
    }

    /// Returns the last interval of `writer`; 0 is none.
    pub fn get(&self, writer: u16) -> u32 {
        match self.writers.binary_search_by_key(&writer, |entry| entry.0) {
            Ok(at) => self.writers[at].1,
            Err(_) => 0,
        }
    }

    /// Makes the last interval of `writer` at least `interval`.
    pub fn raise(&mut self, writer: u16, interval: u32) {
        debug_assert!(interval > 0, "intervals count from 1");
        match self.writers.binary_search_by_key(&writer, |entry| entry.0) {
            Ok(at) => self.writers[at].1 = self.writers[at].1.max(interval),
            Err(at) => self.writers.insert(at, (writer, interval)),
        }
        debug_assert!(self.writers.is_sorted_by(|a, b| a.0 < b.0), "writers ascend");
    }

    /// Takes the later interval of each writer.
    pub fn join(&mut self, other: &Self) {
        for &(writer, interval) in &other.writers {
            self.raise(writer, interval);
        }
    }

    /// Returns true if every interval of `other` is contained.
    pub fn covers(&self, other: &Self) -> bool {
        other.writers.iter().all(|&(writer, interval)| self.get(writer) >= interval)
    }

    /// Appends all entries.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.writers.len() <= 1 << 16, "one entry a node");
        push_u32(out, self.writers.len() as u32);
        let mut next = 0;
        for &(writer, interval) in &self.writers {
            debug_assert!(u32::from(writer) >= next && interval > 0, "entries ascend");
            push_u32(out, u32::from(writer) - next);
            push_u32(out, interval);
            next = u32::from(writer) + 1;
        }
    }

    /// Takes a version that [`PageVersion::encode`] wrote, of a job of `nodes` nodes.
    ///
    /// # Errors
    /// Fails if the bytes are no such version.
    pub fn decode(nodes: usize, from: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let mut version = Self::default();
        let count = from.take_u32()? as usize;
        if count > nodes {
            return Err(DecodeError::OutOfRange);
        }
        let mut next = 0_usize;
        for _ in 0..count {
            let writer = next + from.take_u32()? as usize;
            let interval = from.take_u32()?;
            if writer >= nodes || interval == 0 {
                return Err(DecodeError::OutOfRange);
            }
            version.writers.push((writer as u16, interval));
            next = writer + 1;
        }
        debug_assert!(version.writers.is_sorted_by(|a, b| a.0 < b.0), "writers ascend");
        debug_assert!(version.writers.len() == count && next <= nodes);
        Ok(version)
    }
}
