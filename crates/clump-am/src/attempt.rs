//! Attempts to send a request of any size to any destination.

use crate::context::RankContext;
use crate::core::Core;
use crate::deposit::deposit;
use crate::error::{ErrorKind, Result};
use crate::handler_context::HandlerContext;
use crate::message::{MAX_CARRIED, MessageKind, OutgoingMessage};
use crate::peer::{Dest, Route};
use clump_net::{FlowId, Progress};
use clump_shm::geometry::SEGMENT_SPACE;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_trace::Role;
use clump_wire::frame::Route as FrameRoute;
use clump_wire::{Message, Reason, SendResult};

/// Result of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SendAttempt {
    /// The message was sent (or is being returned).
    Sent,
    /// No room now; poll, and try again.
    Full,
}

impl Core {
    /// Sends once, or reports that there is no room. `progress`: the fragments of a long message
    /// that earlier attempts have packed for another node.
    ///
    /// # Errors
    /// The table has no such destination; the payload is too long; the target's segment cannot be
    /// mapped; the process is a child by `fork`.
    #[inline(never)]
    pub(crate) fn attempt(
        &mut self,
        dest: Dest,
        message: &OutgoingMessage<'_>,
        progress: &mut Progress,
    ) -> Result<SendAttempt> {
        self.attempt_inlined(dest, message, progress)
    }

    /// Sends as [`Core::attempt`] does, compiled for the kind of message that its caller sends.
    #[inline(always)]
    pub(crate) fn attempt_inlined(
        &mut self,
        dest: Dest,
        message: &OutgoingMessage<'_>,
        progress: &mut Progress,
    ) -> Result<SendAttempt> {
        let Self { translation, handler_context, .. } = self;
        let Some(peer) = translation.get_mut(dest) else {
            return Err(ErrorKind::NoSuchDestination(dest.0).into());
        };
        let (given, most) = (message.payload.len(), handler_context.max_medium);
        if message.kind == MessageKind::Medium && given > most {
            return Err(ErrorKind::PayloadTooLong { given, most }.into());
        }
        debug_assert!(message.kind != MessageKind::Returned, "no request");
        debug_assert!(message.arguments().len() <= MAX_CARRIED, "more words than it carries");
        debug_assert!(
            message.kind != MessageKind::Short || message.payload.is_empty(),
            "a short message has no payload"
        );
        debug_assert!(
            *progress == Progress::default() || message.kind == MessageKind::Long,
            "only long messages are sent in parts"
        );
        let context = &handler_context.context;
        let sent = match &mut peer.route {
            // No segment holds it, nor does any buffer.
            _ if given as u64 > SEGMENT_SPACE => SendResult::Refused(Reason::BadLength),
            _ if message.handler.0 == 0 => {
                context.check_process()?;
                SendResult::Refused(Reason::BadArguments)
            }
            Route::Local(path) | Route::Own(path) if path.admits(peer.tag) => {
                peer.unchecked = true;
                match handler_context.emulates() {
                    false => by_path(path, message)?,
                    true => handler_context.delayed_by_path(peer.name, path, message)?,
                }
            }
            Route::Remote(flow) => {
                let way = (peer.name, *flow, peer.tag);
                handler_context.send_to_other_node(way, message, progress)?
            }
            _ => {
                // In a forked child's memory all peers are marked as gone.
                context.check_process()?;
                SendResult::Refused(peer.reason_for_refusal(context))
            }
        };
        let (name, remote) = (peer.name, peer.route.flow().is_some());
        match sent {
            SendResult::Sent => {
                message.count_sent(handler_context.counters(), Role::Request, remote);
                if remote {
                    handler_context.count_remote(name, message);
                }
                Ok(SendAttempt::Sent)
            }
            SendResult::Full => {
                handler_context.counters().bump(peer.route.full_counter());
                if remote {
                    self.schedule.network_next();
                }
                Ok(SendAttempt::Full)
            }
            SendResult::Refused(reason) => {
                handler_context.return_to_sender(name, (Role::Request, reason), message);
                Ok(SendAttempt::Sent)
            }
        }
    }

    /// Returns a request to handler 0 of this endpoint, because it found no room for too long.
    ///
    /// # Errors
    /// The destination has been unmapped meanwhile, by another thread.
    #[cold]
    pub(crate) fn give_up(&mut self, dest: Dest, message: &OutgoingMessage<'_>) -> Result<()> {
        let Some(peer) = self.translation.get(dest) else {
            return Err(ErrorKind::NoSuchDestination(dest.0).into());
        };
        debug_assert!(
            self.handler_context.context.settings().send_timeout.is_some(),
            "without a send timeout requests wait for ever"
        );
        let why = (Role::Request, Reason::Congestion);
        self.handler_context.return_to_sender(peer.name, why, message);
        Ok(())
    }
}

