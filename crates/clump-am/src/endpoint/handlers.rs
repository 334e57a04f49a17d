//! Setting the handlers of an endpoint.

use super::{Endpoint, MultiThread, Ownership, SingleThread};
use crate::error::Result;
use crate::handler::{HandlerResult, typed, typed_bulk};
use crate::message::Handler;
use crate::payload::Payload;
use crate::returned::Returned;
use crate::token::Token;
use crate::words::FromWords;

/// Implements the setters: handlers of an endpoint that threads share must be `Send`.
macro_rules! setters {
    ($owner:ty $(, $send:ident)?) => {
        impl Endpoint<$owner> {
            /// Sets the handler of that number for short messages: it is called with a token and
            /// the words, whose types it names (`|token, i: u64|`, `|token, (i, x): (u64, f64)|`).
            /// A request with another number of words, or with a payload, is returned to its sender
            /// ([`crate::Reason::BadArguments`]). The poll that runs the handler returns its
            /// errors; the handler of a shared endpoint runs on whichever thread polls.
            ///
            /// # Errors
            /// Handler 0, which is for returned messages; inside one of the endpoint's handlers.
            pub fn handler<W: FromWords, R: HandlerResult>(
                &self,
                handler: Handler,
                run: impl FnMut(Token<'_>, W) -> R $(+ $send)? + 'static,
            ) -> Result<()> {
                self.hold.core()?.receiver.handlers.table.set(handler, typed(run))
            }

            /// Sets the handler of that number for messages with or without a payload, which is its
            /// third argument.
            ///
            /// # Errors
            /// As for [`Endpoint::handler`].
            pub fn handler_bulk<W: FromWords, R: HandlerResult>(
                &self,
                handler: Handler,
                run: impl FnMut(Token<'_>, W, Payload<'_>) -> R $(+ $send)? + 'static,
            ) -> Result<()> {
                self.hold.core()?.receiver.handlers.table.set(handler, typed_bulk(run))
            }

            /// Sets the handler of that number for messages of any number of words: it is called
            /// with a token, the words as they are, and the payload.
            ///
            /// # Errors
            /// As for [`Endpoint::handler`].
            pub fn set_handler<R: HandlerResult>(
                &self,
                handler: Handler,
                run: impl FnMut(Token<'_>, &[u64], Payload<'_>) -> R $(+ $send)? + 'static,
            ) -> Result<()> {
                self.hold.core()?.receiver.handlers.table.set(handler, run)
            }

            /// Sets handler 0, for returned messages.
            ///
            /// # Errors
            /// Inside one of the endpoint's handlers.
            pub fn on_returned(&self, run: impl FnMut(&Returned) $(+ $send)? + 'static) -> Result<()> {
                self.hold.core()?.receiver.handlers.on_returned = Some(Box::new(run));
                Ok(())
            }
        }
    };
}
setters!(SingleThread);
setters!(MultiThread, Send);
