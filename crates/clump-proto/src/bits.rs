//! A ring of bits that grows: position `p` of an endless sequence lies at `p` modulo its length.

/// Words of a ring at first.
const MIN_WORDS: usize = 16;
const _: () = assert!(MIN_WORDS.is_power_of_two(), "positions are masked");

/// A ring of bits; its length is a power of two.
#[derive(Debug, Clone)]
pub(crate) struct Bits {
    words: Box<[u64]>,
}

impl Bits {
    /// Creates a ring of 1024 bits, all clear.
    pub(crate) fn new() -> Self {
        Self::with_words(MIN_WORDS)
    }

    /// Creates a ring of so many words of 64 bits, all clear.
    pub(crate) fn with_words(words: usize) -> Self {
        debug_assert!(words.is_power_of_two(), "positions are masked");
        Self { words: vec![0; words].into() }
    }

    /// Returns the number of positions that have bits of their own at once.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    /// Grows the ring until it has `positions` bits; only `first..end` may be set.
    #[cold]
    pub(crate) fn grow(&mut self, positions: u64, (first, end): (u64, u64)) {
        debug_assert!(end - first <= self.len(), "each position has its bit");
        let words = (positions.next_power_of_two() / 64) as usize;
        if words <= self.words.len() {
            return;
        }
        let before = std::mem::replace(self, Self { words: vec![0; words].into() });
        (first..end).filter(|&at| before.has(at)).for_each(|at| self.set(at));
        debug_assert!(self.len() >= positions, "it has grown");
    }

    /// Gives back what the ring has grown by; no bit is set.
    pub(crate) fn shrink(&mut self) {
        debug_assert!(self.words.iter().all(|word| *word == 0), "nothing is lost");
        if self.words.len() > MIN_WORDS {
            *self = Self::new();
        }
    }

    /// Returns the bytes that [`Bits::shrink`] gives back.
    pub(crate) fn spare_bytes(&self) -> usize {
        debug_assert!(self.words.len() >= MIN_WORDS, "rings only grow");
        (self.words.len() - MIN_WORDS) * 8
    }

    #[inline]
    fn at(&self, position: u64) -> usize {
        (position >> 6) as usize & (self.words.len() - 1)
    }

    #[inline]
    fn word(&self, position: u64) -> u64 {
        self.words.get(self.at(position)).copied().unwrap_or_default()
    }

    #[inline]
    fn change(&mut self, position: u64, change: impl FnOnce(u64) -> u64) {
        let at = self.at(position);
        let word = self.words.get_mut(at);
        debug_assert!(word.is_some(), "the mask keeps the index inside");
        if let Some(word) = word {
            *word = change(*word);
        }
    }

    #[inline]
    pub(crate) fn has(&self, position: u64) -> bool {
        self.word(position) >> (position & 63) & 1 != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, position: u64) {
        self.change(position, |word| word | 1 << (position & 63));
        debug_assert!(self.has(position), "it reads as set");
    }

    #[inline]
    pub(crate) fn clear(&mut self, position: u64) {
        self.change(position, |word| word & !(1 << (position & 63)));
        debug_assert!(!self.has(position), "it reads as clear");
    }

    /// Clears the whole word in which `position` lies.
    #[inline]
    pub(crate) fn clear_word(&mut self, position: u64) {
        self.change(position, |_| 0);
        debug_assert!(self.from(position & !63) == 0, "all 64 of them read as clear");
    }

    /// Returns the 64 bits from `position` on, the first the lowest.
    #[inline]
    pub(crate) fn from(&self, position: u64) -> u64 {
        let shift = (position & 63) as u32;
        let low = self.word(position) >> shift;
        let bits = if shift == 0 { low } else { low | self.word(position + 64) << (64 - shift) };
        debug_assert!((bits & 1 != 0) == self.has(position), "the first is the lowest");
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_64_bits_can_be_read_across_the_seam() {
        let mut bits = Bits::new();
        for position in [0, 63, 64, 100, 1023] {
            bits.set(position);
        }
        for at in 0..2048 {
            for i in 0..64 {
                assert_eq!(bits.from(at) >> i & 1 != 0, bits.has(at + i), "{at} {i}");
            }
        }
        bits.clear(1023);
        assert!(!bits.has(1023) && bits.has(100) && bits.has(1024), "1024 is 0 again");
    }

    #[test]
    fn a_ring_that_grows_keeps_its_bits_and_an_empty_one_is_small() {
        let mut bits = Bits::new();
        let set = [1000, 1023, 1024, 1999, 2023];
        set.into_iter().for_each(|at| bits.set(at));
        bits.grow(5000, (1000, 2024));
        assert_eq!(bits.len(), 8192);
        let found: Vec<u64> = (1000..9192).filter(|&at| bits.has(at)).collect();
        assert_eq!(found, set);
        set.into_iter().for_each(|at| bits.clear(at));
        assert_eq!(bits.spare_bytes(), 7168 / 8);
        bits.shrink();
        assert_eq!((bits.len(), bits.spare_bytes()), (1024, 0));
    }
}