impl HandlerContext {
    /// Sends a message over the flow to an endpoint of another node, delayed on purpose or not.
    #[inline(always)]
    fn send_to_other_node(
        &mut self,
        (to, flow, tag): (Name, FlowId, u64),
        message: &OutgoingMessage<'_>,
        progress: &mut Progress,
    ) -> Result<SendResult> {
        // Checked before the stack's lock: in a forked child its holder may not exist.
        self.context.check_process()?;
        debug_assert!(!self.context.node().is_local(to.rank()), "it is on this node");
        // The rest of a message that was begun was delayed with its beginning.
        if self.emulates() && *progress == Progress::default() {
            return self.delayed_by_flow((to, flow, tag), message, progress);
        }
        Ok(by_flow((&self.context, self.name), (to, flow, tag), message, progress))
    }

    /// Sends a message to another node as one that is delayed on purpose.
    #[cold]
    #[inline(never)]
    fn delayed_by_flow(
        &mut self,
        (to, flow, tag): (Name, FlowId, u64),
        message: &OutgoingMessage<'_>,
        progress: &mut Progress,
    ) -> Result<SendResult> {
        debug_assert!(*progress == Progress::default(), "it was delayed when it began");
        let (context, from) = (self.context.clone(), self.name);
        self.delayed(to, message, |message| {
            Ok(by_flow((&context, from), (to, flow, tag), message, progress))
        })
    }

    /// Sends a message by a path as one that is delayed on purpose.
    #[cold]
    #[inline(never)]
    fn delayed_by_path(
        &mut self,
        to: Name,
        path: &mut Path,
        message: &OutgoingMessage<'_>,
    ) -> Result<SendResult> {
        debug_assert_eq!(path.to(), to, "the path leads there");
        // Checked first: the processor is occupied once for a message.
        if !path.has_room() {
            return Ok(SendResult::Full);
        }
        let kind = message.kind;
        self.delayed(to, message, |message| {
            let sent = by_path(path, message)?;
            if kind == MessageKind::Short && sent == SendResult::Sent {
                path.count_stamp();
            }
            Ok(sent)
        })
    }

    /// Sends a message to `to` as one that is delayed on purpose, if its interface takes it now.
    fn delayed(
        &mut self,
        to: Name,
        message: &OutgoingMessage<'_>,
        send: impl FnOnce(&OutgoingMessage<'_>) -> Result<SendResult>,
    ) -> Result<SendResult> {
        let node = self.context.node();
        debug_assert!(self.emulates(), "messages are delayed on purpose");
        let remote = !node.is_local(to.rank());
        let to_interface = to.rank() as usize >= node.ranks();
        let Some(stamped) = self.delay_request(message, (remote, to_interface)) else {
            return Ok(SendResult::Full);
        };
        // Interfaces do not handle stamps; the added latency is added to their answers.
        let sent_ns = stamped.sent_ns;
        let stamped = stamped.message(message);
        let sent = send(if to_interface { message } else { &stamped })?;
        if sent != SendResult::Full {
            self.note_sent();
        }
        if sent == SendResult::Sent && !to_interface {
            self.note_traced_send(to, message, (false, remote), sent_ns);
        }
        Ok(sent)
    }
}

/// Hands a message to the lane or queue of an endpoint of this node.
#[inline(always)]
fn by_path(path: &mut Path, message: &OutgoingMessage<'_>) -> Result<SendResult> {
    debug_assert!(message.kind != MessageKind::Returned, "a request of this endpoint");
    debug_assert!(message.beside().is_empty() || message.kind == MessageKind::Medium);
    if message.kind == MessageKind::Long {
        // Checked before the deposit: a payload is not copied again on every attempt.
        if !path.has_room() {
            return Ok(SendResult::Full);
        }
        if let Some(reason) = deposit(path, message)? {
            return Ok(SendResult::Refused(reason));
        }
    }
    if path.push_any(message.header(), message.words, message.beside()).is_err() {
        return Ok(SendResult::Full);
    }
    if message.kind == MessageKind::Long {
        path.count_long(message.words);
    }
    Ok(SendResult::Sent)
}

/// Hands a message to the transport between nodes.
#[inline(always)]
fn by_flow(
    (context, from): (&RankContext, Name),
    (to, flow, tag): (Name, FlowId, u64),
    message: &OutgoingMessage<'_>,
    progress: &mut Progress,
) -> SendResult {
    let Some(network) = context.network() else {
        clump_bug::bug!("a flow without a network");
        return SendResult::Refused(Reason::NoSuchEndpoint);
    };
    debug_assert!(
        message.deposit().is_none_or(|(_, len)| len == message.payload.len() as u64),
        "a deposit of another length"
    );
    let route = FrameRoute { from: from.to_bits(), to: to.to_bits(), tag };
    let head = (message.kind.frame(), message.handler.0);
    let message = Message::request(head, route, (message.words, message.payload));
    network.send(flow, &message, progress)
}
