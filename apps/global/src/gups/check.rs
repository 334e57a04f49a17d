//! The serial oracle: all updates, one after the other, of one rank's part of the table.

/// Returns the number of wrong words in `part`, which are those of the table from `first` on. The
/// table has `words` words, each its own index at first, and has seen `updates` updates. Doing them
/// once more must give the indexes again.
pub fn wrong_words(mut part: Vec<u64>, first: u64, words: u64, updates: u64) -> u64 {
    let mut number: u64 = 1;
    for _ in 0..updates {
        let carry = (number as i64) < 0;
        number <<= 1;
        if carry {
            number ^= 0b111;
        }
        let index = number % words;
        if index >= first && index - first < part.len() as u64 {
            part[(index - first) as usize] ^= number;
        }
    }
    let wrong = |(at, word): &(u64, u64)| first + at != *word;
    (0..).zip(part).filter(wrong).count() as u64
}

#[cfg(test)]
mod tests {
    use super::wrong_words;
    use crate::gups::stream::Stream;

    #[test]
    fn the_oracle_finds_every_wrong_word() {
        let (words, updates) = (64, 1000);
        let mut table: Vec<u64> = (0..words).collect();
        for number in Stream::after(0).take(updates) {
            table[(number % words) as usize] ^= number;
        }
        let wrong = |table: &[u64]| wrong_words(table.to_vec(), 0, words, updates as u64);
        assert_eq!(wrong(&table), 0);
        assert_eq!(wrong_words(table[16..48].to_vec(), 16, words, updates as u64), 0);
        table[5] ^= 1 << 63;
        table[63] ^= 1;
        assert_eq!(wrong(&table), 2);
    }
}
