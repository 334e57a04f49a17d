//! A set of keys in less than eight bytes each: the first 16 bits of a key are the number of a
//! table, which holds the others; tables grow by a seventh.

/// Bits of a key that choose its table.
const TABLE_BITS: u32 = 16;
/// Bytes of a slot.
const SLOT: usize = 6;
/// Bits of a slot.
const SLOT_MASK: u64 = (1 << (8 * SLOT)) - 1;
/// Bytes behind the last slot, so that it is read as a word.
const PAD: usize = 2;

/// A table of the rests of keys. The rest 0 is apart: it marks a free slot.
#[derive(Debug, Clone, Default)]
struct RestTable {
    bytes: Vec<u8>,
    count: u32,
    has_zero: bool,
}

impl RestTable {
    fn slots(&self) -> usize {
        self.bytes.len().saturating_sub(PAD) / SLOT
    }

    fn read(&self, slot: usize) -> u64 {
        let word = self.bytes.get(slot * SLOT..).and_then(|it| it.first_chunk::<8>());
        debug_assert!(word.is_some(), "slot {slot} is one of this table");
        word.map_or(0, |word| u64::from_le_bytes(*word) & SLOT_MASK)
    }

    /// Returns the slot of a rest, or the free one for it.
    fn find(&self, rest: u64) -> (usize, bool) {
        let slots = self.slots();
        debug_assert!((self.count as usize) < slots, "a slot is free");
        let spread = rest.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut slot = ((spread * slots as u64) >> 32) as usize;
        loop {
            match self.read(slot) {
                0 => return (slot, false),
                found if found == rest => return (slot, true),
                _ => slot = if slot + 1 == slots { 0 } else { slot + 1 },
            }
        }
    }

    fn contains(&self, rest: u64) -> bool {
        if rest == 0 { self.has_zero } else { self.slots() > 0 && self.find(rest).1 }
    }

    fn write(&mut self, slot: usize, rest: u64) {
        if let Some(to) = self.bytes.get_mut(slot * SLOT..(slot + 1) * SLOT) {
            to.copy_from_slice(rest.to_le_bytes().get(..SLOT).unwrap_or_default());
        }
    }

    fn rests(&self) -> impl Iterator<Item = u64> + '_ {
        let all = (0..self.slots()).map(|slot| self.read(slot)).filter(|rest| *rest != 0);
        self.has_zero.then_some(0).into_iter().chain(all)
    }

    /// Returns the slots of a larger table, if this one is full.
    fn larger(&self) -> Option<usize> {
        let slots = self.slots();
        ((self.count as usize + 1) * 100 > slots * 88).then(|| (slots + slots / 7).max(8))
    }

    /// Returns true if there is memory for it.
    fn grow(&mut self, slots: usize) -> bool {
        let mut larger = Self { has_zero: self.has_zero, count: self.count, bytes: Vec::new() };
        let bytes = slots * SLOT + PAD;
        if larger.bytes.try_reserve_exact(bytes).is_err() {
            return false;
        }
        larger.bytes.resize(bytes, 0);
        for rest in self.rests().filter(|rest| *rest != 0) {
            let (slot, _) = larger.find(rest);
            larger.write(slot, rest);
        }
        *self = larger;
        true
    }
}

/// A set of keys.
#[derive(Debug)]
pub struct KeySet {
    tables: Vec<RestTable>,
    /// Bits of the rest of a key.
    rest_bits: u32,
    count: u64,
    bytes: u64,
}

impl KeySet {
    /// Creates a set of keys of so many bits.
    pub fn new(bits: u32) -> Self {
        debug_assert!((1..=64).contains(&bits), "bits of a key");
        let rest_bits = bits.saturating_sub(TABLE_BITS);
        let tables = vec![RestTable::default(); 1 << (bits - rest_bits)];
        let bytes = (tables.len() * size_of::<RestTable>()) as u64;
        Self { tables, rest_bits, count: 0, bytes }
    }

    fn divide(&self, key: u64) -> (usize, u64) {
        let table = key >> self.rest_bits;
        debug_assert!((table as usize) < self.tables.len(), "a key of so many bits");
        (table as usize, key & ((1 << self.rest_bits) - 1))
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
        let (table, rest) = self.divide(key);
        self.tables.get(table).is_some_and(|it| it.contains(rest))
    }

    /// Adds a key that may be there. Returns `None` if there is no memory for it, within so many
    /// bytes; else true if it is new.
    pub fn insert(&mut self, key: u64, max_bytes: u64) -> Option<bool> {
        let (table, rest) = self.divide(key);
        let table = self.tables.get_mut(table)?;
        if table.contains(rest) {
            return Some(false);
        }
        if rest == 0 {
            table.has_zero = true;
        } else {
            if let Some(slots) = table.larger() {
                let more = ((slots - table.slots()) * SLOT) as u64;
                if self.bytes + more > max_bytes || !table.grow(slots) {
                    return None;
                }
                self.bytes += more;
            }
            let (slot, _) = table.find(rest);
            table.write(slot, rest);
            table.count += 1;
        }
        self.count += 1;
        Some(true)
    }

    /// Calls a function with all keys, in order.
    ///
    /// # Errors
    /// Fails as the function does.
    pub fn each<E>(&self, mut each: impl FnMut(u64) -> Result<(), E>) -> Result<(), E> {
        let mut rests = Vec::new();
        for (number, table) in self.tables.iter().enumerate() {
            rests.clear();
            rests.extend(table.rests());
            rests.sort_unstable();
            for rest in &rests {
                each((number as u64) << self.rest_bits | rest)?;
            }
        }
        debug_assert!(self.rest_bits <= 48, "a rest fits into a slot");
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
        for bits in [8, 16, 17, 40, 64] {
            let (mut set, mut model) = (KeySet::new(bits), BTreeSet::new());
            for number in 0..30_000 {
                let key = fingerprint(&[number / 2]) >> (64 - bits);
                assert_eq!(set.contains(key), model.contains(&key));
                assert_eq!(set.insert(key, u64::MAX), Some(model.insert(key)));
            }
            assert_eq!(set.insert(0, u64::MAX), Some(model.insert(0)));
            let mut all = Vec::new();
            let Ok(()) = set.each(|key| {
                all.push(key);
                Ok::<_, std::convert::Infallible>(())
            });
            assert!(all.iter().eq(&model), "{bits} bits");
            assert_eq!(set.count(), all.len() as u64);
        }
    }

    #[test]
    fn a_key_takes_less_than_eight_bytes() {
        let mut set = KeySet::new(64);
        let mut worst: f64 = 0.0;
        for number in 0..3_000_000 {
            assert_eq!(set.insert(fingerprint(&[number]), u64::MAX), Some(true));
            // Beside the heads of tables, of which there are as many for a billion keys.
            let tables = set.bytes() - (32 << 16);
            if number > 1_500_000 {
                worst = worst.max(tables as f64 / set.count() as f64);
            }
        }
        assert!(worst < 8.0, "{worst} bytes a key");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut set = KeySet::new(64);
        let bytes = set.bytes() + 4000;
        let kept = (0..10_000).filter(|it| set.insert(fingerprint(&[*it]), bytes).is_some());
        assert!((10..1000).contains(&kept.count()), "{}", set.bytes());
        assert!(set.bytes() <= bytes);
    }
}
