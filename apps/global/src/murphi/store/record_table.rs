//! A table of whole states, each with its parent's key, in the order in which they were added.

use crate::murphi::store::keys::fingerprint;

/// Records of a chunk.
pub const CHUNK: usize = 1 << 12;
/// Bits of a slot's index; the others are a part of the key.
pub const INDEX_BITS: u32 = 40;
/// Slots of an empty table.
const MIN_SLOTS: usize = 1 << 12;

/// States and parents.
#[derive(Debug)]
pub struct RecordTable {
    words: usize,
    chunks: Vec<Vec<u64>>,
    slots: Vec<u64>,
    count: u64,
}

/// Result of adding a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddedRecord {
    /// It is new.
    New,
    /// It is here, at this index.
    Known(u64),
    /// There is no memory for it.
    Full,
}

impl RecordTable {
    /// Bytes of an empty table.
    pub const EMPTY_BYTES: u64 = 8 * MIN_SLOTS as u64;

    /// Creates a table of states of so many words.
    pub fn new(words: usize) -> Self {
        debug_assert!(words > 0, "a state has bits");
        Self { words, chunks: Vec::new(), slots: vec![0; MIN_SLOTS], count: 0 }
    }

    /// Returns the number of states.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes in use.
    pub fn bytes(&self) -> u64 {
        8 * (self.slots.len() + self.chunks.len() * CHUNK * (self.words + 1)) as u64
    }

    /// Returns a state and its parent's key.
    pub fn record(&self, index: u64) -> (&[u64], u64) {
        let (chunk, at) = (index as usize / CHUNK, index as usize % CHUNK);
        let size = self.words + 1;
        let records = self.chunks.get(chunk).map_or(&[][..], Vec::as_slice);
        let record = records.get(at * size..(at + 1) * size).unwrap_or_default();
        debug_assert_eq!(record.len(), size, "record {index} is here");
        record.split_last().map_or((&[], 0), |(parent, state)| (state, *parent))
    }

    /// Returns the index of a state.
    pub fn find(&self, key: u64, state: &[u64]) -> Option<u64> {
        self.search(key, |record| record == state).ok()
    }

    /// Returns the index of the state with a key.
    pub fn find_key(&self, key: u64) -> Option<u64> {
        self.search(key, |record| fingerprint(record) == key).ok()
    }

    fn home(&self, key: u64) -> usize {
        (key >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    fn search(&self, key: u64, is_it: impl Fn(&[u64]) -> bool) -> Result<u64, usize> {
        let (mask, mut slot) = (self.slots.len() - 1, self.home(key));
        loop {
            match self.slots.get(slot).copied().unwrap_or(0) {
                0 => return Err(slot),
                found if found >> INDEX_BITS == tag(key) => {
                    let index = (found & ((1 << INDEX_BITS) - 1)) - 1;
                    if is_it(self.record(index).0) {
                        return Ok(index);
                    }
                }
                _ => (),
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Adds a state that may be here, if it has room in so many bytes.
    pub fn add(&mut self, key: u64, state: &[u64], parent: u64, max_bytes: u64) -> AddedRecord {
        debug_assert_eq!(state.len(), self.words, "a state");
        let mut slot = match self.search(key, |record| record == state) {
            Ok(index) => return AddedRecord::Known(index),
            Err(slot) => slot,
        };
        if (self.count + 1) as usize * 10 > self.slots.len() * 7 {
            if !self.grow(max_bytes) {
                return AddedRecord::Full;
            }
            slot = self.search(key, |_| false).err().unwrap_or(slot);
        }
        if self.count as usize == self.chunks.len() * CHUNK {
            let (mut chunk, words) = (Vec::new(), CHUNK * (self.words + 1));
            let fits = self.bytes() + 8 * words as u64 <= max_bytes;
            if !fits || chunk.try_reserve_exact(words).is_err() {
                return AddedRecord::Full;
            }
            self.chunks.push(chunk);
        }
        let Some(chunk) = self.chunks.last_mut() else { return AddedRecord::Full };
        chunk.extend_from_slice(state);
        chunk.push(parent);
        if let Some(to) = self.slots.get_mut(slot) {
            *to = tagged(key, self.count);
        }
        self.count += 1;
        AddedRecord::New
    }

    /// Keeps the lower of a state's parent and another.
    pub fn lower_parent(&mut self, index: u64, parent: u64) {
        let at = (index as usize % CHUNK + 1) * (self.words + 1) - 1;
        let known = self.chunks.get_mut(index as usize / CHUNK).and_then(|it| it.get_mut(at));
        if let Some(known) = known {
            *known = parent.min(*known);
        }
    }

    /// Doubles the slots. Returns false if there is no memory for it, and they are full.
    fn grow(&mut self, max_bytes: u64) -> bool {
        let more = self.slots.len() * 2;
        let mut slots = Vec::new();
        if self.bytes() + 8 * more as u64 > max_bytes
            || more as u64 >= 1 << INDEX_BITS
            || slots.try_reserve_exact(more).is_err()
        {
            // The rest can be used, up to nine tenths.
            return ((self.count + 1) as usize) * 10 < self.slots.len() * 9;
        }
        slots.resize(more, 0);
        self.slots = slots;
        for index in 0..self.count {
            let key = fingerprint(self.record(index).0);
            let slot = self.search(key, |_| false).err().unwrap_or(0);
            if let Some(to) = self.slots.get_mut(slot) {
                *to = tagged(key, index);
            }
        }
        true
    }

    /// Returns keys and indexes of all states, ordered by key and state.
    pub fn sorted(&self) -> Vec<(u64, u64)> {
        let with_key = |index| (fingerprint(self.record(index).0), index);
        let mut all: Vec<(u64, u64)> = (0..self.count).map(with_key).collect();
        all.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| self.record(a.1).0.cmp(self.record(b.1).0))
        });
        all
    }

    /// Removes all states, and keeps the memory of their slots.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        self.chunks.clear();
        self.count = 0;
    }
}

/// Returns the part of a key that a slot has: not the bits that choose the slot.
fn tag(key: u64) -> u64 {
    key & ((1 << (64 - INDEX_BITS)) - 1)
}

fn tagged(key: u64, index: u64) -> u64 {
    debug_assert!(index + 1 < 1 << INDEX_BITS, "an index that a slot can hold");
    tag(key) << INDEX_BITS | (index + 1)
}
