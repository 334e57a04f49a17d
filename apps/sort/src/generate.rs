//! Records by number, byte for byte those of gensort 1.5 (ordinal.com/gensort.html).
//!
//! A binary record is made of ten successive 128-bit numbers: the upper 80 bits of the first are
//! the key, those of the other nine, each under its own mask, fill the rest. Record `r` starts with
//! number `r + 1`, so neighbours share nine numbers and one multiplication makes one record.
//!
//! Skew, as in `gensort -s`: six more bits of the key's number say how many leading key bits (0 to
//! 48, a quarter of the records none) are replaced by those of a pattern; the pattern is picked by
//! the bit length of the record number. The patterns gensort lists in a table are the leading bytes
//! of the generator's own first numbers, which is how they are made here.
//!
//! `distinct` is ours: the key is that of a record below `distinct` picked at random, so that keys
//! repeat heavily; 1 makes all keys equal.

use crate::lcg::Lcg;
use crate::record::RECORD;

/// Upper 80 bits that each tenth of a record is masked with.
const MASKS: [u128; 10] = [
    0,
    0xF0E8_E4E2_E1D8_D4D2_D1CC,
    0xCAC9_C6C5_C3B8_B4B2_B1AC,
    0xAAA9_A6A5_A39C_9A99_9695,
    0x938E_8D8B_8778_7472_716C,
    0x6A69_6665_635C_5A59_5655,
    0x534E_4D4B_473C_3A39_3635,
    0x332E_2D2B_271E_1D1B_170F,
    0xC8C4_C2C1_9894_9291_8CE0,
    0x170F_332E_2D2B_271E_1D1B,
];

/// Bits of the longest skew pattern.
const SKEW_BITS: u32 = 48;

/// The distribution of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// gensort's default.
    Uniform,
    /// gensort's `-s`.
    Skewed,
    /// As many different keys as given (at least 1).
    Distinct(u64),
}

/// Generates successive records.
#[derive(Debug, Clone)]
pub struct Generator {
    keys: Keys,
    number: u64,
    lcg: Lcg,
    /// The ten numbers of the next record, as a ring that starts at `head`.
    ring: [u128; 10],
    head: usize,
}

impl Generator {
    /// Starts before record `first`.
    pub fn new(keys: Keys, first: u64) -> Self {
        let mut lcg = Lcg::skip(u128::from(first));
        let ring = std::array::from_fn(|_| lcg.next_number());
        Self { keys, number: first, lcg, ring, head: 0 }
    }

    /// Writes the next record into `into`, which holds 100 bytes.
    #[inline]
    pub fn next_record(&mut self, into: &mut [u8]) {
        assert_eq!(into.len(), RECORD, "a record has 100 bytes");
        let lead = self.ring[self.head];
        for (tenth, (bytes, mask)) in into.chunks_exact_mut(10).zip(MASKS).enumerate() {
            let at = self.head + tenth;
            let number = self.ring[if at >= 10 { at - 10 } else { at }];
            let top = (number >> 48) ^ mask;
            bytes.copy_from_slice(&top.to_be_bytes()[6..]);
        }
        match self.keys {
            Keys::Uniform => {}
            Keys::Skewed => {
                let key = skewed(lead, self.number);
                into[..10].copy_from_slice(&key.to_be_bytes()[6..]);
            }
            Keys::Distinct(count) => {
                let pick = ((lead >> 64) % u128::from(count.max(1))) as u64;
                let top = Lcg::skip(u128::from(pick) + 1).next_number() >> 48;
                into[..10].copy_from_slice(&top.to_be_bytes()[6..]);
            }
        }
        self.ring[self.head] = self.lcg.next_number();
        self.head = if self.head == 9 { 0 } else { self.head + 1 };
        self.number += 1;
    }
}

/// Returns the 80-bit key of record `number`, whose first random number is `lead`, under `gensort
/// -s`.
fn skewed(lead: u128, number: u64) -> u128 {
    let key = lead >> 48;
    let bits = match ((lead >> 32) & 0x3F) as u32 {
        bits @ 0..=SKEW_BITS => bits,
        _ => 0,
    };
    let pattern = Lcg::skip(u128::from(u64::BITS - number.leading_zeros())).next_number() >> 48;
    let kept = (1u128 << (80 - bits)) - 1;
    (pattern & !kept) | (key & kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordSum;

    fn sum(keys: Keys, first: u64, count: u64) -> RecordSum {
        let mut generator = Generator::new(keys, first);
        let (mut sum, mut record) = (RecordSum::default(), [0u8; RECORD]);
        for _ in 0..count {
            generator.next_record(&mut record);
            sum.add(&record);
        }
        sum
    }

    #[test]
    fn a_million_records_have_the_published_checksum() {
        // As printed by valsort for gensort's first 1,000,000 binary records.
        assert_eq!(sum(Keys::Uniform, 0, 1_000_000).hex(), "7a0e0d4868cd4");
    }

    #[test]
    fn ranges_add_up_to_the_whole() {
        for keys in [Keys::Uniform, Keys::Skewed, Keys::Distinct(7)] {
            let mut parts = sum(keys, 0, 1234);
            parts.merge(sum(keys, 1234, 8766));
            assert_eq!(parts, sum(keys, 0, 10_000));
        }
    }

    #[test]
    fn skew_patterns_are_gensorts() {
        // Entries 0, 1, 2, 13 and 64 of gensort 1.5's table of binary skew bytes.
        let entry = |i: u128| format!("{:012x}", Lcg::skip(i).next_number() >> 80);
        assert_eq!(entry(0), "4a696d477261");
        assert_eq!(entry(1), "95e0e48262b3");
        assert_eq!(entry(2), "45979353dbed");
        assert_eq!(entry(13), "9b6b4825e251");
        assert_eq!(entry(64), "33d5b5b15c70");
    }

    #[test]
    fn skew_replaces_leading_bits_only() {
        let lead = |bits: u128| (0xABCD_EF01_2345_6789_ABCD_u128 << 48) | (bits << 32);
        assert_eq!(skewed(lead(0), 5), 0xABCD_EF01_2345_6789_ABCD);
        assert_eq!(skewed(lead(63), 5), 0xABCD_EF01_2345_6789_ABCD, "a quarter is not skewed");
        assert_eq!(skewed(lead(12), 1) >> 64, 0x95ED, "12 bits of 95e0, then the key's own");
        assert_eq!(skewed(lead(48), 0), 0x4A69_6D47_7261_6789_ABCD);
    }

    #[test]
    fn distinct_keys_are_as_many_as_asked_for() {
        let mut generator = Generator::new(Keys::Distinct(3), 0);
        let mut seen = std::collections::BTreeSet::new();
        let mut record = [0u8; RECORD];
        for _ in 0..1000 {
            generator.next_record(&mut record);
            seen.insert(record[..10].to_vec());
        }
        assert_eq!(seen.len(), 3);
    }
}
