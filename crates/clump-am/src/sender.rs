//! The sending part of an endpoint. A request goes through named stages, all in this file:
//! validate, route, append, account. What the transport of its route does then (pack, encrypt,
//! send) is `clump-transport`'s.

use crate::context::RankContext;
use crate::deposit::deposit;
use crate::emulation::StampedWords;
use crate::error::{ErrorKind, Result};
use crate::handler_context::HandlerContext;
use crate::message::{Handler, MAX_CARRIED, MessageKind, OutgoingMessage};
use crate::peer::{Dest, MappedPeer, Route, Tag, reason_for_refusal};
use crate::poll_schedule::PollSchedule;
use crate::reply_queue::ReplyQueue;
use crate::send_sampler::SendSampler;
use crate::translation_table::TranslationTable;
use clump_net::{FlowId, Progress};
use clump_os::clock;
use clump_shm::geometry::{ENDPOINTS, SEGMENT_SPACE};
use clump_shm::inbox::Inbox;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_shm::slot::{Header, INLINE};
use clump_shm::virtual_time::{Actor, CallKind};
use clump_trace::{Counter, Role, histogram};
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

/// The way that a message takes, once its destination admits it.
#[derive(Debug)]
enum ChosenRoute<'a> {
    /// The lane or queue of an endpoint of this node.
    Path(&'a mut Path),
    /// A flow to an endpoint of another node, and the tag that it shows there.
    Flow(FlowId, u64),
    /// None: the reason for which the message comes back.
    Refused(Reason),
}

/// The destinations of an endpoint, and the sample of the times between its messages.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) translation: TranslationTable,
    sampler: SendSampler,
}

impl Sender {
    /// Creates the sending part of the endpoint `name`, without destinations.
    pub(crate) fn new(name: Name) -> Self {
        let sampler = SendSampler::new(name.to_bits() ^ clock::cycles());
        Self { translation: TranslationTable::default(), sampler }
    }

