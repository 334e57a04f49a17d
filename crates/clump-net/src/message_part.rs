//! Parts of messages on their way into units and records.

use clump_wire::frame::FrameHead;
use clump_wire::{Message, OwnedMessage};

/// Progress of a long message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes packed so far.
    pub done: usize,
    /// The number it was given when it began.
    pub message: Option<u64>,
}

/// A message to be packed, or the part of it that is available.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessagePart<'a> {
    /// The message, with the part's bytes as its payload.
    pub(crate) message: Message<'a>,
    /// Its number in the order of messages, if the part begins one that asks for order.
    pub(crate) order: Option<u64>,
    /// Bytes of the whole payload.
    pub(crate) total: usize,
    /// Offset of the part's bytes in it.
    pub(crate) at: usize,
    /// Number of the message, if it has several parts.
    pub(crate) number: Option<u64>,
}

/// A part that is kept.
#[derive(Debug)]
pub(crate) struct OwnedPart {
    pub(crate) message: OwnedMessage,
    pub(crate) order: Option<u64>,
    pub(crate) total: usize,
    pub(crate) at: usize,
    pub(crate) number: Option<u64>,
}

impl<'a> MessagePart<'a> {
    /// Wraps a message that is available as a whole.
    pub(crate) fn whole(message: &Message<'a>, order: Option<u64>) -> Self {
        Self { message: *message, order, total: message.payload.len(), at: 0, number: None }
    }

    /// Returns the offset at which the part ends.
    pub(crate) fn end(&self) -> usize {
        debug_assert!(self.at + self.message.payload.len() <= self.total, "a part of the payload");
        self.at + self.message.payload.len()
    }

    /// Returns the available bytes from offset `from` of the payload on.
    pub(crate) fn rest(&self, from: usize) -> &'a [u8] {
        debug_assert!(from >= self.at, "parts are packed in their order");
        let behind = from.checked_sub(self.at).and_then(|from| self.message.payload.get(from..));
        behind.unwrap_or_default()
    }

    /// Returns the head of the frame that begins the message.
    #[inline]
    pub(crate) fn head(&self) -> FrameHead {
        FrameHead { order: self.order, ..self.message.head() }
    }

    /// Copies the part, but for its payload.
    pub(crate) fn without_payload(&self) -> OwnedPart {
        let Self { message, order, total, at, number } = *self;
        debug_assert!(order.is_none() || at == 0, "only what begins has an order");
        let message = OwnedMessage::of(&message.head(), message.words, Vec::new());
        OwnedPart { message, order, total, at, number }
    }
}

impl OwnedPart {
    /// Borrows it.
    pub(crate) fn part(&self) -> MessagePart<'_> {
        let Self { ref message, order, total, at, number } = *self;
        debug_assert!(number.is_some() || at == 0, "several parts have a number");
        MessagePart { message: message.message(), order, total, at, number }
    }
}
