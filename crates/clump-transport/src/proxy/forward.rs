//! A message to or from another node as ranks and proxies hand it to each other: words of a slot,
//! and a payload beside it.
//!
//! ```text
//! what it is | from | to | tag, of requests | words of the message
//! ```
//! More words than fit in a slot then lie before the payload.

use clump_shm::slot::{Header, MAX_WORDS, SlotKind};
use clump_wire::Message;
use clump_wire::frame::{self, FrameKind, Route};

const REPLY: u64 = 1 << 8;
const ORDERED: u64 = 1 << 9;
const SPILLED: u64 = 1 << 11;
const WORDS_AT: u32 = 24;
const NUMBER_AT: u32 = 32;

/// A message between two endpoints of different nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward<'a> {
    /// The message, or a further fragment of a long one (`Part`).
    pub message: Message<'a>,
    /// True if it is to be handled in the order in which it was sent.
    pub ordered: bool,
    /// For a long message and its fragments: a number, unique for the rank that sends it. For any
    /// other: the time at which it was handed over ([`stamp`]), or 0.
    pub number: u32,
}

/// Space for the words of any message.
pub type Spill = [u64; frame::MAX_WORDS];

/// A message as it lies in a slot, and the bytes beside it.
pub type Encoded<'b> = (Header, [u64; MAX_WORDS], &'b [u8]);

impl<'a> Forward<'a> {
    /// Encodes the message as words of a slot and bytes beside them. If there are more words than a
    /// slot has, both words and payload are put together in `beside`; `None` if there are more than
    /// a message may have.
    #[inline]
    pub fn encode<'b>(&self, beside: &'b mut Vec<u8>) -> Option<Encoded<'b>>
    where
        'a: 'b,
    {
        let Message { kind, reply, handler, route, words: given, payload } = self.message;
        let front = front(reply);
        let fits = front + given.len() <= MAX_WORDS;
        if given.len() > frame::MAX_WORDS {
            return None;
        }
        debug_assert!(given.len() < 1 << (NUMBER_AT - WORDS_AT), "their number has room");
        let what = kind as u64
            | if reply { REPLY } else { 0 }
            | if self.ordered { ORDERED } else { 0 }
            | if fits { 0 } else { SPILLED | (given.len() as u64) << WORDS_AT }
            | u64::from(self.number) << NUMBER_AT;
        let mut words = [0; MAX_WORDS];
        let Route { from, to, tag } = route;
        (words[0], words[1], words[2], words[3]) = (what, from, to, tag);
        let (count, bytes) = if fits {
            let count = front + given.len();
            words.get_mut(front..count)?.copy_from_slice(given);
            (count, payload)
        } else {
            beside.clear();
            beside.extend(given.iter().flat_map(|word| word.to_le_bytes()));
            beside.extend_from_slice(payload);
            (front, &beside[..])
        };
        debug_assert!(count <= MAX_WORDS, "a slot has so many words");
        let spilled = if fits { 0 } else { given.len() * 8 };
        debug_assert_eq!(bytes.len(), spilled + payload.len(), "words and payload are all there");
        let len = u32::try_from(bytes.len()).ok()?;
        Some((Header::new(SlotKind::Forwarded, handler, count, len), words, bytes))
    }

    /// Decodes [`Forward::encode`]. `None` if no correct sender wrote it.
    #[inline]
    pub fn decode(
        header: Header,
        words: &'a [u64],
        beside: &'a [u8],
        spill: &'a mut Spill,
    ) -> Option<Self> {
        let words = words.get(..header.words())?;
        let &[what, from, to, ..] = words else { return None };
        let kind = FrameKind::from_bits((what & 0xff) as u8)?;
        let reply = what & REPLY != 0;
        let tag = if reply { 0 } else { *words.get(3)? };
        let (words, payload) = if what & SPILLED == 0 {
            (words.get(front(reply)..)?, beside)
        } else {
            let count = (what >> WORDS_AT & 0xff) as usize;
            let (raw, payload) = beside.split_at_checked(count * 8)?;
            let spill = spill.get_mut(..count)?;
            for (word, raw) in spill.iter_mut().zip(raw.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*raw);
            }
            (&*spill, payload)
        };
        debug_assert!(words.len() <= frame::MAX_WORDS, "whatever was written: few words");
        debug_assert!(payload.len() <= beside.len(), "the payload lies beside the words");
        let (handler, route) = (header.handler(), Route { from, to, tag });
        let message = Message { kind, reply, handler, route, words, payload };
        Some(Self { message, ordered: what & ORDERED != 0, number: (what >> NUMBER_AT) as u32 })
    }
}

