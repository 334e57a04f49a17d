//! Room for the selective acknowledgements of one packet.

use clump_wire::MAX_SACK_WORDS;

/// Words of selective acknowledgements; bit `i` of word `w` says that unit `ack + 1 + 64 w + i`
/// arrived.
#[derive(Debug, Clone, Default)]
pub struct SackBuf {
    words: [u64; MAX_SACK_WORDS],
    len: usize,
}

impl SackBuf {
    /// Creates a buffer without words.
    pub const fn new() -> Self {
        Self { words: [0; MAX_SACK_WORDS], len: 0 }
    }

    /// Returns the words that go behind the header.
    #[inline]
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.len).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends a word; there is room for as many as tell of all units that may be in flight.
    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        let place = self.words.get_mut(self.len);
        debug_assert!(place.is_some(), "no further than a sender may be");
        if let Some(place) = place {
            *place = word;
            self.len += 1;
        }
    }
}
