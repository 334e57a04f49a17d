//! The path from a handler back to the sender of the message that it handles.

use crate::arrived_message::ArrivedMessage;
use crate::error::{ErrorKind, Result};
use crate::handler_context::HandlerContext;
use crate::handler_failure::HandlerFailure;
use crate::message::{Handler, MessageKind, OutgoingMessage};
use crate::reply_queue::ReplyQueue;
use clump_shm::name::Name;
use clump_shm::slot::MAX_WORDS;
use clump_trace::{Counter, Role};
use clump_transport::Requester;
use clump_wire::{Reason, SendResult};

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
    pub(crate) fn to(queue: Option<&'a mut ReplyQueue>) -> Self {
        queue.map_or(ReplyTo::None, ReplyTo::Local)
    }

    /// Reborrows the path for a shorter lifetime.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> ReplyTo<'_> {
        match self {
            ReplyTo::None => ReplyTo::None,
            ReplyTo::Local(queue) => ReplyTo::Local(queue),
            ReplyTo::Remote(requester) => ReplyTo::Remote(requester),
        }
    }

    /// Sends a reply to `to`, keeps it for later, or returns it to handler 0 of this endpoint.
    ///
    /// # Errors
    /// There is nothing to reply to; the requester's segment cannot be mapped.
    #[inline(always)]
    pub(crate) fn send(
        self,
        handler_context: &mut HandlerContext,
        to: Name,
        message: &OutgoingMessage<'_>,
    ) -> Result<()> {
        debug_assert!(message.kind != MessageKind::Returned, "it goes back by give_back");
        if handler_context.emulates() {
            return self.send_delayed(handler_context, to, message);
        }
        self.pass(handler_context, to, message, message)
    }

    /// Sends a reply that is delayed on purpose.
    #[cold]
    #[inline(never)]
    fn send_delayed(
        self,
        handler_context: &mut HandlerContext,
        to: Name,
        message: &OutgoingMessage<'_>,
    ) -> Result<()> {
        if matches!(self, ReplyTo::None) {
            return Err(ErrorKind::NotRequested.into());
        }
        let remote = matches!(self, ReplyTo::Remote(_));
        debug_assert!(handler_context.emulates(), "replies are delayed");
        if let Some(actor) = handler_context.context.actor() {
            let stamped = handler_context.charge_reply(actor, to, message);
            let (now_ns, remote) = (clump_os::clock::now_ns(), actor.is_far(to));
            handler_context.note_traced_send(to, message, (true, remote), now_ns);
            return self.pass(handler_context, to, &stamped.message(message), message);
        }
        let stamped = handler_context.delay_reply(message, remote);
        handler_context.note_traced_send(to, message, (true, remote), stamped.sent_ns);
        self.pass(handler_context, to, &stamped.message(message), message)
    }

    /// Passes a reply on as `message`; `given`: as its sender gave it.
    #[inline(always)]
    fn pass(
        self,
        handler_context: &mut HandlerContext,
        to: Name,
        message: &OutgoingMessage<'_>,
        given: &OutgoingMessage<'_>,
    ) -> Result<()> {
        debug_assert_eq!(message.payload.len(), given.payload.len(), "it differs by its stamp");
        let (attempt, remote) = match self {
            ReplyTo::None => return Err(ErrorKind::NotRequested.into()),
            ReplyTo::Local(queue) => {
                let attempt = queue.send(message)?;
                let kept = attempt == SendResult::Full;
                if message.kind == MessageKind::Short && message.words.len() > given.words.len() {
                    queue.path.count_stamp();
                }
                debug_assert_eq!(kept, queue.is_stuck(), "{attempt:?}, and kept or not");
                (attempt, false)
            }
            ReplyTo::Remote(requester) => (send_remote(requester, handler_context, message), true),
        };
        match attempt {
            SendResult::Sent => {}
            SendResult::Full => note_put_aside(handler_context, remote),
            SendResult::Refused(reason) => {
                handler_context.return_to_sender(to, (Role::Reply, reason), given);
                return Ok(());
            }
        }
        // Sent first, counted afterwards: the requester waits for it.
        given.count_sent(handler_context.counters(), Role::Reply, remote);
        if remote {
            handler_context.count_remote(to, given);
        }
        Ok(())
    }

    /// Resolves the failure of a message's handler: an error, or true if the message is returned to
    /// its sender. False: there is no room for that now, so it has to stay where it is.
    ///
    /// # Errors
    /// The handler failed by itself; the message is a reply, which cannot go back.
    #[cold]
    pub(crate) fn resolve(
        self,
        handler_context: &mut HandlerContext,
        message: &ArrivedMessage<'_>,
        failure: HandlerFailure,
    ) -> Result<bool> {
        match failure {
            HandlerFailure::Failed(why) => {
                Err(ErrorKind::HandlerFailed { handler: message.handler, why }.into())
            }
            HandlerFailure::Refused(reason) => self.give_back(handler_context, message, reason),
        }
    }

    /// Returns a request to its sender, as [`ReplyTo::resolve`] does.
    #[cold]
    pub(crate) fn give_back(
        self,
        handler_context: &mut HandlerContext,
        message: &ArrivedMessage<'_>,
        reason: Reason,
    ) -> Result<bool> {
        debug_assert!(message.kind != MessageKind::Returned, "it came back already");
        let is_medium = message.kind == MessageKind::Medium;
        let payload = if is_medium { message.payload.to_vec() } else { Vec::new() };
        let mut space = [0; MAX_WORDS];
        let words = message.returned_words(reason, &mut space);
        debug_assert_eq!(words.len(), message.words.len() + 1, "what it was comes first");
        let (kind, handler) = (MessageKind::Returned, Handler(0));
        let back = OutgoingMessage { kind, handler, words, payload: &payload };
        match self {
            // A reply without a handler is this program's own mistake.
            ReplyTo::None => Err(ErrorKind::Unclaimed { dest: message.from, reason }.into()),
            // A requester that has closed accepts no returned messages.
            ReplyTo::Local(queue) => Ok(!queue.path.is_open() || queue.send_now(&back)),
            ReplyTo::Remote(requester) => {
                if send_remote(requester, handler_context, &back) == SendResult::Full {
                    handler_context.backlog.stuck_remote += 1;
                }
                Ok(true)
            }
        }
    }
}

/// Sends a reply to an endpoint of another node, which keeps it if there is no room.
fn send_remote(
    requester: &mut Requester,
    handler_context: &HandlerContext,
    message: &OutgoingMessage<'_>,
) -> SendResult {
    let refused = SendResult::Refused(Reason::ReplyRejected);
    let network = handler_context.context.network();
    debug_assert!(network.is_some(), "a requester of another node without a network");
    let Some(mut network) = network else { return refused };
    let head = (message.kind.frame(), message.handler.0);
    match requester.send(&mut network, head, message.words, message.payload) {
        SendResult::Refused(_) => refused,
        taken => taken,
    }
}

#[cold]
fn note_put_aside(handler_context: &mut HandlerContext, remote: bool) {
    handler_context.counters().bump(Counter::RepliesDeferred);
    let backlog = &mut handler_context.backlog;
    debug_assert!(!remote || handler_context.context.network().is_some(), "no other node");
    if remote {
        backlog.stuck_remote += 1;
    } else {
        backlog.stuck_queues += 1;
        backlog.busy = true;
    }
    debug_assert!(remote || backlog.has_work(), "a poll sends it");
}
