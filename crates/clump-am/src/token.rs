//! A handler's rights: to reply once, and to queue requests.

use crate::error::{ErrorKind, Result};
use crate::handler_context::{HandlerContext, MAX_DEFERRED};
use crate::message::{
    Handler, LayerPayload, LongWords, MAX_ARGUMENTS, MAX_CARRIED, MessageKind, OutgoingMessage,
};
use crate::peer::Dest;
use crate::reply_to::ReplyTo;
use crate::words::Words;
use clump_net::Progress;
use clump_shm::geometry::SEGMENT_SPACE;
use clump_shm::name::Name;
use clump_shm::slot::{Header, INLINE};
use clump_trace::{Counter, Role};
use clump_wire::Reason;
use std::borrow::Borrow;

/// A handler's view of the message that it handles. Replying uses the token up, so there is at most
/// one reply; a handler of a reply has a token too, but replying with it is an error.
#[derive(Debug)]
pub struct Token<'a> {
    pub(crate) from: Name,
    pub(crate) back: ReplyTo<'a>,
    pub(crate) handler_context: &'a mut HandlerContext,
}

impl Token<'_> {
    /// Returns the endpoint that sent the message.
    pub fn from(&self) -> Name {
        self.from
    }

    /// Returns true if a reply is possible: the message is a request, and has not been replied to.
    #[inline(always)]
    pub fn may_reply(&self) -> bool {
        !matches!(self.back, ReplyTo::None)
    }

    /// Takes the right to reply out; the token that stays can still queue requests.
    #[inline(always)]
    pub fn take_reply(&mut self) -> Token<'_> {
        let back = std::mem::replace(&mut self.back, ReplyTo::None);
        debug_assert!(!self.may_reply(), "two tokens for one reply");
        Token { from: self.from, back, handler_context: self.handler_context }
    }

    /// Returns the largest payload of a medium message, in bytes.
    pub fn max_medium(&self) -> usize {
        self.handler_context.max_medium
    }

    /// Replies with up to [`crate::MAX_CARRIED`] words, for an interface on top of this one. A
    /// reply to handler 0 is returned.
    ///
    /// # Errors
    /// As for [`Token::reply`], [`Token::reply_bulk`] and [`Token::reply_long`].
    #[inline]
    pub fn answer(self, handler: Handler, words: &[u64], payload: LayerPayload<'_>) -> Result<()> {
        let mut space = LongWords::default();
        let message = OutgoingMessage::new(handler, words, payload, &mut space)?;
        if handler.0 == 0 {
            debug_assert!(message.arguments() == words, "it comes back as it was given");
            let why = (Role::Reply, Reason::BadArguments);
            self.handler_context.return_to_sender(self.from, why, &message);
            return Ok(());
        }
        self.send(&message)
    }

    /// Replies with up to eight words.
    ///
    /// # Errors
    /// The message is a reply: replies are not replied to (paper 000, 2.2); more than eight words.
    #[inline(always)]
    pub fn reply(self, handler: Handler, words: impl Words) -> Result<()> {
        let words = words.encode();
        let words = words.borrow();
        if words.len() > MAX_ARGUMENTS {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        self.send(&OutgoingMessage::short(handler, words))
    }

    /// Replies with words of one slot, and uses up the right to reply, if nothing prevents it.
    /// Returns false, without effect, if [`Token::reply`] has more to do.
    #[inline(always)]
    pub fn reply_at_once(&mut self, handler: Handler, words: &[u64]) -> bool {
        let ReplyTo::Local(queue) = &mut self.back else { return false };
        if words.len() > INLINE || !queue.path.is_open() {
            return false;
        }
        if !queue.send_words(Header::short(handler.0, words.len()), words) {
            return false;
        }
        self.back = ReplyTo::None;
        debug_assert!(!self.may_reply(), "a request is replied to once");
        let message = OutgoingMessage::short(handler, words);
        message.count_sent(self.handler_context.counters(), Role::Reply, false);
        true
    }

    /// Replies with words and a payload of at most `max_medium` bytes.
    ///
    /// # Errors
    /// The payload is too long; as for [`Token::reply`].
    pub fn reply_bulk(self, handler: Handler, payload: &[u8], words: impl Words) -> Result<()> {
        self.reply_with(handler, words.encode().borrow(), LayerPayload::Medium(payload))
    }

    /// Deposits `payload` in the requester's segment and replies with words. The reply is returned
    /// to handler 0 of this endpoint if the segment does not hold it.
    ///
    /// # Errors
    /// The payload is longer than any segment; the segment cannot be mapped; as for
    /// [`Token::reply`].
    pub fn reply_long(
        self,
        handler: Handler,
        offset: u64,
        payload: &[u8],
        words: impl Words,
    ) -> Result<()> {
        self.reply_with(handler, words.encode().borrow(), LayerPayload::Long(offset, payload))
    }

    fn reply_with(self, handler: Handler, words: &[u64], payload: LayerPayload<'_>) -> Result<()> {
        if words.len() > MAX_ARGUMENTS {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        let mut space = LongWords::default();
        let message = OutgoingMessage::new(handler, words, payload, &mut space)?;
        debug_assert!(message.kind != MessageKind::Short, "`reply` sends words alone");
        debug_assert_eq!(message.arguments(), words, "the handler gets the words given");
        self.send(&message)
    }

    #[inline(always)]
    fn send(self, message: &OutgoingMessage<'_>) -> Result<()> {
        let Self { from, back, handler_context } = self;
        debug_assert!(message.arguments().len() <= MAX_CARRIED, "more words than it carries");
        debug_assert!(message.kind != MessageKind::Returned, "a reply is a message of its own");
        let (len, most) = (message.payload.len(), handler_context.max_medium);
        if message.kind == MessageKind::Medium && len > most {
            return Err(ErrorKind::PayloadTooLong { given: len, most }.into());
        }
        if len as u64 > SEGMENT_SPACE {
            let (given, most) = (len as u64, SEGMENT_SPACE);
            return Err(ErrorKind::TooMuch { given, most }.into());
        }
        back.send(handler_context, from, message)
    }

    /// Queues a request, to be sent after this handler has returned (which is what makes requests
    /// from handlers safe).
    ///
    /// # Errors
    /// More than eight words; too many queued requests.
    pub fn defer(&mut self, dest: Dest, handler: Handler, words: impl Words) -> Result<()> {
        self.defer_bulk(dest, handler, None, words)
    }

    /// Queues a request with a payload, which is copied.
    ///
    /// # Errors
    /// As for [`Token::defer`]; the payload is too long.
    pub fn defer_bulk(
        &mut self,
        dest: Dest,
        handler: Handler,
        payload: Option<&[u8]>,
        words: impl Words,
    ) -> Result<()> {
        let words = words.encode();
        let words = words.borrow();
        if words.len() > MAX_ARGUMENTS {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        let backlog = &self.handler_context.backlog;
        if backlog.deferred.len() >= MAX_DEFERRED {
            return Err(ErrorKind::TooManyDeferred(MAX_DEFERRED).into());
        }
        let (given, most) = (payload.map_or(0, <[u8]>::len), self.handler_context.max_medium);
        if given > most {
            return Err(ErrorKind::PayloadTooLong { given, most }.into());
        }
        self.handler_context.counters().bump(Counter::Deferred);
        let mut space = LongWords::default();
        let payload = payload.map_or(LayerPayload::Short, LayerPayload::Medium);
        let message = OutgoingMessage::new(handler, words, payload, &mut space)?;
        let backlog = &mut self.handler_context.backlog;
        backlog.defer(dest, message.to_kept(), Progress::default());
        debug_assert!(backlog.deferred.len() <= MAX_DEFERRED);
        debug_assert!(backlog.busy, "no poll sends what was deferred");
        Ok(())
    }
}
