//! Handlers and their table.

use crate::payload::Payload;
use crate::returned::Reason;
use crate::token::Token;

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
pub trait Outcome {
    /// What went wrong.
    fn failure(self) -> Option<Box<Failure>>;
}

impl Outcome for () {
    #[inline(always)]
    fn failure(self) -> Option<Box<Failure>> {
        None
    }
}

impl<E: std::fmt::Display> Outcome for Result<(), E> {
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

/// A handler as tables keep it.
pub(crate) type Boxed = Box<dyn FnMut(Token<'_>, &[u64], Payload<'_>) -> Option<Box<Failure>>>;

/// 256 handlers, most of them unset.
pub(crate) struct Table {
    entries: Box<[Option<Boxed>; 256]>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { entries: Box::new([const { None }; 256]) }
    }

    pub(crate) fn set<R: Outcome>(
        &mut self,
        handler: Handler,
        mut run: impl FnMut(Token<'_>, &[u64], Payload<'_>) -> R + 'static,
    ) {
        self.set_boxed(
            handler,
            Box::new(move |token, words, payload| run(token, words, payload).failure()),
        );
    }

    pub(crate) fn set_boxed(&mut self, handler: Handler, run: Boxed) {
        self.entries[usize::from(handler.0)] = Some(run);
    }

    #[inline(always)]
    pub(crate) fn find(&mut self, handler: u8) -> Option<&mut Boxed> {
        self.entries[usize::from(handler)].as_mut()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set = self.entries.iter().filter(|e| e.is_some()).count();
        write!(f, "Table({set} handlers)")
    }
}
