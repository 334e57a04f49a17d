//! Replay window over packet numbers, so that no packet counts twice.

use crate::bits::Bits;

/// Numbers that may overtake each other: those of 10 ms at 10 Gb/s in datagrams of 1472 bytes.
const WORDS: usize = 128;
/// Width of the window: numbers that far behind the newest are too old to tell; they count as seen.
/// One word of the ring is always being reused (RFC 6479, 2).
pub(crate) const WIDTH: u64 = (WORDS as u64 - 1) * 64;

/// The window: RFC 4303, 3.4.3, with the ring of words of RFC 6479 that needs no shifting.
#[derive(Debug)]
pub(crate) struct Replay {
    newest: u64,
    seen: Bits,
}

impl Replay {
    pub(crate) fn new() -> Self {
        Self { newest: 0, seen: Bits::with_words(WORDS) }
    }

    /// Returns true if `number` was taken in, or is too old to tell.
    #[inline]
    pub(crate) fn is_replay(&self, number: u64) -> bool {
        number <= self.newest && (self.newest - number >= WIDTH || self.seen.has(number))
    }

    /// Takes `number` in; returns false if it is a replay. Only for packets that are authenticated
    /// (RFC 4303, 3.4.3: the window must not move before).
    #[inline]
    pub(crate) fn accept(&mut self, number: u64) -> bool {
        if self.is_replay(number) {
            return false;
        }
        if number > self.newest {
            // Words that the window moves into; after a jump over all of them, each once.
            let steps = ((number >> 6) - (self.newest >> 6)).min(WORDS as u64);
            for step in 0..steps {
                self.seen.clear_word(number - step * 64);
            }
            self.newest = number;
        }
        self.seen.set(number);
        debug_assert!(number <= self.newest, "the window reaches to the newest");
        debug_assert!(self.is_replay(number), "a number counts once");
        true
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(self.newest == 0 || self.seen.has(self.newest), "the newest was seen");
        let later = self.seen.from(self.newest & !63) >> (self.newest & 63) >> 1;
        assert_eq!(later, 0, "the rest of its word is not in use yet");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_counts_once_and_old_ones_never() {
        let mut replay = Replay::new();
        assert!(replay.accept(1) && !replay.accept(1));
        assert!(replay.accept(50_000) && replay.accept(49_000), "late, but inside");
        assert!(!replay.accept(49_000) && !replay.accept(50_000));
        assert!(replay.is_replay(50_000 - WIDTH) && !replay.is_replay(50_000 - WIDTH + 1));
        assert!(replay.accept(u64::MAX) && !replay.accept(u64::MAX) && !replay.accept(50_001));
    }

    proptest::proptest! {
        /// Compares with a set of all numbers ever.
        #[test]
        fn as_a_set_would(steps in proptest::collection::vec(0_u64..3000, 1..400)) {
            let (mut replay, mut set, mut base) = (Replay::new(), std::collections::BTreeSet::new(), 0);
            for step in steps {
                let number = (base + step).saturating_sub(1500);
                let newest = set.last().copied().unwrap_or(0);
                let fresh = !set.contains(&number) && (number > newest || newest - number < WIDTH);
                proptest::prop_assert_eq!(replay.is_replay(number), !fresh);
                proptest::prop_assert_eq!(replay.accept(number), fresh);
                if fresh {
                    set.insert(number);
                }
                base = base.max(number);
            }
        }
    }
}
