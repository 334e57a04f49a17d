//! Attempts to send a request of any size to any destination.

use crate::core::Core;
use crate::deposit::deposit;
use crate::error::{ErrorKind, Result};
use crate::message::{MAX_CARRIED, MessageKind, OutgoingMessage};
use crate::peer::{Dest, Route};
use crate::reason::Reason;
use clump_net::{FlowId, Progress, Pushed, Request};
use clump_shm::geometry::SEGMENT_SPACE;
use clump_shm::path::Path;
use clump_trace::{Counter, Role};
use clump_transport::Network;

/// Result of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SendAttempt {
    /// The message is on its way (or is being returned).
    Sent,
    /// There is no room now; poll, and try again.
    Full,
}

/// Result of handing a message to a path or to the network.
enum Handover {
    Accepted { remote: bool },
    Full(Counter),
    Refused(Reason),
}

impl Core {
    /// Sends once, or says that there is no room. `progress`: the fragments of a long message that
    /// earlier attempts have packed for another node.
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
        let handover = match &mut peer.route {
            // No segment holds it, nor does any buffer.
            _ if given as u64 > SEGMENT_SPACE => Handover::Refused(Reason::BadLength),
            _ if message.handler.0 == 0 => {
                context.check_process()?;
                Handover::Refused(Reason::BadArguments)
            }
            Route::Local(path) | Route::Own(path) if path.admits(peer.tag) => {
                peer.unchecked = true;
                by_path(path, message)?
            }
            Route::Remote(flow) => {
                // Checked before the stack's lock: in a forked child its holder may not exist.
                context.check_process()?;
                match context.network() {
                    Some(network) => by_network(network, *flow, peer.tag, message, progress),
                    None => {
                        debug_assert!(false, "a flow without a network");
                        Handover::Refused(Reason::NoSuchEndpoint)
                    }
                }
            }
            _ => {
                // The memory that a forked child sees says that all peers are gone.
                context.check_process()?;
                Handover::Refused(peer.reason_for_refusal(context))
            }
        };
        let name = peer.name;
        match handover {
            Handover::Accepted { remote } => {
                let far =
                    self.translation.get(dest).is_some_and(|peer| peer.route.flow().is_some());
                debug_assert_eq!(remote, far, "counted as if it went the other way");
                message.count_sent(handler_context.counters(), Role::Request, remote);
                Ok(SendAttempt::Sent)
            }
            Handover::Full(counter) => {
                handler_context.counters().bump(counter);
                if counter == Counter::NetFull {
                    self.schedule.network_next();
                }
                Ok(SendAttempt::Full)
            }
            Handover::Refused(reason) => {
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
        let peer = self.translation.get(dest).ok_or(ErrorKind::NoSuchDestination(dest.0))?;
        let why = (Role::Request, Reason::Congestion);
        self.handler_context.return_to_sender(peer.name, why, message);
        Ok(())
    }
}

/// Hands a message to the lane or queue of an endpoint of this node.
#[inline(always)]
fn by_path(path: &mut Path, message: &OutgoingMessage<'_>) -> Result<Handover> {
    debug_assert!(message.handler.0 != 0, "handler 0 takes no requests");
    let full = if path.has_lane() { Counter::LaneFull } else { Counter::QueueFull };
    if message.kind == MessageKind::Long {
        // Checked before the deposit: a payload is not copied again on every attempt.
        if !path.has_room() {
            return Ok(Handover::Full(full));
        }
        if let Some(reason) = deposit(path, message)? {
            return Ok(Handover::Refused(reason));
        }
    }
    Ok(match path.push_any(message.header(), message.words, message.beside()) {
        Ok(()) => Handover::Accepted { remote: false },
        Err(_) => Handover::Full(full),
    })
}

/// Hands a message to the transport between nodes.
fn by_network(
    network: &Network,
    flow: FlowId,
    tag: u64,
    message: &OutgoingMessage<'_>,
    progress: &mut Progress,
) -> Handover {
    debug_assert!(message.handler.0 != 0, "handler 0 takes no requests");
    debug_assert!(
        message.deposit().is_none_or(|(_, len)| len == message.payload.len() as u64),
        "a deposit of another length"
    );
    let &OutgoingMessage { kind, handler, words, payload } = message;
    let request = Request { flow, tag, kind: kind.frame(), handler: handler.0, words };
    let pushed = match kind {
        MessageKind::Long => network.request_long(&request, payload, progress),
        _ => network.request(&request, payload),
    };
    match pushed {
        Pushed::Accepted => Handover::Accepted { remote: true },
        Pushed::Full => Handover::Full(Counter::NetFull),
        Pushed::Lost(refusal) => Handover::Refused(Reason::from(refusal)),
    }
}
