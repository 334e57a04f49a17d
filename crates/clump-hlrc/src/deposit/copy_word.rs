//! Word of a node's copy of a page.

/// Set while one rank of the node changes the copy.
const LOCKED: u64 = 1;
/// Set while others wait for that.
const WAITED: u64 = 2;
/// Set by notices of later bytes.
const STALE: u64 = 4;
/// Set once the copy has bytes of its home.
const FETCHED: u64 = 8;
/// Set once there is a twin.
const TWIN: u64 = 16;
/// Set while the copy may depend on intervals that the node has not consumed.
const AHEAD: u64 = 32;
/// First bit of the number of fetches, modulo their count.
const FETCHES_SHIFT: u32 = 6;
const FETCHES: u64 = 1 << (GENERATION_SHIFT - FETCHES_SHIFT);
/// First bit of the generation in which the copy was fetched.
const GENERATION_SHIFT: u32 = 16;

/// State of a node's copy of a page, as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyWord(pub u64);

impl CopyWord {
    /// Bits that a notice sets.
    pub const STALE: u64 = STALE;
    /// Bits that a rank sets which waits.
    pub const WAITED: u64 = WAITED;

    /// Returns true if a rank changes the copy.
    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Returns true if ranks wait until the copy is not locked.
    pub fn is_waited(self) -> bool {
        self.0 & WAITED != 0
    }

    /// Returns true if there is a twin.
    pub fn has_twin(self) -> bool {
        self.0 & TWIN != 0
    }

    /// Returns true if the copy may have bytes of the home, stale ones among them.
    pub fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// Returns true if no notice of later bytes has come since the copy was fetched.
    pub fn is_current(self, generation: u64) -> bool {
        let usable = self.0 & (FETCHED | STALE | AHEAD) == FETCHED;
        usable && self.0 >> GENERATION_SHIFT == generation
    }

    /// Returns the word with the lock.
    pub fn locked(self) -> Self {
        debug_assert!(!self.is_locked(), "one rank has it");
        Self(self.0 | LOCKED)
    }

    /// Returns the word without the lock, which nobody waits for then.
    pub fn unlocked(self) -> Self {
        debug_assert!(self.is_locked(), "a rank has it");
        Self(self.0 & !(LOCKED | WAITED))
    }

    /// Returns the word of a copy about to be fetched: what is noticed from now on counts.
    pub fn refetched(self, generation: u64) -> Self {
        debug_assert!(generation < 1 << (u64::BITS - GENERATION_SHIFT), "few generations");
        let flags = self.0 & (LOCKED | WAITED | TWIN) | FETCHED;
        let fetches = (self.fetches() + 1) % FETCHES;
        Self(flags | fetches << FETCHES_SHIFT | generation << GENERATION_SHIFT)
    }

    /// Returns the word of a copy whose fetch came too early: as `before`, and stale.
    pub fn unfetched(self, before: Self) -> Self {
        debug_assert!(self.is_locked(), "by the rank that fetched");
        let fetched = if before.is_fetched() { 0 } else { FETCHED };
        Self(self.0 & !fetched | STALE)
    }

    /// Returns the number of fetches so far, modulo some hundreds.
    pub fn fetches(self) -> u64 {
        self.0 >> FETCHES_SHIFT & (FETCHES - 1)
    }

    /// Returns the word of a copy that may depend on what the node has not consumed, or no longer.
    pub fn ahead(self, is_ahead: bool) -> Self {
        Self(self.0 & !AHEAD | if is_ahead { AHEAD } else { 0 })
    }

    /// Returns the word of a copy that has a twin.
    pub fn with_twin(self) -> Self {
        Self(self.0 | TWIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_current_from_its_fetch_to_the_next_notice_or_generation() {
        let word = CopyWord::default();
        assert!(!word.is_current(0), "nothing was fetched");
        let fetched = word.locked().refetched(3).with_twin();
        assert!(fetched.is_current(3) && !fetched.is_current(4));
        let free = CopyWord(fetched.0 | CopyWord::WAITED).unlocked();
        assert!(free.is_current(3) && free.has_twin() && !free.is_waited() && !free.is_locked());
        let noticed = CopyWord(free.0 | CopyWord::STALE);
        assert!(!noticed.is_current(3) && noticed.is_fetched());
        assert!(noticed.locked().refetched(4).is_current(4));
        let ahead = free.ahead(true);
        assert!(!ahead.is_current(3) && ahead.ahead(false).is_current(3));
        let early = fetched.unfetched(CopyWord::default());
        assert!(!early.is_fetched() && !early.is_current(3) && early.has_twin());
        assert!(
            fetched.unfetched(fetched).is_fetched() && !fetched.unfetched(fetched).is_current(3)
        );
        let again = free.refetched(3);
        assert_eq!((again.fetches(), again.has_twin()), (free.fetches() + 1, true));
    }

    #[test]
    fn fetches_begin_again_from_zero() {
        let word = (0..FETCHES).fold(CopyWord::default().with_twin(), |word, _| word.refetched(7));
        assert!(word.fetches() == 0 && word.has_twin() && word.is_current(7));
    }
}
