//! A set of keys in less than eight bytes each. The first bits of a key are the number of a table,
//! which holds the others, sorted and without gaps. The more tables, the fewer bytes a rest has;
//! tables are split one at a time (linear hashing), so the set grows without a pause.

/// Bits of a key that choose its table in an empty set: rests of 64-bit keys have seven bytes.
const MIN_DEPTH: u32 = 8;
/// Keys of a table beyond which tables are split, on average.
const MAX_AVERAGE: u64 = 128;
/// A full table grows by this part of its keys.
const GROWTH: usize = 16;

/// Returns the bytes of a rest of so many bits.
fn rest_bytes(bits: u32) -> usize {
    (bits.div_ceil(8) as usize).max(1)
}

/// Returns the lowest bits of a word.
fn low(word: u64, bits: u32) -> u64 {
    debug_assert!(bits <= 64, "bits of a word");
    if bits == 64 { word } else { word & ((1 << bits) - 1) }
}

/// Rests of keys, sorted, each in as many bytes as `rest_bytes` says of its bits.
#[derive(Debug, Clone, Default)]
struct RestTable(Vec<u8>);

impl RestTable {
    /// Returns the bytes in use, with those of the allocator: a head, and multiples of 16.
    fn bytes(&self) -> u64 {
        let block = if self.0.capacity() == 0 { 0 } else { self.0.capacity() + 8 };
        (size_of::<Self>() + block.next_multiple_of(16)) as u64
    }

    fn read(&self, number: usize, width: usize) -> u64 {
        let end = (number + 1) * width;
        debug_assert!(end <= self.0.len(), "rest {number} is one of this table");
        let before = self.0.get(..end).unwrap_or_default();
        let word = match before.last_chunk::<8>() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => {
                before.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
                    << (8 * (8 - before.len()))
            }
        };
        word >> (64 - 8 * width)
    }

    /// Returns the number of rests below one, and true if it is here.
    fn find(&self, rest: u64, bits: u32) -> (usize, bool) {
        let width = rest_bytes(bits);
        let count = self.0.len() / width;
        // Rests are spread evenly, so the place of one follows from its value, but for a few.
        let part = if bits == 0 { 0 } else { (rest << (64 - bits)) >> 32 };
        let mut at = ((part * count as u64) >> 32) as usize;
        while at < count && self.read(at, width) < rest {
            at += 1;
        }
        while at > 0 && self.read(at - 1, width) >= rest {
            at -= 1;
        }
        (at, at < count && self.read(at, width) == rest)
    }

    fn rests(&self, bits: u32) -> impl ExactSizeIterator<Item = u64> + '_ {
        let width = rest_bytes(bits);
        (0..self.0.len() / width).map(move |at| self.read(at, width))
    }

    /// Makes a table of sorted rests. Returns `None` if there is no memory for it.
    fn of(rests: impl ExactSizeIterator<Item = u64>, width: usize) -> Option<Self> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(rests.len() * width).ok()?;
        rests.for_each(|rest| bytes.extend(rest.to_le_bytes().into_iter().take(width)));
        Some(Self(bytes))
    }
}

/// Table of a key, the bits of the rest, and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeyPlace {
    table: usize,
    bits: u32,
    rest: u64,
}

/// A set of keys.
#[derive(Debug)]
pub struct KeySet {
    /// The number of a table is the first bits of its keys, read backwards; the first tables have
    /// been split by one bit more.
    tables: Vec<RestTable>,
    /// Bits that choose a table that has not been split.
    depth: u32,
    /// Bits of a key.
    bits: u32,
    count: u64,
    bytes: u64,
}

impl KeySet {
    /// Creates a set of keys of so many bits.
    pub fn new(bits: u32) -> Self {
        debug_assert!((1..=64).contains(&bits), "bits of a key");
        let depth = MIN_DEPTH.min(bits);
        let tables = vec![RestTable::default(); 1 << depth];
        let bytes = (tables.len() * size_of::<RestTable>()) as u64;
        Self { tables, depth, bits, count: 0, bytes }
    }

    /// Returns the tables that have been split.
    fn split_tables(&self) -> usize {
        self.tables.len() - (1 << self.depth)
    }

    fn place(&self, key: u64) -> KeyPlace {
        let backwards = (key << (64 - self.bits)).reverse_bits();
        let table = low(backwards, self.depth) as usize;
        let is_split = table < self.split_tables();
        let depth = self.depth + u32::from(is_split);
        let (table, bits) = (low(backwards, depth) as usize, self.bits - depth);
        debug_assert!(table < self.tables.len(), "a key of so many bits");
        KeyPlace { table, bits, rest: low(key, bits) }
    }

    /// Returns the number of keys.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes in use.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if a key is in the set.
    pub fn contains(&self, key: u64) -> bool {
        let KeyPlace { table, bits, rest } = self.place(key);
        self.tables.get(table).is_some_and(|it| it.find(rest, bits).1)
    }

