//! A handler's rights: to reply once, and to queue requests.

use crate::core::{Body, Deferred, HandlerContext};
use crate::error::{ErrorKind, Result};
use crate::handler::Handler;
use crate::peer::Dest;
use crate::remote::{ReplyAttempt, Requester};
use crate::reply_queue::ReplyQueue;
use crate::returned::{Reason, Returned};
use crate::words::Words;
use clump_net::Progress;
use clump_shm::geometry::SEGMENT_SPACE;
use clump_shm::name::Name;
use clump_shm::slot::{Header, INLINE, SlotKind};
use clump_trace::{Counter, Counters, Flow, Role, Size};
use std::borrow::Borrow;
use std::cell::Cell;

/// Most requests that handlers of one endpoint may have queued.
pub const MAX_DEFERRED: usize = 1 << 16;
/// Most words a program gives to one message.
pub const MAX_ARGUMENTS: usize = 8;
/// Most words that an interface on top of this one gives to one message: a program's, and two of
/// its own.
pub const MAX_CARRIED: usize = MAX_ARGUMENTS + 2;

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

impl<'a> LayerPayload<'a> {
    pub(crate) fn body(self, progress: &'a Cell<Progress>) -> Body<'a> {
        match self {
            LayerPayload::Short => Body::Short,
            LayerPayload::Medium(payload) => Body::Medium(payload),
            LayerPayload::Long(offset, payload) => Body::Long(offset, payload, progress),
        }
    }
}

/// The path back to the sender of a message.
#[derive(Debug)]
pub(crate) enum ReplyTo<'a> {
    /// No path: the message is a reply.
    None,
    /// To an endpoint of this node.
    Local(&'a mut ReplyQueue),
    /// To an endpoint of another node.
    Remote(&'a mut Requester),
}

impl<'a> ReplyTo<'a> {
    #[inline(always)]
    pub(crate) fn to(link: Option<&'a mut ReplyQueue>) -> Self {
        link.map_or(ReplyTo::None, ReplyTo::Local)
    }

    /// Reborrows the path for a shorter lifetime.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> ReplyTo<'_> {
        match self {
            ReplyTo::None => ReplyTo::None,
            ReplyTo::Local(link) => ReplyTo::Local(link),
            ReplyTo::Remote(requester) => ReplyTo::Remote(requester),
        }
    }
}

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
        Token { from: self.from, back, handler_context: self.handler_context }
    }

    /// Returns the largest payload of a medium message, in bytes.
    pub fn max_medium(&self) -> usize {
        self.handler_context.max_medium
    }

    /// Replies with up to [`MAX_CARRIED`] words, for an interface on top of this one. A reply to
    /// handler 0 is returned.
    ///
    /// # Errors
    /// As for [`Token::reply`], [`Token::reply_bulk`] and [`Token::reply_long`].
    #[inline]
    pub fn answer(self, handler: Handler, words: &[u64], parcel: LayerPayload<'_>) -> Result<()> {
        if words.len() > MAX_CARRIED {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        if handler.0 == 0 {
            let to = (self.handler_context.context.rank(), self.from);
            self.handler_context.return_to_sender(Returned::refused(to, words, parcel));
            return Ok(());
        }
        match parcel {
            LayerPayload::Short => self.answer_short(handler, words),
            LayerPayload::Medium(payload) => self.answer_medium(handler, payload, words),
            LayerPayload::Long(offset, payload) => {
                self.answer_long(handler, offset, payload, words)
            }
        }
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
        self.answer_short(handler, words)
    }

    /// Replies with words of one slot, and uses up the right to reply, if nothing prevents it.
    /// Returns false, without effect, if [`Token::reply`] has more to do.
    #[inline(always)]
    pub fn reply_at_once(&mut self, handler: Handler, words: &[u64]) -> bool {
        let ReplyTo::Local(link) = &mut self.back else { return false };
        if words.len() > INLINE || !link.path.is_open() {
            return false;
        }
        if !link.send_words(Header::short(handler.0, words.len()), words) {
            return false;
        }
        self.back = ReplyTo::None;
        debug_assert!(!self.may_reply(), "a request is replied to once");
        count_sent(self.handler_context.counters(), Size::Short, words.len() as u64 * 8);
        true
    }

    #[inline(always)]
    fn answer_short(self, handler: Handler, words: &[u64]) -> Result<()> {
        debug_assert!(words.len() <= MAX_CARRIED, "more words than a message carries");
        let header = Header::short(handler.0, words.len());
        self.send(header, words, &[], Size::Short, words.len() as u64 * 8)
    }

    /// Replies with words and a payload of at most `max_medium` bytes.
    ///
    /// # Errors
    /// The payload is too long; as for [`Token::reply`].
    pub fn reply_bulk(self, handler: Handler, payload: &[u8], words: impl Words) -> Result<()> {
        let words = words.encode();
        let words = words.borrow();
        if words.len() > MAX_ARGUMENTS {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        self.answer_medium(handler, payload, words)
    }

    fn answer_medium(self, handler: Handler, payload: &[u8], words: &[u64]) -> Result<()> {
        if payload.len() > self.handler_context.max_medium {
            return Err(ErrorKind::PayloadTooLong {
                given: payload.len(),
                most: self.handler_context.max_medium,
            }
            .into());
        }
        debug_assert!(words.len() <= MAX_CARRIED, "more words than a message carries");
        let len = payload.len() as u32;
        let header = Header::new(SlotKind::Medium, handler.0, words.len(), len);
        self.send(header, words, payload, Size::Medium, payload.len() as u64)
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
        let words = words.encode();
        let words = words.borrow();
        if words.len() > MAX_ARGUMENTS {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        if payload.len() as u64 > SEGMENT_SPACE {
            let (given, most) = (payload.len() as u64, SEGMENT_SPACE);
            return Err(ErrorKind::TooMuch { given, most }.into());
        }
        self.answer_long(handler, offset, payload, words)
    }

    fn answer_long(
        self,
        handler: Handler,
        offset: u64,
        payload: &[u8],
        words: &[u64],
    ) -> Result<()> {
        debug_assert!(words.len() <= MAX_CARRIED, "more words than a message carries");
        let mut all = [0; MAX_CARRIED + 2];
        (all[0], all[1]) = (offset, payload.len() as u64);
        all[2..words.len() + 2].copy_from_slice(words);
        let all = &all[..words.len() + 2];
        let header = Header::new(SlotKind::Long, handler.0, all.len(), 0);
        let mut this = self;
        let link = match &mut this.back {
            ReplyTo::None => return Err(ErrorKind::NotRequested.into()),
            ReplyTo::Local(link) => link,
            ReplyTo::Remote(_) => {
                this.send_remote(header, all, payload, Size::Long, payload.len() as u64);
                return Ok(());
            }
        };
        if !link.path.is_open() {
            // Its segment may belong to another endpoint by now.
            return this.send(header, all, &[], Size::Long, 0);
        }
        let refused = match link.path.segment()? {
            Some(segment) if segment.write(offset, payload) => None,
            Some(segment) if offset <= segment.len() as u64 => Some(Reason::BadLength),
            _ => Some(Reason::BadOffset),
        };
        if let Some(reason) = refused {
            let to = (this.handler_context.context.rank(), this.from);
            this.handler_context.return_to_sender(Returned::of(
                to,
                (reason, true),
                header,
                all,
                &[],
            ));
            return Ok(());
        }
        this.send(header, all, &[], Size::Long, payload.len() as u64)
    }

    #[inline(always)]
    fn send(
        self,
        header: Header,
        words: &[u64],
        payload: &[u8],
        size: Size,
        bytes: u64,
    ) -> Result<()> {
        let link = match self.back {
            ReplyTo::None => return Err(ErrorKind::NotRequested.into()),
            ReplyTo::Local(link) => link,
            ReplyTo::Remote(_) => {
                self.send_remote(header, words, payload, size, bytes);
                return Ok(());
            }
        };
        if !link.path.is_open() {
            let to = (self.handler_context.context.rank(), self.from);
            let back = Returned::of(to, (Reason::ReplyRejected, true), header, words, payload);
            self.handler_context.return_to_sender(back);
            return Ok(());
        }
        // Sent first, counted afterwards: the requester waits for it.
        let stashed = link.send(header, words, payload);
        let counters = self.handler_context.counters();
        count_sent(counters, size, bytes);
        if stashed {
            counters.bump(Counter::Stashed);
            debug_assert!(link.is_stuck(), "a stored reply is a reason to wait");
            self.handler_context.backlog.stuck_links += 1;
            self.handler_context.backlog.busy = true;
        }
        Ok(())
    }

    #[inline(never)]
    fn send_remote(self, header: Header, words: &[u64], payload: &[u8], size: Size, bytes: u64) {
        debug_assert!(matches!(self.back, ReplyTo::Remote(_)), "the requester is of this node");
        let ReplyTo::Remote(requester) = self.back else { return };
        let kind = match size {
            Size::Short => clump_wire::frame::FrameKind::Short,
            Size::Medium => clump_wire::frame::FrameKind::Medium,
            Size::Long => clump_wire::frame::FrameKind::Long,
        };
        let head = (kind, header.handler());
        let counters = self.handler_context.counters();
        match requester.answer(self.handler_context, head, words, payload) {
            ReplyAttempt::Refused => {
                return self.handler_context.reject(requester.name, head, words, payload);
            }
            ReplyAttempt::Sent => {}
            ReplyAttempt::PutAside => {
                counters.bump(Counter::Stashed);
                self.handler_context.backlog.stuck_remote += 1;
            }
        }
        let counters = self.handler_context.counters();
        counters.bump(Counter::messages(Role::Reply, size, Flow::Sent).over_network());
        counters.add(Counter::bytes(Role::Reply, size, Flow::Sent).over_network(), bytes);
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
        if self.handler_context.backlog.deferred.len() >= MAX_DEFERRED {
            return Err(ErrorKind::TooManyDeferred(MAX_DEFERRED).into());
        }
        if let Some(given) =
            payload.map(<[u8]>::len).filter(|&len| len > self.handler_context.max_medium)
        {
            return Err(
                ErrorKind::PayloadTooLong { given, most: self.handler_context.max_medium }.into()
            );
        }
        self.handler_context.counters().bump(Counter::Deferred);
        let (words, payload) = (words.to_vec(), payload.map(<[u8]>::to_vec));
        self.handler_context.backlog.deferred.push_back(Deferred {
            dest,
            handler,
            words,
            payload,
            deposit: None,
            since: 0,
        });
        self.handler_context.backlog.busy = true;
        debug_assert!(self.handler_context.backlog.deferred.len() <= MAX_DEFERRED);
        Ok(())
    }
}

/// Counts a reply to a requester of this node.
#[inline(always)]
fn count_sent(counters: Counters<'_>, size: Size, bytes: u64) {
    counters.bump(Counter::messages(Role::Reply, size, Flow::Sent));
    counters.add(Counter::bytes(Role::Reply, size, Flow::Sent), bytes);
}
