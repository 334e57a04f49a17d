//! Room for the selective acknowledgements of one packet.

use clump_wire::MAX_SACK_WORDS;

/// Words of selective acknowledgements; bit `i` of word `w` says that unit `ack + 1 +
/// offset + 64 w + i` arrived; the header's `unit` is the offset.
#[derive(Debug, Clone)]
pub struct SackBuf {
    words: [u64; MAX_SACK_WORDS],
    len: usize,
}

impl Default for SackBuf {
    fn default() -> Self {
        Self::new()
    }
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

    /// Returns true if there is room for another word.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.len < MAX_SACK_WORDS
    }

    /// Appends a word.
    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        let place = self.words.get_mut(self.len);
        debug_assert!(place.is_some(), "the caller asks for room");
        if let Some(place) = place {
            *place = word;
            self.len += 1;
        }
    }
}
