//! A message slot: one cache line, a header word and up to seven words.
//!
//! The header carries everything that tells one message from another, and is the word that publishes
//! the slot, so a short message costs its receiver one line transfer (paper 000, 3.1: the packet type
//! doubles as the handshake).

use crate::shared::SharedLayout;
use clump_os::sync::AtomicU64;

/// Words that fit beside the header.
pub const INLINE: usize = 7;
/// Most words of one message: eight arguments, two that a long message needs, one that a returned
/// message needs; in at most two slots.
pub const MOST_WORDS: usize = 11;

/// One cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    pub(crate) header: AtomicU64,
    pub(crate) words: [AtomicU64; INLINE],
}

// SAFETY: atomics only.
unsafe impl SharedLayout for Slot {}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Words only.
    Short = 1,
    /// Words and a payload in a bulk ring or block.
    Medium = 2,
    /// Words; the payload already lies in the target's segment at `words[0]`, `words[1]` bytes long.
    Long = 3,
    /// A request that its target sent back; `words[0]` says why and what it was.
    Returned = 4,
}

impl Kind {
    fn from_bits(bits: u64) -> Option<Self> {
        Some(match bits {
            1 => Kind::Short,
            2 => Kind::Medium,
            3 => Kind::Long,
            4 => Kind::Returned,
            _ => return None,
        })
    }
}

/// The header of a message, without the bits that publish it.
///
/// Bits: 16 lap, 4 kind, 4 number of words, 8 handler, 32 payload bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the slot holds.
    pub kind: Kind,
    /// Index into the receiver's handler table.
    pub handler: u8,
    /// Words of the message, at most [`MOST_WORDS`].
    pub words: u8,
    /// Bytes of payload beside the slot; zero for short and long.
    pub payload: u32,
}

impl Header {
    /// A header for `words` words and no payload.
    pub fn short(handler: u8, words: usize) -> Self {
        Self { kind: Kind::Short, handler, words: words as u8, payload: 0 }
    }

    /// The bits above the lap.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        (self.kind as u64) << 16
            | u64::from(self.words) << 20
            | u64::from(self.handler) << 24
            | u64::from(self.payload) << 32
    }

    /// Reads the bits above the lap; `None` when no sender of ours wrote them.
    #[inline(always)]
    pub(crate) fn parse(bits: u64) -> Option<Self> {
        let kind = Kind::from_bits(bits >> 16 & 0xf)?;
        let words = (bits >> 20 & 0xf) as u8;
        if usize::from(words) > MOST_WORDS {
            return None;
        }
        Some(Self { kind, handler: (bits >> 24 & 0xff) as u8, words, payload: (bits >> 32) as u32 })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bits_parse_or_are_refused(bits: u64) {
            if let Some(header) = Header::parse(bits) {
                prop_assert!(usize::from(header.words) <= MOST_WORDS);
                prop_assert_eq!(header.bits(), bits & !0xffff);
            }
        }
    }
}
