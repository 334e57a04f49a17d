//! A message slot: one cache line, a header word and up to seven words.
//!
//! The header carries all that distinguishes messages, and is the word that publishes the slot, so
//! a short message costs its receiver one line transfer (paper 000, 3.1: the packet type doubles as
//! the handshake).

use crate::shared::SharedLayout;
use clump_os::sync::AtomicU64;

/// Words that fit beside the header.
pub const INLINE: usize = 7;
/// Most words of one message: as many as two slots hold. Programs give eight arguments, an
/// interface above two more; a long message needs two, a returned one needs one, and one on its way
/// through a proxy four.
pub const MAX_WORDS: usize = 2 * INLINE;

/// One cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    pub(crate) header: AtomicU64,
    pub(crate) words: [AtomicU64; INLINE],
}

// SAFETY: atomics only.
unsafe impl SharedLayout for Slot {}

// A slot is one cache line, and the header counts the words in 4 bits.
const _: () = assert!(size_of::<Slot>() == 64 || cfg!(loom));
const _: () = assert!(MAX_WORDS < 16 && INLINE < 8);

/// Kind of message that a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotKind {
    /// Words only.
    Short = 1,
    /// Words and a payload in a bulk ring or block.
    Medium = 2,
    /// Words; the payload is already in the target's segment at `words[0]`, `words[1]` bytes long.
    Long = 3,
    /// A request that its target returned to sender; `words[0]` holds the reason and what it was.
    Returned = 4,
    /// A message from or to another node, as proxies forward it.
    Forwarded = 5,
}

impl SlotKind {
    fn from_bits(bits: u64) -> Option<Self> {
        Some(match bits {
            1 => SlotKind::Short,
            2 => SlotKind::Medium,
            3 => SlotKind::Long,
            4 => SlotKind::Returned,
            5 => SlotKind::Forwarded,
            _ => return None,
        })
    }
}

/// The header of a message, without the bits that publish it.
///
/// Bits: 16 (the lap, when published), 4 kind, 4 number of words, 8 handler, 32 payload bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header(u64);

impl Header {
    /// Creates the header of a message of `words` words (at most [`MAX_WORDS`]) and `payload` bytes
    /// beside the slot.
    #[inline(always)]
    pub fn new(kind: SlotKind, handler: u8, words: usize, payload: u32) -> Self {
        debug_assert!(words <= MAX_WORDS, "a message takes two slots at most");
        debug_assert!(
            payload == 0 || !matches!(kind, SlotKind::Short | SlotKind::Long),
            "a short message has no payload, that of a long one is in a segment"
        );
        // `am_fast_inline.h` of the C interface computes the same for short messages.
        let low = (kind as u64) << 16 | (words as u64 & 0xf) << 20 | u64::from(handler) << 24;
        Self(low | u64::from(payload) << 32)
    }

    /// Creates the header of a message of words only.
    #[inline(always)]
    pub fn short(handler: u8, words: usize) -> Self {
        Self::new(SlotKind::Short, handler, words, 0)
    }

    /// Returns the kind of the message.
    #[inline(always)]
    pub fn kind(self) -> SlotKind {
        let kind = SlotKind::from_bits(self.0 >> 16 & 0xf);
        debug_assert!(kind.is_some(), "`parse` and `new` admit no other bits");
        kind.unwrap_or(SlotKind::Short)
    }

    /// Returns the index into the receiver's handler table.
    #[inline(always)]
    pub fn handler(self) -> u8 {
        (self.0 >> 24 & 0xff) as u8
    }

    /// Returns the number of words of the message.
    #[inline(always)]
    pub fn words(self) -> usize {
        (self.0 >> 20 & 0xf) as usize
    }

    /// Returns the bytes of payload beside the slot; zero for short and long.
    #[inline(always)]
    pub fn payload(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the bits above the lap.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Reads a header of a short message in one slot; `None` for all others.
    #[inline(always)]
    pub(crate) fn parse_short(bits: u64) -> Option<Self> {
        let short = bits >> 16 & 0xf == SlotKind::Short as u64 && bits >> 23 & 1 == 0;
        let header = Self(bits & !0xffff);
        debug_assert!(!short || header.words() <= INLINE, "its words fit into one slot");
        short.then_some(header)
    }

    /// Reads the bits above the lap; returns `None` when no sender of ours wrote them.
    pub(crate) fn parse(bits: u64) -> Option<Self> {
        let header = Self(bits & !0xffff);
        let kind = SlotKind::from_bits(bits >> 16 & 0xf)?;
        let bare = matches!(kind, SlotKind::Short | SlotKind::Long);
        (header.words() <= MAX_WORDS && (header.payload() == 0 || !bare)).then_some(header)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bits_parse_or_are_refused(bits: u64, kind in 0_u64..8) {
            let bits = bits & !(0xf << 16) | kind << 16;
            if let Some(header) = Header::parse(bits) {
                prop_assert!(header.words() <= MAX_WORDS);
                prop_assert_eq!(header.bits(), bits & !0xffff);
                // As a sender makes it, or `new` panics.
                let (kind, words) = (header.kind(), header.words());
                let made = Header::new(kind, header.handler(), words, header.payload());
                prop_assert_eq!(made, header);
            }
        }
    }
}