/// Nanoseconds of one unit of a stamp.
const STAMP_NS: u64 = 64;

/// Encodes a time as messages carry it; never 0, and it wraps after some minutes.
pub fn stamp(now_ns: u64) -> u32 {
    (now_ns / STAMP_NS) as u32 | 1
}

/// Decodes the time of a stamp that is not older than some minutes.
pub fn stamped(stamp: u32, now_ns: u64) -> Option<u64> {
    let age = ((now_ns / STAMP_NS) as u32 | 1).wrapping_sub(stamp);
    // Clocks of two cores may differ by a little.
    let age = if age > u32::MAX / 2 { 0 } else { u64::from(age) };
    (stamp != 0).then(|| now_ns.saturating_sub(age * STAMP_NS))
}

/// Returns the number of words before those of the message.
fn front(reply: bool) -> usize {
    if reply { 3 } else { 4 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            kind in 1_u8..=7,
            (reply, ordered) in any::<(bool, bool)>(),
            (number, handler, from, to, tag) in any::<(u32, u8, u64, u64, u64)>(),
            words in proptest::collection::vec(any::<u64>(), 0..=frame::MAX_WORDS),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let route = Route { from, to, tag: if reply { 0 } else { tag } };
            let kind = FrameKind::from_bits(kind).unwrap();
            let (words, payload) = (words.as_slice(), payload.as_slice());
            let message = Message { kind, reply, handler, route, words, payload };
            let sent = Forward { message, ordered, number };
            let mut beside = Vec::new();
            let (header, slots, bytes) = sent.encode(&mut beside).unwrap();
            prop_assert_eq!(header.payload() as usize, bytes.len());
            let mut spill = Spill::default();
            prop_assert_eq!(Forward::decode(header, &slots, bytes, &mut spill), Some(sent));
        }

        #[test]
        fn any_words_are_read_or_refused(
            words in proptest::collection::vec(any::<u64>(), 0..=MAX_WORDS),
            beside in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let header = Header::new(SlotKind::Forwarded, 9, words.len(), 0);
            let mut spill = Spill::default();
            if let Some(read) = Forward::decode(header, &words, &beside, &mut spill) {
                prop_assert!(read.message.words.len() <= MAX_WORDS);
                prop_assert!(read.message.payload.len() <= beside.len());
            }
        }
    }

    #[test]
    fn a_stamp_tells_the_time_again() {
        for now in [100_000, 1 << 38, (1 << 38) + 5_000] {
            assert_eq!(stamped(0, now), None);
            let then = stamped(stamp(now - 6_400), now).unwrap();
            assert!(now - then <= 6_400 + 64 && now - then >= 6_400 - 128, "{then} {now}");
            assert_eq!(stamped(stamp(now + 640), now), Some(now), "another core's clock is ahead");
        }
    }

    #[test]
    fn too_many_words_are_refused() {
        let route = Route { from: 1, to: 2, tag: 3 };
        let words = &[0; frame::MAX_WORDS + 1][..];
        let (kind, reply, handler, payload) = (FrameKind::Short, false, 1, &[][..]);
        let message = Message { kind, reply, handler, route, words, payload };
        let forward = Forward { message, ordered: false, number: 0 };
        assert_eq!(forward.encode(&mut Vec::new()), None);
    }
}
