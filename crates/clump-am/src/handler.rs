//! Handlers and their table.

use crate::error::{ErrorKind, Result};
use crate::handler_context::HandlerContext;
use crate::handler_failure::HandlerFailure;
use crate::message::{Handler, MAX_CARRIED};
use crate::payload::Payload;
use crate::reply_to::ReplyTo;
use crate::token::Token;
use crate::words::FromWords;
use clump_shm::name::Name;
use clump_shm::slot::INLINE;
use clump_wire::Reason;
use std::marker::PhantomData;

/// Result types of handlers: nothing, or a result whose error [`crate::Endpoint::poll`] returns, or
/// that the message is not accepted.
pub trait HandlerResult: 'static {
    /// Returns the failure, if there was one.
    fn failure(self) -> Option<Box<HandlerFailure>>;
}

impl HandlerResult for () {
    #[inline(always)]
    fn failure(self) -> Option<Box<HandlerFailure>> {
        None
    }
}

impl<E: std::fmt::Display + 'static> HandlerResult for std::result::Result<(), E> {
    #[inline(always)]
    fn failure(self) -> Option<Box<HandlerFailure>> {
        self.err().map(|e| Box::new(HandlerFailure::Failed(e.to_string())))
    }
}

impl HandlerResult for Option<Box<HandlerFailure>> {
    #[inline(always)]
    fn failure(self) -> Option<Box<HandlerFailure>> {
        self
    }
}

/// Returns a handler of words and payload that decodes the words for `run`. A message with another
/// number of words, or with a payload, is returned to its sender.
pub(crate) fn typed<W: FromWords, R: HandlerResult>(
    mut run: impl FnMut(Token<'_>, W) -> R + 'static,
) -> impl FnMut(Token<'_>, &[u64], Payload<'_>) -> Option<Box<HandlerFailure>> + 'static {
    move |token, words, payload| match W::decode(words) {
        Some(words) if payload.is_empty() => run(token, words).failure(),
        _ => bad_arguments(),
    }
}

/// Returns a handler as [`typed`] does, whose messages may have a payload.
pub(crate) fn typed_bulk<W: FromWords, R: HandlerResult>(
    mut run: impl FnMut(Token<'_>, W, Payload<'_>) -> R + 'static,
) -> impl FnMut(Token<'_>, &[u64], Payload<'_>) -> Option<Box<HandlerFailure>> + 'static {
    move |token, words, payload| match W::decode(words) {
        Some(words) => run(token, words, payload).failure(),
        None => bad_arguments(),
    }
}

#[cold]
fn bad_arguments() -> Option<Box<HandlerFailure>> {
    Some(Box::new(HandlerFailure::Refused(Reason::BadArguments)))
}

/// A handler as tables keep it. The parts of its token are passed in registers: a token assembled
/// earlier would be copied on its way to the handler, and a copy of bytes just written by smaller
/// stores stalls until all of them have reached the cache.
pub(crate) trait HandlerFn {
    /// Runs it for a message without payload.
    fn run_short(
        &mut self,
        from: Name,
        back: ReplyTo<'_>,
        handler_context: &mut HandlerContext,
        words: &[u64],
    ) -> Option<Box<HandlerFailure>>;

    /// Runs it for any message.
    fn run(
        &mut self,
        from: Name,
        back: ReplyTo<'_>,
        handler_context: &mut HandlerContext,
        words: &[u64],
        payload: &Payload<'_>,
    ) -> Option<Box<HandlerFailure>>;
}

/// A program's function, and its result type.
struct Entry<F, R> {
    function: F,
    outcome: PhantomData<fn() -> R>,
}

impl<F, R> HandlerFn for Entry<F, R>
where
    F: FnMut(Token<'_>, &[u64], Payload<'_>) -> R,
    R: HandlerResult,
{
    fn run_short(
        &mut self,
        from: Name,
        back: ReplyTo<'_>,
        handler_context: &mut HandlerContext,
        words: &[u64],
    ) -> Option<Box<HandlerFailure>> {
        debug_assert!(words.len() <= INLINE, "a short message of one slot");
        (self.function)(Token { from, back, handler_context }, words, Payload::none()).failure()
    }

    fn run(
        &mut self,
        from: Name,
        back: ReplyTo<'_>,
        handler_context: &mut HandlerContext,
        words: &[u64],
        payload: &Payload<'_>,
    ) -> Option<Box<HandlerFailure>> {
        debug_assert!(words.len() <= MAX_CARRIED, "more words than a message carries");
        (self.function)(Token { from, back, handler_context }, words, payload.reborrow()).failure()
    }
}

/// 256 handlers, most of them unset.
pub(crate) struct HandlerTable {
    entries: Box<[Option<Box<dyn HandlerFn>>; 256]>,
}

impl HandlerTable {
    pub(crate) fn new() -> Self {
        Self { entries: Box::new([const { None }; 256]) }
    }

    /// Sets a handler.
    ///
    /// # Errors
    /// Handler 0, which is for returned messages.
    pub(crate) fn set<R: HandlerResult>(
        &mut self,
        handler: Handler,
        function: impl FnMut(Token<'_>, &[u64], Payload<'_>) -> R + 'static,
    ) -> Result<()> {
        if handler.0 == 0 {
            return Err(ErrorKind::HandlerReserved.into());
        }
        let entry = Entry { function, outcome: PhantomData::<fn() -> R> };
        self.entries[usize::from(handler.0)] = Some(Box::new(entry));
        debug_assert!(self.find(handler.0).is_some() && self.find(0).is_none());
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn find(&mut self, handler: u8) -> Option<&mut Box<dyn HandlerFn>> {
        self.entries[usize::from(handler)].as_mut()
    }
}

impl std::fmt::Debug for HandlerTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set = self.entries.iter().filter(|e| e.is_some()).count();
        write!(f, "Table({set} handlers)")
    }
}