    /// Adds a key that may be there. Returns `None` if there is no memory for it, within so many
    /// bytes; else true if it is new.
    pub fn insert(&mut self, key: u64, max_bytes: u64) -> Option<bool> {
        if self.count >= self.tables.len() as u64 * MAX_AVERAGE && self.depth < self.bits {
            // Without memory for it, tables get longer.
            self.split(max_bytes);
        }
        let KeyPlace { table, bits, rest } = self.place(key);
        let (table, width) = (self.tables.get_mut(table)?, rest_bytes(bits));
        let (at, known) = table.find(rest, bits);
        if known {
            return Some(false);
        }
        if table.0.len() + width > table.0.capacity() {
            let before = table.bytes();
            let more = (table.0.len() / width / GROWTH).max(1) * width;
            if self.bytes + more as u64 + 16 > max_bytes {
                return None;
            }
            table.0.try_reserve_exact(more).ok()?;
            self.bytes += table.bytes() - before;
        }
        table.0.splice(at * width..at * width, rest.to_le_bytes().into_iter().take(width));
        self.count += 1;
        Some(true)
    }

    /// Splits the next table by another bit of its keys, if there is memory for that.
    fn split(&mut self, max_bytes: u64) -> Option<()> {
        let next = self.split_tables();
        let bits = self.bits - self.depth;
        let table = self.tables.get(next)?;
        let (before, half) = (table.bytes(), 1 << (bits - 1));
        if self.bytes + before + size_of::<RestTable>() as u64 > max_bytes {
            return None;
        }
        let width = rest_bytes(bits - 1);
        let (lower, _) = table.find(half, bits);
        let first = RestTable::of(table.rests(bits).take(lower), width)?;
        let second = RestTable::of(table.rests(bits).skip(lower).map(|it| it - half), width)?;
        if self.tables.len() == self.tables.capacity() {
            let more = (self.tables.len() / GROWTH).max(1);
            self.tables.try_reserve_exact(more).ok()?;
        }
        self.bytes = self.bytes - before + first.bytes() + second.bytes();
        *self.tables.get_mut(next)? = first;
        self.tables.push(second);
        if self.tables.len() == 2 << self.depth {
            self.depth += 1;
        }
        debug_assert!(self.depth <= self.bits, "bits of a key choose its table");
        Some(())
    }

    /// Calls a function with all keys, in order.
    ///
    /// # Errors
    /// Fails as the function does.
    pub fn each<E>(&self, mut each: impl FnMut(u64) -> Result<(), E>) -> Result<(), E> {
        for first in 0..1_u64 << self.depth {
            let begin =
                if self.bits == self.depth { first } else { first << (self.bits - self.depth) };
            let KeyPlace { table, bits, .. } = self.place(begin);
            let halves = if self.bits - bits == self.depth { 1 } else { 2 };
            for half in 0..halves {
                let number = table + ((half as usize) << self.depth);
                let begin = begin | half << bits;
                let Some(table) = self.tables.get(number) else { continue };
                table.rests(bits).try_for_each(|rest| each(begin | rest))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::KeySet;
    use crate::murphi::store::keys::fingerprint;
    use std::collections::BTreeSet;

    #[test]
    fn keys_of_any_width_are_kept_once_and_in_order() {
        for bits in [1, 8, 9, 16, 17, 40, 64] {
            let (mut set, mut model) = (KeySet::new(bits), BTreeSet::new());
            for number in 0..100_000 {
                let key = fingerprint(&[number / 2]) >> (64 - bits);
                assert_eq!(set.contains(key), model.contains(&key));
                assert_eq!(set.insert(key, u64::MAX), Some(model.insert(key)));
            }
            for key in [0, u64::MAX >> (64 - bits)] {
                assert_eq!(set.insert(key, u64::MAX), Some(model.insert(key)));
            }
            let mut all = Vec::new();
            let Ok(()) = set.each(|key| {
                all.push(key);
                Ok::<_, std::convert::Infallible>(())
            });
            assert!(all.iter().eq(&model), "{bits} bits");
            assert_eq!(set.count(), all.len() as u64);
            let bytes: u64 = set.tables.iter().map(super::RestTable::bytes).sum();
            assert_eq!(set.bytes(), bytes, "bytes are counted");
        }
    }

    #[test]
    fn a_key_takes_less_than_eight_bytes() {
        let mut set = KeySet::new(64);
        let keys = clump_test_tier::pick(1_000_000, 9_000_000);
        for number in 0..keys {
            assert_eq!(set.insert(fingerprint(&[number]), u64::MAX), Some(true));
            let each = set.bytes() as f64 / set.count() as f64;
            assert!(number < 24_000 || each < 8.0, "{each} bytes a key of {number}");
        }
        // From some 8 million keys on, 16 bits or more choose a table: six bytes are left.
        let most = if keys < 9_000_000 { 8 } else { 7 };
        assert!(set.bytes() < most * set.count(), "{} bytes", set.bytes());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut set = KeySet::new(64);
        let bytes = set.bytes() + 40_000;
        let kept = (0..100_000).filter(|it| set.insert(fingerprint(&[*it]), bytes).is_some());
        assert!((1000..6000).contains(&kept.count()), "{}", set.bytes());
        assert!(set.bytes() <= bytes);
    }
}
