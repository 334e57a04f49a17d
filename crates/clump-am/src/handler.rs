//! Handlers and their table.

use crate::core::Desk;
use crate::payload::Payload;
use crate::returned::Reason;
use crate::token::{Back, Token};
use clump_shm::name::Name;
use std::marker::PhantomData;

/// Index into an endpoint's handler table. 0 is reserved for returned messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handler(pub u8);

/// Why a handler did not do what the message asked for.
#[derive(Debug)]
pub enum Failure {
    /// It failed; the poll that ran it says so.
    Said(String),
    /// It does not take the message, which goes back to its sender for this reason. Only for requests, and
    /// only before an answer; what is left of a reply is an error of the poll.
    Refused(Reason),
}

/// What a handler may return: nothing, or a result whose error [`crate::Endpoint::poll`] reports, or that
/// it does not take the message.
pub trait Outcome: 'static {
    /// What went wrong.
    fn failure(self) -> Option<Box<Failure>>;
}

impl Outcome for () {
    #[inline(always)]
    fn failure(self) -> Option<Box<Failure>> {
        None
    }
}

impl<E: std::fmt::Display + 'static> Outcome for Result<(), E> {
    #[inline(always)]
    fn failure(self) -> Option<Box<Failure>> {
        self.err().map(|e| Box::new(Failure::Said(e.to_string())))
    }
}

impl Outcome for Option<Box<Failure>> {
    #[inline(always)]
    fn failure(self) -> Option<Box<Failure>> {
        self
    }
}

/// A handler as tables keep it. What makes up its token comes in pieces, by registers: a token that was put together
/// before would be copied on its way to the handler, and a copy of what has just been written in smaller pieces waits
/// until all of that has reached the cache.
pub(crate) trait Run {
    /// Runs it for a message without payload.
    fn run_short(
        &mut self,
        from: Name,
        back: Back<'_>,
        desk: &mut Desk,
        words: &[u64],
    ) -> Option<Box<Failure>>;

    /// Runs it for any message.
    fn run(
        &mut self,
        from: Name,
        back: Back<'_>,
        desk: &mut Desk,
        words: &[u64],
        payload: &Payload<'_>,
    ) -> Option<Box<Failure>>;
}

/// A program's function, and what it returns.
struct Entry<F, R> {
    function: F,
    outcome: PhantomData<fn() -> R>,
}

impl<F, R> Run for Entry<F, R>
where
    F: FnMut(Token<'_>, &[u64], Payload<'_>) -> R,
    R: Outcome,
{
    fn run_short(
        &mut self,
        from: Name,
        back: Back<'_>,
        desk: &mut Desk,
        words: &[u64],
    ) -> Option<Box<Failure>> {
        (self.function)(Token { from, back, desk }, words, Payload::none()).failure()
    }

    fn run(
        &mut self,
        from: Name,
        back: Back<'_>,
        desk: &mut Desk,
        words: &[u64],
        payload: &Payload<'_>,
    ) -> Option<Box<Failure>> {
        (self.function)(Token { from, back, desk }, words, payload.again()).failure()
    }
}

/// 256 handlers, most of them unset.
pub(crate) struct Table {
    entries: Box<[Option<Box<dyn Run>>; 256]>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { entries: Box::new([const { None }; 256]) }
    }

    pub(crate) fn set<R: Outcome>(
        &mut self,
        handler: Handler,
        function: impl FnMut(Token<'_>, &[u64], Payload<'_>) -> R + 'static,
    ) {
        let entry = Entry { function, outcome: PhantomData::<fn() -> R> };
        self.entries[usize::from(handler.0)] = Some(Box::new(entry));
    }

    #[inline(always)]
    pub(crate) fn find(&mut self, handler: u8) -> Option<&mut Box<dyn Run>> {
        self.entries[usize::from(handler)].as_mut()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set = self.entries.iter().filter(|e| e.is_some()).count();
        write!(f, "Table({set} handlers)")
    }
}