    /// Sends once, or reports that there is no room. `progress`: the fragments of a long message
    /// that earlier attempts have packed for another node. Compiled for the kind of message that
    /// its caller sends.
    ///
    /// # Errors
    /// The table has no such destination; the payload is too long; the target's segment cannot be
    /// mapped; the process is a child by `fork`.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        (handler_context, schedule): (&mut HandlerContext, &mut PollSchedule),
        dest: Dest,
        message: &OutgoingMessage<'_>,
        progress: &mut Progress,
    ) -> Result<SendAttempt> {
        let peer = self.translation.find_mut(dest)?;
        validate(message, progress, handler_context.max_medium)?;
        let to = peer.name;
        debug_assert!(to.generation() != 0 || peer.route.flow().is_none(), "no endpoint's name");
        let sent = match route(peer, message, &handler_context.context)? {
            ChosenRoute::Refused(reason) => SendResult::Refused(reason),
            _ if handler_context.emulates() => {
                append_delayed(handler_context, peer, message, progress)?
            }
            way => append(handler_context, to, way, message, progress)?,
        };
        Ok(account((handler_context, schedule), peer, message, sent))
    }

    /// Sends a message of one slot by the path to an endpoint of this node; returns false if it has
    /// to take the way through all stages.
    #[inline(always)]
    pub(crate) fn push_short(
        &mut self,
        handler_context: &HandlerContext,
        dest: Dest,
        handler: Handler,
        words: &[u64],
    ) -> bool {
        if words.len() <= INLINE
            && handler.0 != 0
            && let Some(peer) = self.translation.get_mut(dest)
            && let Some(path) = peer.route.path_mut().filter(|path| path.admits(peer.tag))
        {
            peer.unchecked = true;
            if path.push(Header::short(handler.0, words.len()), words).is_ok() {
                debug_assert!(!handler_context.emulates(), "paths are diverted meanwhile");
                handler_context.count_short_sent(words.len());
                return true;
            }
        }
        false
    }

    /// Returns a request to handler 0 of this endpoint, because it found no room for too long.
    ///
    /// # Errors
    /// The destination has been unmapped meanwhile, by another thread.
    #[cold]
    pub(crate) fn give_up(
        &mut self,
        handler_context: &mut HandlerContext,
        dest: Dest,
        message: &OutgoingMessage<'_>,
    ) -> Result<()> {
        let peer = self.translation.find_mut(dest)?;
        debug_assert!(message.kind != MessageKind::Returned, "no request");
        handler_context.note_sent(peer.name, message);
        debug_assert!(
            handler_context.context.settings().send_timeout.is_some(),
            "without a send timeout requests wait for ever"
        );
        let why = (Role::Request, Reason::Congestion);
        handler_context.return_to_sender(peer.name, why, message);
        Ok(())
    }

    /// Maps `name` into the translation table, at the first free index. Replies come by lanes of
    /// `inbox`.
    pub(crate) fn map(
        &mut self,
        handler_context: &HandlerContext,
        inbox: &mut Inbox<ReplyQueue>,
        (name, tag, ordered): (Name, Tag, bool),
    ) -> Result<Dest> {
        handler_context.context.check_process()?;
        let node = handler_context.context.node();
        // The network interfaces of nodes are numbered after the ranks.
        let known = name.generation() != 0
            && name.rank() < node.interface_id(node.nnodes())
            && usize::from(name.index()) < ENDPOINTS;
        let (route, reply_lane) = match known {
            false => (Route::Absent, None),
            true if node.is_local(name.rank()) => route_within(handler_context, inbox, name)?,
            true => (route_between(handler_context, name, ordered), None),
        };
        debug_assert!(known || matches!(route, Route::Absent), "a route to nowhere");
        let peer = MappedPeer::new(name, tag, route, reply_lane);
        let dest = self.translation.insert(peer, &handler_context.backlog);
        let mapped = self.translation.get(dest).map(|peer| (peer.name, peer.tag));
        debug_assert_eq!(mapped, Some((name, tag.0)), "the entry of another endpoint");
        Ok(dest)
    }

    /// Samples the time between two messages; returns the polls until the next call.
    pub(crate) fn sample(&mut self, handler_context: &HandlerContext, after_send: bool) -> u32 {
        let sent = handler_context.sent();
        let (polls, time) = self.sampler.on_due(sent, after_send, clock::now_ns);
        if let Some(ns) = time {
            histogram::record(handler_context.block.send_intervals(), ns);
        }
        debug_assert!(polls > 0, "each poll would be sampled");
        polls
    }
}

/// Checks what no destination would take.
///
/// # Errors
/// The payload is too long.
#[inline(always)]
fn validate(message: &OutgoingMessage<'_>, progress: &Progress, most: usize) -> Result<()> {
    let given = message.payload.len();
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
    Ok(())
}

/// Chooses the way to a destination, if that admits the message.
///
/// # Errors
/// The process is a child by `fork`.
#[inline(always)]
fn route<'a>(
    peer: &'a mut MappedPeer,
    message: &OutgoingMessage<'_>,
    context: &RankContext,
) -> Result<ChosenRoute<'a>> {
    // No segment holds it, nor does any buffer.
    if message.payload.len() as u64 > SEGMENT_SPACE {
        return Ok(ChosenRoute::Refused(Reason::BadLength));
    }
    if message.handler.0 == 0 {
        context.check_process()?;
        return Ok(ChosenRoute::Refused(Reason::BadArguments));
    }
    let MappedPeer { name, tag, route, unchecked, .. } = peer;
    match route {
        Route::Local(path) | Route::Own(path) => {
            if path.admits(*tag) {
                *unchecked = true;
                return Ok(ChosenRoute::Path(path));
            }
            // In a forked child's memory all peers are marked as gone.
            context.check_process()?;
            Ok(ChosenRoute::Refused(reason_for_refusal(Some(path), *name, context)))
        }
        Route::Remote(flow) => {
            // Checked before a stack's lock: in a forked child its holder may not exist.
            context.check_process()?;
            debug_assert!(!context.node().is_local(name.rank()), "it is on this node");
            Ok(ChosenRoute::Flow(*flow, *tag))
        }
        Route::Absent => {
            context.check_process()?;
            Ok(ChosenRoute::Refused(reason_for_refusal(None, *name, context)))
        }
    }
}

