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

/// The parts of an endpoint that handle messages.
pub(crate) struct Handling<'a> {
    pub(crate) table: &'a mut HandlerTable,
    pub(crate) handler_context: &'a mut HandlerContext,
    pub(crate) on_returned: &'a mut Option<OnReturned>,
}

impl Handling<'_> {
    /// Handles a message. Returns false if it has to stay in its slot, because it is to be returned
    /// to its sender and there is no room for that now.
    ///
    /// # Errors
    /// The handler fails; a message is returned and there is no handler 0; the sender wrote invalid
    /// data.
    pub(crate) fn handle(
        &mut self,
        message: &ArrivedMessage<'_>,
        mut back: ReplyTo<'_>,
    ) -> Result<bool> {
        if message.kind == MessageKind::Returned {
            return self.take_returned(message).map(|()| true);
        }
        debug_assert!(message.request || !matches!(back, ReplyTo::Local(_) | ReplyTo::Remote(_)));
        let words = message.arguments()?;
        debug_assert!(words.len() <= MAX_CARRIED, "arguments() checks it");
        let Self { table, handler_context, .. } = self;
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
        let failure = match table.find(message.handler) {
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
    fn take_returned(&mut self, message: &ArrivedMessage<'_>) -> Result<()> {
        debug_assert!(message.kind == MessageKind::Returned, "its handler takes it");
        self.handler_context.counters().bump(Counter::HandlerRuns);
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
        let rank = self.handler_context.context.rank();
        let returned = Returned::of(rank, message.from, (role, reason), &original);
        hand_over(self.on_returned, self.handler_context.counters(), &returned)
    }
}

/// Gives a returned message to handler 0.
///
/// # Errors
/// There is no handler 0.
pub(crate) fn hand_over(
    on_returned: &mut Option<OnReturned>,
    counters: Counters<'_>,
    returned: &Returned,
) -> Result<()> {
    counters.bump(counter_of(returned.reason));
    match on_returned {
        Some(run) => {
            run(returned);
            Ok(())
        }
        None => {
            let (dest, reason) = (returned.dest, returned.reason);
            Err(ErrorKind::Unclaimed { dest, reason }.into())
        }
    }
}
