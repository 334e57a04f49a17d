//! A message between endpoints: a request, a reply, or a message returned to sender.

use crate::error::{ErrorKind, Result};
use clump_loggp::delay::Stamp;
use clump_shm::slot::{Header, MAX_WORDS, SlotKind};
use clump_shm::traffic::Traffic;
use clump_trace::{Counter, Counters, Flow, Role, Size};
use clump_wire::frame::FrameKind;

/// Most words a program gives to one message.
pub const MAX_ARGUMENTS: usize = 8;
/// Most words that an interface on top of this one gives to one message: a program's, and two of
/// its own.
pub const MAX_CARRIED: usize = MAX_ARGUMENTS + 2;
/// Words that a long message carries besides: offset and length of its deposit.
pub(crate) const DEPOSIT_WORDS: usize = 2;

const _: () = assert!(MAX_CARRIED + DEPOSIT_WORDS < MAX_WORDS, "a returned one carries one more");

/// Space for the words of a long message.
pub(crate) type LongWords = [u64; MAX_CARRIED + DEPOSIT_WORDS];

/// Index into an endpoint's handler table. 0 is reserved for returned messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handler(pub u8);

/// Contents of a message of an interface on top, besides words.
#[derive(Debug, Clone, Copy)]
pub enum LayerPayload<'a> {
    /// Nothing.
    Short,
    /// A payload that is copied: at most [`crate::Endpoint::max_medium`] bytes.
    Medium(&'a [u8]),
    /// A payload to be deposited at this offset of the receiver's segment.
    Long(u64, &'a [u8]),
}

/// Kind of a message between endpoints. Slots and frames use the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MessageKind {
    /// Words only.
    Short = 1,
    /// Words and a payload that is copied.
    Medium = 2,
    /// Words and a payload that is deposited; the first two words are its offset and length.
    Long = 3,
    /// A message that its target returned; the first word is a [`clump_wire::Original`].
    Returned = 4,
}

impl MessageKind {
    /// Returns the kind with that number.
    #[inline(always)]
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => MessageKind::Short,
            2 => MessageKind::Medium,
            3 => MessageKind::Long,
            4 => MessageKind::Returned,
            _ => return None,
        })
    }

    #[inline(always)]
    pub(crate) fn slot(self) -> SlotKind {
        match self {
            MessageKind::Short => SlotKind::Short,
            MessageKind::Medium => SlotKind::Medium,
            MessageKind::Long => SlotKind::Long,
            MessageKind::Returned => SlotKind::Returned,
        }
    }

    #[inline(always)]
    pub(crate) fn frame(self) -> FrameKind {
        match self {
            MessageKind::Short => FrameKind::Short,
            MessageKind::Medium => FrameKind::Medium,
            MessageKind::Long => FrameKind::Long,
            MessageKind::Returned => FrameKind::Returned,
        }
    }

    /// Returns the size that it is counted as; returned messages are counted by their reason.
    #[inline(always)]
    pub(crate) fn size(self) -> Option<Size> {
        match self {
            MessageKind::Short => Some(Size::Short),
            MessageKind::Medium => Some(Size::Medium),
            MessageKind::Long => Some(Size::Long),
            MessageKind::Returned => None,
        }
    }
}

/// A message as lanes, queues and transports take it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutgoingMessage<'a> {
    pub(crate) kind: MessageKind,
    pub(crate) handler: Handler,
    /// Words; those of a long message begin with offset and length of the deposit.
    pub(crate) words: &'a [u64],
    /// Bytes that are copied, or deposited in the receiver's segment.
    pub(crate) payload: &'a [u8],
}

