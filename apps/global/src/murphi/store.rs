//! States that a rank owns, in the order in which they were found; those of a level follow each
//! other, so the store is the queue as well.
//!
//! Each has the key of the state that it was reached from: the lowest one of those that reach it in
//! the fewest steps. With hash compaction the key of a state takes its place.

/// Records of a chunk.
const CHUNK: usize = 1 << 14;
/// Bits of a slot's index; the others are a part of the key.
const INDEX_BITS: u32 = 40;
/// Slots of an empty table.
const FEWEST_SLOTS: usize = 1 << 12;

/// Returns a number that differs for different words, but by chance. It is never 0.
pub fn fingerprint(words: &[u64]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ words.len() as u64;
    for word in words {
        hash = mix(hash ^ word, 0xd6e8_feb8_6659_fd93);
        hash ^= word.rotate_left(29);
    }
    mix(hash, 0xa076_1d64_78bd_642f).max(1)
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

/// States of a rank.
#[derive(Debug)]
pub struct StateStore {
    /// Words of a state.
    words: usize,
    /// Bits of a key that stands for its state.
    compact: Option<u32>,
    /// Records of a state, or of its key, and its parent's key.
    chunks: Vec<Vec<u64>>,
    table: Vec<u64>,
    count: u64,
    /// First record of the level that is being found.
    found_from: u64,
    /// First record of the level before.
    level_from: u64,
    /// States of the level that is being found, and of the level before, with compaction.
    queue: Vec<u64>,
    level: Vec<u64>,
    max_bytes: u64,
    /// States that there was no memory for.
    lost: u64,
}

impl StateStore {
    /// Creates a store of states of so many words in so much memory.
    pub fn new(words: usize, compact: Option<u32>, max_bytes: u64) -> Self {
        debug_assert!(words > 0, "a state has bits");
        let table = vec![0; FEWEST_SLOTS];
        let (chunks, queue, level) = (Vec::new(), Vec::new(), Vec::new());
        let (count, found_from, level_from, lost) = (0, 0, 0, 0);
        Self {
            words,
            compact,
            chunks,
            table,
            count,
            found_from,
            level_from,
            queue,
            level,
            max_bytes,
            lost,
        }
    }

    /// Returns the key of a state.
    pub fn key(&self, state: &[u64]) -> u64 {
        let key = fingerprint(state);
        match self.compact {
            Some(bits) if bits < 64 => (key & ((1 << bits) - 1)).max(1),
            _ => key,
        }
    }

    /// Returns the number of states.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the states of the level that is expanded.
    pub fn level_states(&self) -> u64 {
        self.found_from - self.level_from
    }

    /// Returns the states of the level that is being found.
    pub fn found(&self) -> u64 {
        self.count - self.found_from
    }

    /// Returns the states that there was no memory for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the bytes in use.
    pub fn bytes(&self) -> u64 {
        let chunks = self.chunks.len() * CHUNK * (self.record() + 1);
        8 * (self.table.len() + chunks + self.queue.capacity() + self.level.capacity()) as u64
    }

    fn record(&self) -> usize {
        if self.compact.is_some() { 1 } else { self.words }
    }

    fn record_at(&self, index: u64) -> &[u64] {
        let (chunk, at) = (index as usize / CHUNK, index as usize % CHUNK);
        let size = self.record() + 1;
        let records = self.chunks.get(chunk).map_or(&[][..], Vec::as_slice);
        records.get(at * size..(at + 1) * size).unwrap_or_default()
    }

    /// Begins the next level: states that were found are expanded.
    pub fn advance(&mut self) {
        self.level_from = self.found_from;
        self.found_from = self.count;
        self.level = std::mem::take(&mut self.queue);
    }

    /// Copies a state of the level that is expanded.
    pub fn level_state(&self, number: u64, to: &mut [u64]) {
        debug_assert!(
            number < self.level_states() && to.len() == self.words,
            "a state of the level"
        );
        let from = if self.compact.is_some() {
            self.level.get(number as usize * self.words..).unwrap_or_default()
        } else {
            self.record_at(self.level_from + number)
        };
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }

    /// Adds a state unless it is here, or counts it as lost for want of memory.
    pub fn insert(&mut self, state: &[u64], parent: u64) {
        debug_assert_eq!(state.len(), self.words, "a state");
        if (self.count + 1) as usize * 10 > self.table.len() * 7 && !self.grow() {
            self.lost += 1;
            return;
        }
        let key = self.key(state);
        let own = [key];
        let record = if self.compact.is_some() { &own[..] } else { state };
        let slot = match self.search(key, record) {
            Ok(index) => return self.reached_again(index, parent),
            Err(slot) => slot,
        };
        if !self.push(record, parent, state) {
            self.lost += 1;
            return;
        }
        if let Some(slot) = self.table.get_mut(slot) {
            *slot = tagged(key, self.count);
        }
        self.count += 1;
    }

    /// Finds a record, or the free slot for it.
    fn search(&self, key: u64, record: &[u64]) -> Result<u64, usize> {
        let mask = self.table.len() - 1;
        let mut slot = key as usize & mask;
        loop {
            match self.table.get(slot).copied().unwrap_or(0) {
                0 => return Err(slot),
                found if found >> INDEX_BITS == tag(key) => {
                    let index = (found & ((1 << INDEX_BITS) - 1)) - 1;
                    if self.record_at(index).starts_with(record) {
                        return Ok(index);
                    }
                }
                _ => (),
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Keeps the lowest of the parents that reach a state in the fewest steps.
    fn reached_again(&mut self, index: u64, parent: u64) {
        if index < self.found_from {
            return;
        }
        let size = self.record() + 1;
        let at = (index as usize % CHUNK + 1) * size - 1;
        let known = self.chunks.get_mut(index as usize / CHUNK).and_then(|it| it.get_mut(at));
        if let Some(known) = known {
            *known = parent.min(*known);
        }
    }

    /// Appends a record. Returns false if there is no memory for it.
    fn push(&mut self, record: &[u64], parent: u64, state: &[u64]) -> bool {
        let chunk_words = CHUNK * (self.record() + 1);
        if self.count as usize == self.chunks.len() * CHUNK {
            let mut chunk = Vec::new();
            if !self.fits(chunk_words) || chunk.try_reserve_exact(chunk_words).is_err() {
                return false;
            }
            self.chunks.push(chunk);
        }
        if self.compact.is_some() && self.queue.capacity() < self.queue.len() + self.words {
            let more = self.queue.len().max(CHUNK) + self.words;
            if !self.fits(more) || self.queue.try_reserve_exact(more).is_err() {
                return false;
            }
        }
        let Some(chunk) = self.chunks.last_mut() else { return false };
        chunk.extend_from_slice(record);
        chunk.push(parent);
        if self.compact.is_some() {
            self.queue.extend_from_slice(state);
        }
        true
    }

    fn fits(&self, words: usize) -> bool {
        self.bytes() + 8 * words as u64 <= self.max_bytes
    }

    /// Doubles the table. Returns false if there is no memory for it, and the table is full.
    fn grow(&mut self) -> bool {
        let slots = self.table.len() * 2;
        let mut table = Vec::new();
        if !self.fits(slots)
            || slots as u64 >= 1 << INDEX_BITS
            || table.try_reserve_exact(slots).is_err()
        {
            // The rest of the table can be used, up to nine tenths.
            return ((self.count + 1) as usize) * 10 < self.table.len() * 9;
        }
        table.resize(slots, 0);
        for index in 0..self.count {
            let key = self.record_key(index);
            let mut slot = key as usize & (slots - 1);
            while table.get(slot).is_some_and(|it| *it != 0) {
                slot = (slot + 1) & (slots - 1);
            }
            if let Some(slot) = table.get_mut(slot) {
                *slot = tagged(key, index);
            }
        }
        self.table = table;
        true
    }

    fn record_key(&self, index: u64) -> u64 {
        let record = self.record_at(index);
        let record = record.get(..self.record()).unwrap_or_default();
        match (self.compact, record.first()) {
            (Some(_), Some(key)) => *key,
            _ => fingerprint(record),
        }
    }

    /// Returns the key of the state from which the state with a key was reached: 0 for start
    /// states; `None` if no such state is here.
    pub fn parent(&self, key: u64) -> Option<u64> {
        let mask = self.table.len() - 1;
        let mut slot = key as usize & mask;
        loop {
            let found = self.table.get(slot).copied().unwrap_or(0);
            if found == 0 {
                return None;
            }
            let index = (found & ((1 << INDEX_BITS) - 1)) - 1;
            if found >> INDEX_BITS == tag(key) && self.record_key(index) == key {
                return self.record_at(index).last().copied();
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// Returns the part of a key that a slot has: no bits that choose the slot in small tables.
fn tag(key: u64) -> u64 {
    mix(key, 0x8ebc_6af0_9c88_c6e3) >> INDEX_BITS
}

fn tagged(key: u64, index: u64) -> u64 {
    debug_assert!(index + 1 < 1 << INDEX_BITS, "an index that a slot can hold");
    tag(key) << INDEX_BITS | (index + 1)
}

#[cfg(test)]
mod tests {
    use super::{StateStore, owner};

    fn filled(compact: Option<u32>, states: u64, max_bytes: u64) -> StateStore {
        let mut store = StateStore::new(2, compact, max_bytes);
        for state in 0..states {
            store.insert(&[state, 7], state + 5);
            store.insert(&[state, 7], state + 3);
        }
        store
    }

    #[test]
    fn a_state_is_kept_once_with_its_lowest_parent() {
        for compact in [None, Some(64)] {
            let mut store = filled(compact, 20_000, 1 << 30);
            assert_eq!((store.count(), store.lost()), (20_000, 0));
            store.advance();
            store.insert(&[9, 7], 0);
            store.insert(&[9, 8], 4);
            assert_eq!((store.level_states(), store.found()), (20_000, 1));
            assert_eq!(store.parent(store.key(&[9, 7])), Some(12));
            assert_eq!(store.parent(store.key(&[9, 8])), Some(4));
            assert_eq!(store.parent(store.key(&[9, 9])), None);
            let mut state = [0; 2];
            store.level_state(19_999, &mut state);
            assert_eq!(state, [19_999, 7]);
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        for compact in [None, Some(64)] {
            let store = filled(compact, 100_000, 2 << 20);
            assert!(store.lost() > 0 && store.bytes() <= 2 << 20, "{}", store.bytes());
        }
    }

    #[test]
    fn short_keys_omit_states() {
        let store = filled(Some(8), 20_000, 1 << 30);
        assert!(store.count() < 256);
    }

    #[test]
    fn owners_are_spread() {
        let mut counts = [0; 3];
        (1..3000).for_each(|key| counts[owner(key, 3)] += 1);
        assert!(counts.iter().all(|count| *count > 900), "{counts:?}");
    }
}
