//! Sends of an endpoint.
//!
//! Each send polls once, so that a program that only sends handles what arrives. An error of that
//! poll is another message's, and is kept for the next poll: a send that fails has sent nothing.

use super::{Endpoint, Ownership};
use crate::error::{ErrorKind, Result};
use crate::message::{
    Handler, LayerPayload, LongWords, MAX_ARGUMENTS, MessageKind, OutgoingMessage,
};
use crate::peer::Dest;
use crate::send::send_slowly;
use crate::sender::SendAttempt;
use crate::words::Words;
use clump_net::Progress;
use std::borrow::Borrow;

impl<H: Ownership> Endpoint<H> {
    /// Sends a short request: up to eight words to `handler` at `dest`. Blocks while there is no
    /// room (polling meanwhile), at most until the rank's send timeout. Polls once: a request to
    /// this endpoint itself may have been handled when this returns. If that handler fails, or
    /// another one that runs meanwhile, the next poll returns the error.
    ///
    /// # Errors
    /// Nothing was sent: the table has no such destination; more than eight words; while there is
    /// no room, as for [`Endpoint::poll_until`].
    #[inline(always)]
    pub fn request(&self, dest: Dest, handler: Handler, words: impl Words) -> Result<()> {
        let words = words.encode();
        let words = words.borrow();
        let mut core = self.hold.core()?;
        let sent = core.request_short(dest, handler, words)?;
        debug_assert!(words.len() <= MAX_ARGUMENTS, "more words are refused");
        drop(core);
        match sent {
            SendAttempt::Sent => Ok(()),
            SendAttempt::Full => self.send_short_slowly(dest, handler, words),
        }
    }

    /// Sends a short request as [`Endpoint::request`] does, for callers whose handlers may change
    /// the memory of `words`, as in C: where there is room, they are copied before any handler
    /// runs, also on the way to this endpoint itself.
    ///
    /// # Errors
    /// As for [`Endpoint::request`].
    #[inline(always)]
    pub fn request_copied(&self, dest: Dest, handler: Handler, words: &[u64]) -> Result<()> {
        let mut core = self.hold.core()?;
        let sent = core.attempt_short(dest, handler, words)?;
        debug_assert!(words.len() <= MAX_ARGUMENTS, "more words are refused");
        core.poll_after_send();
        drop(core);
        match sent {
            SendAttempt::Sent => Ok(()),
            SendAttempt::Full => self.send_short_slowly(dest, handler, words),
        }
    }

    /// Sends a short request if there is room now. Does not poll.
    ///
    /// # Errors
    /// The table has no such destination; more than eight words; inside one of the endpoint's
    /// handlers.
    #[inline(always)]
    pub fn try_request(
        &self,
        dest: Dest,
        handler: Handler,
        words: impl Words,
    ) -> Result<SendAttempt> {
        let words = words.encode();
        self.hold.core()?.attempt_short(dest, handler, words.borrow())
    }

    /// Sends words and a payload of at most [`Endpoint::max_medium`] bytes, which is copied; the
    /// handler gets it as its third argument.
    ///
    /// # Errors
    /// The payload is too long; as for [`Endpoint::request`].
    pub fn request_bulk(
        &self,
        dest: Dest,
        handler: Handler,
        payload: &[u8],
        words: impl Words,
    ) -> Result<()> {
        self.send(dest, handler, words.encode().borrow(), LayerPayload::Medium(payload))
    }

    /// Sends words and a payload if there is room now. Does not poll.
    ///
    /// # Errors
    /// The payload is too long; as for [`Endpoint::try_request`].
    pub fn try_request_bulk(
        &self,
        dest: Dest,
        handler: Handler,
        payload: &[u8],
        words: impl Words,
    ) -> Result<SendAttempt> {
        let (words, mut space) = (words.encode(), LongWords::default());
        let payload = LayerPayload::Medium(payload);
        let message = OutgoingMessage::new(handler, words.borrow(), payload, &mut space)?;
        let mut progress = Progress::default();
        let sent = self.hold.core()?.attempt(dest, &message, &mut progress);
        debug_assert!(progress == Progress::default(), "a medium message is sent whole");
        sent
    }

    /// Deposits `payload` of any length at `offset` of the target's segment, then runs `handler`
    /// there.
    ///
    /// # Errors
    /// As for [`Endpoint::request`]. If a handler that runs while this waits for room fails, a
    /// payload that is partly packed is still sent whole, and the next poll returns the error.
    pub fn request_long(
        &self,
        dest: Dest,
        handler: Handler,
        offset: u64,
        payload: &[u8],
        words: impl Words,
    ) -> Result<()> {
        self.send(dest, handler, words.encode().borrow(), LayerPayload::Long(offset, payload))
    }

    fn send(
        &self,
        dest: Dest,
        handler: Handler,
        words: &[u64],
        payload: LayerPayload<'_>,
    ) -> Result<()> {
        if words.len() > MAX_ARGUMENTS {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        let (mut space, mut progress) = (LongWords::default(), Progress::default());
        let message = OutgoingMessage::new(handler, words, payload, &mut space)?;
        debug_assert_eq!(message.arguments(), words, "the handler gets the words given");
        let mut core = self.hold.core()?;
        let sent = core.attempt(dest, &message, &mut progress)?;
        debug_assert!(message.kind == MessageKind::Long || progress == Progress::default());
        core.poll_after_send();
        drop(core);
        match sent {
            SendAttempt::Sent => Ok(()),
            SendAttempt::Full => {
                let bundle = self.hold.cell();
                send_slowly(&self.hold, bundle, &self.context, dest, &message, progress)
            }
        }
    }

    #[cold]
    fn send_short_slowly(&self, dest: Dest, handler: Handler, words: &[u64]) -> Result<()> {
        debug_assert!(words.len() <= MAX_ARGUMENTS, "more words than a program gives");
        let (message, begun) = (OutgoingMessage::short(handler, words), Progress::default());
        send_slowly(&self.hold, self.hold.cell(), &self.context, dest, &message, begun)
    }
}
