//! A ring of bits: position `p` of an endless sequence lies at `p` modulo its length.

/// A ring of `WORDS` times 64 bits; `WORDS` is a power of two.
#[derive(Debug, Clone)]
pub(crate) struct Bits<const WORDS: usize> {
    words: [u64; WORDS],
}

impl<const WORDS: usize> Bits<WORDS> {
    const CHECK: () = assert!(WORDS.is_power_of_two(), "positions are masked");

    pub(crate) const fn new() -> Self {
        let () = Self::CHECK;
        Self { words: [0; WORDS] }
    }

    #[inline]
    fn word(&self, position: u64) -> u64 {
        self.words.get((position >> 6) as usize & (WORDS - 1)).copied().unwrap_or_default()
    }

    #[inline]
    fn change(&mut self, position: u64, change: impl FnOnce(u64) -> u64) {
        let word = self.words.get_mut((position >> 6) as usize & (WORDS - 1));
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
        let mut bits = Bits::<2>::new();
        for position in [0, 63, 64, 100, 127] {
            bits.set(position);
        }
        for at in 0..256 {
            for i in 0..64 {
                assert_eq!(bits.from(at) >> i & 1 != 0, bits.has(at + i), "{at} {i}");
            }
        }
        bits.clear(127);
        assert!(!bits.has(127) && bits.has(127 - 27) && bits.has(128), "128 is 0 again");
    }
}