impl<'a> OutgoingMessage<'a> {
    /// Creates a message with up to [`MAX_CARRIED`] words; `space` is for the words of a long one.
    ///
    /// # Errors
    /// More words than a message carries.
    #[inline(always)]
    pub(crate) fn new(
        handler: Handler,
        words: &'a [u64],
        payload: LayerPayload<'a>,
        space: &'a mut LongWords,
    ) -> Result<Self> {
        if words.len() > MAX_CARRIED {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        Ok(match payload {
            LayerPayload::Short => Self::short(handler, words),
            LayerPayload::Medium(payload) => {
                Self { kind: MessageKind::Medium, handler, words, payload }
            }
            LayerPayload::Long(offset, payload) => {
                let count = words.len() + DEPOSIT_WORDS;
                debug_assert!(count <= space.len(), "checked above");
                (space[0], space[1]) = (offset, payload.len() as u64);
                space[DEPOSIT_WORDS..count].copy_from_slice(words);
                Self { kind: MessageKind::Long, handler, words: &space[..count], payload }
            }
        })
    }

    /// Creates a message of words only.
    #[inline(always)]
    pub(crate) fn short(handler: Handler, words: &'a [u64]) -> Self {
        debug_assert!(words.len() <= MAX_CARRIED, "more words than a message carries");
        Self { kind: MessageKind::Short, handler, words, payload: &[] }
    }

    /// Rebuilds a message from its slot.
    pub(crate) fn of_slot(header: Header, words: &'a [u64], payload: &'a [u8]) -> Self {
        let kind = MessageKind::from_bits(header.kind() as u8);
        debug_assert!(kind.is_some(), "an endpoint of this rank sent {header:?}");
        let kind = kind.unwrap_or(MessageKind::Short);
        Self { kind, handler: Handler(header.handler()), words, payload }.unstamped()
    }

    /// Returns the bytes beside its slot. A deposit is in the receiver's segment.
    #[inline(always)]
    pub(crate) fn beside(&self) -> &'a [u8] {
        if self.kind == MessageKind::Long { &[] } else { self.payload }
    }

    /// Returns the header of the slot that takes it.
    #[inline(always)]
    pub(crate) fn header(&self) -> Header {
        debug_assert!(
            u32::try_from(self.beside().len()).is_ok(),
            "longer than a header can encode"
        );
        debug_assert!(self.words.len() <= MAX_WORDS, "more words than two slots hold");
        let beside = self.beside().len() as u32;
        Header::new(self.kind.slot(), self.handler.0, self.words.len(), beside)
    }

    /// Returns offset and length of the deposit of a long message.
    #[inline(always)]
    pub(crate) fn deposit(&self) -> Option<(u64, u64)> {
        match (self.kind, self.words) {
            (MessageKind::Long, &[offset, len, ..]) => Some((offset, len)),
            _ => None,
        }
    }

    /// Returns the words that its handler gets.
    #[inline(always)]
    pub(crate) fn arguments(&self) -> &'a [u64] {
        arguments(self.kind, self.words)
    }

    /// Returns the message as its sender gave it, if it was delayed on purpose.
    pub(crate) fn unstamped(self) -> Self {
        if self.handler.0 != 0 {
            return self;
        }
        match split_stamp(self.kind, self.words) {
            Some((stamp, words)) => {
                debug_assert!(words.len() + 1 == self.words.len(), "a stamp is its last word");
                debug_assert!(stamp.handler != 0, "a stamp names the handler");
                Self { handler: Handler(stamp.handler), words, ..self }
            }
            None => self,
        }
    }

    /// Returns the bytes by which it is charged in virtual time: those of its payload.
    pub(crate) fn charged_bytes(&self) -> u64 {
        debug_assert!(self.kind != MessageKind::Returned, "it goes back for nothing");
        (self.payload.len() as u64).max(1)
    }

    /// Counts it as sent, in shared memory or over the network.
    #[inline(always)]
    pub(crate) fn count_sent(&self, counters: Counters<'_>, role: Role, remote: bool) {
        let payload = self.payload.len() as u64;
        count(counters, (role, Flow::Sent, remote), self.kind, self.words, payload);
    }

    /// Returns its kind of traffic.
    pub(crate) fn traffic(&self) -> Traffic {
        let (bytes, none) = (self.payload.len() as u64, Traffic::default());
        debug_assert!(self.kind != MessageKind::Short || bytes == 0, "words only");
        match self.kind {
            MessageKind::Short => {
                Traffic { short: 1, short_bytes: self.words.len() as u64 * 8, ..none }
            }
            MessageKind::Medium => Traffic { medium: 1, medium_bytes: bytes, ..none },
            MessageKind::Long => Traffic { long: 1, long_bytes: bytes, ..none },
            MessageKind::Returned => none,
        }
    }

    /// Returns a copy that outlives the call.
    pub(crate) fn to_kept(self) -> KeptMessage {
        debug_assert!(self.words.len() <= MAX_WORDS, "more words than two slots hold");
        let (words, payload) = (self.words.to_vec(), self.payload.to_vec());
        KeptMessage { kind: self.kind, handler: self.handler, words, payload }
    }
}