/// Hands a message on: to the lane or queue of an endpoint of this node, or to the transport
/// between nodes.
///
/// # Errors
/// The target's segment cannot be mapped.
#[inline(always)]
fn append(
    handler_context: &HandlerContext,
    to: Name,
    way: ChosenRoute<'_>,
    message: &OutgoingMessage<'_>,
    progress: &mut Progress,
) -> Result<SendResult> {
    let (flow, tag) = match way {
        ChosenRoute::Path(path) => return append_to_path(path, message),
        ChosenRoute::Refused(reason) => return Ok(SendResult::Refused(reason)),
        ChosenRoute::Flow(flow, tag) => (flow, tag),
    };
    let Some(network) = handler_context.context.network() else {
        clump_bug::bug!("a flow without a network");
        return Ok(SendResult::Refused(Reason::NoSuchEndpoint));
    };
    debug_assert!(
        message.deposit().is_none_or(|(_, len)| len == message.payload.len() as u64),
        "a deposit of another length"
    );
    let route = FrameRoute { from: handler_context.name.to_bits(), to: to.to_bits(), tag };
    let head = (message.kind.frame(), message.handler.0);
    let message = Message::request(head, route, (message.words, message.payload));
    Ok(network.send(flow, &message, progress))
}

/// Hands a message to the lane or queue of an endpoint of this node.
///
/// # Errors
/// The target's segment cannot be mapped.
#[inline(always)]
fn append_to_path(path: &mut Path, message: &OutgoingMessage<'_>) -> Result<SendResult> {
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

/// Appends a message as one that is delayed on purpose, if its interface takes it now.
///
/// # Errors
/// The target's segment cannot be mapped.
#[cold]
#[inline(never)]
fn append_delayed(
    handler_context: &mut HandlerContext,
    peer: &mut MappedPeer,
    message: &OutgoingMessage<'_>,
    progress: &mut Progress,
) -> Result<SendResult> {
    debug_assert!(handler_context.emulates(), "messages are delayed on purpose");
    let to = peer.name;
    if let Some(actor) = handler_context.context.actor() {
        return append_in_virtual_time(handler_context, actor, peer, message);
    }
    let (way, remote) = match &mut peer.route {
        Route::Remote(flow) => (ChosenRoute::Flow(*flow, peer.tag), true),
        Route::Local(path) | Route::Own(path) => {
            // Checked first: the processor is occupied once for a message.
            if !path.has_room() {
                return Ok(SendResult::Full);
            }
            (ChosenRoute::Path(path), false)
        }
        Route::Absent => return Ok(SendResult::Refused(Reason::NoSuchEndpoint)),
    };
    // The rest of a message that was begun was delayed with its beginning.
    if *progress != Progress::default() {
        return append(handler_context, to, way, message, progress);
    }
    let node = handler_context.context.node();
    debug_assert_eq!(remote, !node.is_local(to.rank()), "the route leads there");
    let to_interface = to.rank() as usize >= node.ranks();
    let given = (to, message);
    let Some(stamped) = handler_context.delay_request(given, (remote, to_interface)) else {
        return Ok(SendResult::Full);
    };
    // Interfaces do not handle stamps; the added latency is added to their answers.
    let sent_ns = stamped.sent_ns;
    let stamped = stamped.message(message);
    let given = if to_interface { message } else { &stamped };
    let sent = match way {
        ChosenRoute::Path(path) => {
            let sent = append_to_path(path, given)?;
            if message.kind == MessageKind::Short && sent == SendResult::Sent {
                path.count_stamp();
            }
            sent
        }
        way => append(handler_context, to, way, given, progress)?,
    };
    // What has begun goes on without another look at the knobs.
    let begun = *progress != Progress::default();
    if sent != SendResult::Full || begun {
        handler_context.note_sent(to, message);
    }
    if (sent == SendResult::Sent || begun) && !to_interface {
        handler_context.note_traced_send(to, message, (false, remote), sent_ns);
    }
    Ok(sent)
}

/// Appends a request to the path of its destination. All virtual nodes are parts of one machine, so
/// each destination has one.
///
/// # Errors
/// The target's segment cannot be mapped.
#[cold]
fn append_in_virtual_time(
    handler_context: &HandlerContext,
    actor: &Actor,
    peer: &mut MappedPeer,
    message: &OutgoingMessage<'_>,
) -> Result<SendResult> {
    let to = peer.name;
    let Some(path) = peer.route.path_mut() else {
        debug_assert!(matches!(peer.route, Route::Absent), "no network in virtual time");
        return Ok(SendResult::Refused(Reason::NoSuchEndpoint));
    };
    let began = actor.enter(CallKind::Send);
    // Checked first: a message is charged once.
    if !path.has_room() {
        return Ok(SendResult::Full);
    }
    let Some(record) = actor.begin_send() else { return Ok(SendResult::Full) };
    let stamped = StampedWords::numbered(message, record.number());
    let sent = append_to_path(path, &stamped.message(message))?;
    if sent == SendResult::Sent {
        if message.kind == MessageKind::Short {
            path.count_stamp();
        }
        actor.send(
            record,
            actor.number_of(to),
            message.charged_bytes(),
            handler_context.role(true),
        );
        let remote = actor.is_far(to);
        handler_context.note_traced_send(to, message, (false, remote), clock::now_ns());
    } else {
        actor.give_up(record);
    }
    debug_assert!(message.handler.0 != 0, "the handler is in the last word");
    if sent != SendResult::Full && began {
        actor.begin_part();
    }
    Ok(sent)
}

/// Counts a message that was sent, returns one that was refused to handler 0, and has the next poll
/// make room for one that found none.
#[inline(always)]
fn account(
    (handler_context, schedule): (&mut HandlerContext, &mut PollSchedule),
    peer: &MappedPeer,
    message: &OutgoingMessage<'_>,
    sent: SendResult,
) -> SendAttempt {
    let (name, remote) = (peer.name, peer.route.flow().is_some());
    debug_assert!(sent == SendResult::Full || message.kind != MessageKind::Returned, "no request");
    match sent {
        SendResult::Sent => {
            message.count_sent(handler_context.counters(), Role::Request, remote);
            if remote {
                handler_context.count_remote(name, message);
            }
            SendAttempt::Sent
        }
        SendResult::Full => {
            handler_context.counters().bump(peer.route.full_counter());
            if remote {
                schedule.network_next();
            }
            SendAttempt::Full
        }
        SendResult::Refused(reason) => {
            handler_context.return_to_sender(name, (Role::Request, reason), message);
            SendAttempt::Sent
        }
    }
}

/// Creates the route to an endpoint of this node; also returns the lane that takes its replies.
fn route_within(
    handler_context: &HandlerContext,
    inbox: &mut Inbox<ReplyQueue>,
    name: Name,
) -> Result<(Route, Option<usize>)> {
    let HandlerContext { context, name: me, .. } = handler_context;
    let lanes = context.settings().lanes;
    let reply_lane = if lanes { inbox.claim_reply_lane(name) } else { None };
    let mut path = Path::for_requests(context.node(), *me, name, reply_lane)?;
    path.divert(handler_context.emulates());
    let has_lane = path.has_lane();
    debug_assert!(reply_lane.is_some() || !has_lane, "a lane without one for its replies");
    if has_lane {
        handler_context.counters().bump(Counter::LaneClaims);
    }
    debug_assert!(name.generation() != 0, "no endpoint has generation 0");
    let own = name == *me && has_lane;
    Ok((if own { Route::Own(path) } else { Route::Local(path) }, reply_lane))
}

/// Creates the route to an endpoint of another node.
fn route_between(handler_context: &HandlerContext, name: Name, ordered: bool) -> Route {
    let HandlerContext { context, name: me, .. } = handler_context;
    debug_assert!(!context.node().is_local(name.rank()), "of this node");
    let network = context.network();
    debug_assert!(network.is_some(), "a job of several nodes has a network");
    network.map_or(Route::Absent, |network| {
        Route::Remote(network.open_flow(me.to_bits(), name.to_bits(), ordered))
    })
}
