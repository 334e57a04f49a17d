//! A message as it arrived at an endpoint: by a lane, by a shared queue, or from another node.

use crate::error::{Error, ErrorKind, Result};
use crate::message::{DEPOSIT_WORDS, MAX_CARRIED, MessageKind, arguments, count};
use crate::payload::Payload;
use clump_shm::bulk::SharedBytes;
use clump_shm::name::Name;
use clump_shm::slot::{Header, INLINE, MAX_WORDS, SlotKind};
use clump_trace::{Counter, Counters, Flow, Role};
use clump_wire::{Message, Original, Reason};

/// A message that arrived. Everything in it is a peer's and is checked before it is used.
#[derive(Debug)]
pub(crate) struct ArrivedMessage<'a> {
    pub(crate) from: Name,
    /// True if it is a request: it may be replied to.
    pub(crate) request: bool,
    /// True if it came from another node.
    pub(crate) remote: bool,
    pub(crate) kind: MessageKind,
    /// Index into the handler table.
    pub(crate) handler: u8,
    /// Words; those of a long message begin with offset and length of the deposit.
    pub(crate) words: &'a [u64],
    /// Bytes beside the words: of a medium message, or of a returned one.
    pub(crate) payload: Payload<'a>,
}

impl<'a> ArrivedMessage<'a> {
    /// Creates a message that an endpoint of this node wrote. `words`: those of its slots.
    ///
    /// # Errors
    /// Its kind is none that endpoints send.
    #[inline(always)]
    pub(crate) fn of_slot(
        from: Name,
        request: bool,
        header: Header,
        words: &'a [u64],
        payload: SharedBytes,
    ) -> Result<Self> {
        debug_assert!(
            header.words() <= words.len(),
            "`Header::parse` refuses more than slots hold"
        );
        debug_assert!(header.kind() != SlotKind::Forwarded, "a proxy's message is another node's");
        let words = words.get(..header.words()).unwrap_or(words);
        let Some(kind) = MessageKind::from_bits(header.kind() as u8) else {
            return Err(ErrorKind::Corrupt(from).into());
        };
        let (handler, payload) = (header.handler(), Payload::new(payload, None));
        Ok(Self { from, request, remote: false, kind, handler, words, payload })
    }

    /// Creates a message of words in one slot.
    pub(crate) fn short(from: Name, request: bool, header: Header, words: &'a [u64]) -> Self {
        let (kind, handler) = (MessageKind::Short, header.handler());
        debug_assert_eq!(header.words(), words.len(), "a short message of one slot");
        debug_assert!(words.len() <= INLINE, "more words than one slot holds");
        Self { from, request, remote: false, kind, handler, words, payload: Payload::none() }
    }

    /// Creates a message from another node.
    ///
    /// # Errors
    /// Its kind is none that endpoints send.
    #[inline(always)]
    pub(crate) fn of_message(message: &Message<'a>) -> Result<Self> {
        let from = Name::from_bits(message.route.from);
        let Some(kind) = MessageKind::from_bits(message.kind as u8) else {
            return Err(ErrorKind::CorruptPacket(from).into());
        };
        let (request, handler) = (!message.reply, message.handler);
        let (words, payload) = (message.words, Payload::own(message.payload));
        Ok(Self { from, request, remote: true, kind, handler, words, payload })
    }

    /// Returns the error for a sender that wrote a corrupt message.
    #[cold]
    pub(crate) fn corrupt(&self) -> Error {
        match self.remote {
            true => ErrorKind::CorruptPacket(self.from).into(),
            false => ErrorKind::Corrupt(self.from).into(),
        }
    }

    /// Returns the words that the handler gets.
    ///
    /// # Errors
    /// More than a message carries, or too few for its kind.
    #[inline(always)]
    pub(crate) fn arguments(&self) -> Result<&'a [u64]> {
        let words = arguments(self.kind, self.words);
        let deposit_is_missing = self.kind == MessageKind::Long && self.deposit().is_none();
        if words.len() > MAX_CARRIED || deposit_is_missing {
            return Err(self.corrupt());
        }
        debug_assert!(
            words.len() + self.deposit().map_or(0, |_| DEPOSIT_WORDS) == self.words.len(),
            "a handler gets all words but those of the deposit"
        );
        Ok(words)
    }

    /// Returns offset and length of the deposit of a long message.
    #[inline(always)]
    pub(crate) fn deposit(&self) -> Option<(u64, u64)> {
        match (self.kind, self.words) {
            (MessageKind::Long, &[offset, len, ..]) => Some((offset, len)),
            _ => None,
        }
    }

    /// Counts it as received, and the run of its handler.
    #[inline(always)]
    pub(crate) fn count_received(&self, counters: Counters<'_>) {
        debug_assert!(self.kind != MessageKind::Returned, "counted by its reason instead");
        let role = if self.request { Role::Request } else { Role::Reply };
        let payload = self.deposit().map_or(self.payload.len() as u64, |(_, len)| len);
        count(counters, (role, Flow::Received, self.remote), self.kind, self.words, payload);
        counters.bump(Counter::HandlerRuns);
    }

    /// Returns the words with which it is returned to its sender.
    pub(crate) fn returned_words<'b>(
        &self,
        reason: Reason,
        space: &'b mut [u64; MAX_WORDS],
    ) -> &'b [u64] {
        debug_assert!(self.words.len() < MAX_WORDS, "no message carries so many words");
        debug_assert!(self.kind != MessageKind::Returned, "returned once already");
        let (kind, handler) = (self.kind as u8, self.handler);
        let reason = reason as u8;
        let original = Original { reason, kind, handler, reply: !self.request };
        space[0] = original.pack();
        space[1..=self.words.len()].copy_from_slice(self.words);
        &space[..=self.words.len()]
    }
}