/// Splits the stamp off the words of a message to handler 0. `None`: it has none, and no sender
/// requested handler 0.
#[cold]
pub(crate) fn split_stamp(kind: MessageKind, words: &[u64]) -> Option<(Stamp, &[u64])> {
    let (&last, words) = words.split_last().filter(|_| kind != MessageKind::Returned)?;
    let stamp = Stamp::from_word(last);
    debug_assert!(words.len() < MAX_WORDS, "a stamp is one word");
    (stamp.handler != 0).then_some((stamp, words))
}

/// Returns the words of a message that its handler gets.
#[inline(always)]
pub(crate) fn arguments(kind: MessageKind, words: &[u64]) -> &[u64] {
    let skip = if kind == MessageKind::Long { DEPOSIT_WORDS } else { 0 };
    words.get(skip..).unwrap_or_default()
}

/// Counts a message, and its bytes: of a short one those of its words, else of its payload.
#[inline(always)]
pub(crate) fn count(
    counters: Counters<'_>,
    (role, flow, remote): (Role, Flow, bool),
    kind: MessageKind,
    words: &[u64],
    payload: u64,
) {
    let Some(size) = kind.size() else { return };
    debug_assert!(size != Size::Short || payload == 0, "a short message is counted by its words");
    debug_assert!(words.len() < MAX_WORDS, "more words than a message carries");
    let bytes = if size == Size::Short { words.len() as u64 * 8 } else { payload };
    let (mut messages, mut all) =
        (Counter::messages(role, size, flow), Counter::bytes(role, size, flow));
    if remote {
        (messages, all) = (messages.over_network(), all.over_network());
    }
    counters.bump(messages);
    counters.add(all, bytes);
}

/// A message that waits for room.
#[derive(Debug)]
pub(crate) struct KeptMessage {
    kind: MessageKind,
    handler: Handler,
    words: Vec<u64>,
    payload: Vec<u8>,
}

impl KeptMessage {
    /// Returns true if its payload is deposited.
    pub(crate) fn is_long(&self) -> bool {
        self.kind == MessageKind::Long
    }

    /// Returns the message as it is sent.
    pub(crate) fn outgoing(&self) -> OutgoingMessage<'_> {
        let Self { kind, handler, words, payload } = self;
        debug_assert!(*kind != MessageKind::Short || payload.is_empty(), "words only");
        OutgoingMessage { kind: *kind, handler: *handler, words, payload }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_frames_use_the_same_numbers() {
        for bits in 0..=u8::MAX {
            if let Some(kind) = MessageKind::from_bits(bits) {
                let (slot, frame) = (kind.slot() as u8, kind.frame() as u8);
                assert_eq!((kind as u8, slot, frame), (bits, bits, bits));
            } else {
                assert!(!(1..=4).contains(&bits), "{bits}");
            }
        }
    }

    #[test]
    fn a_message_is_rebuilt_from_its_slot() {
        let handler = Handler(7);
        let payloads =
            [LayerPayload::Short, LayerPayload::Medium(b"abc"), LayerPayload::Long(8, b"deposit")];
        for payload in payloads {
            let mut space = LongWords::default();
            let message = OutgoingMessage::new(handler, &[1, 2], payload, &mut space).unwrap();
            let again = OutgoingMessage::of_slot(message.header(), message.words, message.payload);
            assert_eq!((again.kind, again.handler), (message.kind, handler));
            assert_eq!((again.arguments(), again.deposit()), (&[1, 2][..], message.deposit()));
            let kept = message.to_kept();
            assert_eq!(kept.outgoing().words, message.words);
            assert_eq!(kept.outgoing().payload, message.payload);
        }
        let mut space = LongWords::default();
        let words = [0; MAX_CARRIED + 1];
        assert!(OutgoingMessage::new(handler, &words, LayerPayload::Short, &mut space).is_err());
    }
}
