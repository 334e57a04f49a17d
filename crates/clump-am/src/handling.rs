//! Handling of a message that has arrived, by any transport: its handler runs, or it is returned to
//! its sender.

use crate::arrived_message::ArrivedMessage;
use crate::error::{ErrorKind, Result};
use crate::handler::HandlerTable;
use crate::handler_context::HandlerContext;
use crate::handler_failure::HandlerFailure;
use crate::message::{Handler, MAX_CARRIED, MessageKind, OutgoingMessage};
use crate::payload::Payload;
use crate::reply_to::ReplyTo;
use crate::returned::{OnReturned, Returned};
use crate::returned_counter::counter_of;
use clump_trace::{Counter, Counters, Role};
use clump_wire::{Original, Reason};

/// The handlers of an endpoint.
pub(crate) struct Handlers {
    pub(crate) table: HandlerTable,
    /// Handler 0.
    pub(crate) on_returned: Option<OnReturned>,
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.table)
    }
}

impl Handlers {
    pub(crate) fn new() -> Self {
        Self { table: HandlerTable::new(), on_returned: None }
    }

    /// Handles a message. Returns false if it has to stay in its slot, because it is to be returned
    /// to its sender and there is no room for that now.
    ///
    /// # Errors
    /// The handler fails; a message is returned and there is no handler 0; the sender wrote invalid
    /// data.
    pub(crate) fn handle(
        &mut self,
        handler_context: &mut HandlerContext,
        message: &ArrivedMessage<'_>,
        mut back: ReplyTo<'_>,
    ) -> Result<bool> {
        if message.kind == MessageKind::Returned {
            return self.take_returned(handler_context, message).map(|()| true);
        }
        debug_assert!(message.request || !matches!(back, ReplyTo::Local(_) | ReplyTo::Remote(_)));
        let words = message.arguments()?;
        debug_assert!(words.len() <= MAX_CARRIED, "arguments() checks it");
        message.count_received(handler_context.counters());
        let deposited;
        let payload = match message.deposit() {
            None => &message.payload,
            Some((offset, len)) => {
                let segment = handler_context.segment.get();
                let Some(bytes) = segment.and_then(|segment| segment.bytes(offset, len)) else {
                    // The segment changed between the sender's check and now.
                    return back.give_back(handler_context, message, Reason::BadOffset);
                };
                debug_assert_eq!(bytes.len() as u64, len, "a handler sees the whole deposit");
                deposited = Payload::new(bytes, Some(offset));
                &deposited
            }
        };
        debug_assert!(
            message.kind != MessageKind::Long || payload.offset().is_some(),
            "a deposit that its handler cannot find"
        );
        let failure = match self.table.find(message.handler) {
            Some(handler) => {
                handler.run(message.from, back.reborrow(), handler_context, words, payload)
            }
            None => Some(Box::new(HandlerFailure::Refused(Reason::BadHandler))),
        };
        match failure {
            None => Ok(true),
            Some(failure) => back.resolve(handler_context, message, *failure),
        }
    }

    /// Takes a message of this endpoint that its target returned.
    #[cold]
    fn take_returned(
        &mut self,
        handler_context: &HandlerContext,
        message: &ArrivedMessage<'_>,
    ) -> Result<()> {
        debug_assert!(message.kind == MessageKind::Returned, "its handler takes it");
        handler_context.counters().bump(Counter::HandlerRuns);
        let first = message.words.split_first().filter(|_| message.remote || !message.request);
        let Some((&first, words)) = first else { return Err(message.corrupt()) };
        let original = Original::unpack(first);
        let kind = MessageKind::from_bits(original.kind);
        let (Some(reason), Some(kind)) = (Reason::from_bits(original.reason), kind) else {
            return Err(message.corrupt());
        };
        if kind == MessageKind::Returned {
            return Err(message.corrupt());
        }
        let role = if original.reply { Role::Reply } else { Role::Request };
        let bytes = message.payload.to_vec();
        let handler = Handler(original.handler);
        let original = OutgoingMessage { kind, handler, words, payload: &bytes }.unstamped();
        debug_assert!(original.words.len() < message.words.len(), "what it was comes first");
        let rank = handler_context.context.rank();
        let returned = Returned::of(rank, message.from, (role, reason), &original);
        self.run_returned(handler_context.counters(), &returned)
    }

    /// Gives the returned messages that wait to handler 0.
    ///
    /// # Errors
    /// There is no handler 0.
    pub(crate) fn deliver_returned(&mut self, handler_context: &mut HandlerContext) -> Result<()> {
        while let Some(returned) = handler_context.backlog.returned.pop_front() {
            handler_context.counters().bump(Counter::HandlerRuns);
            self.run_returned(handler_context.counters(), &returned)?;
        }
        debug_assert!(handler_context.backlog.returned.is_empty());
        Ok(())
    }

    fn run_returned(&mut self, counters: Counters<'_>, returned: &Returned) -> Result<()> {
        debug_assert!(returned.words.len() <= MAX_CARRIED, "more words than it was sent with");
        counters.bump(counter_of(returned.reason));
        let Some(run) = &mut self.on_returned else {
            let (dest, reason) = (returned.dest, returned.reason);
            return Err(ErrorKind::Unclaimed { dest, reason }.into());
        };
        run(returned);
        Ok(())
    }
}
