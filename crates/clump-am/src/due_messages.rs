//! Messages that were delayed on purpose, once they are due (docs/adr/0038): the parts of the
//! endpoint that would have received them at once handle them.

use crate::emulation::{Delayed, Hidden, LocalMessage};
use crate::error::Result;
use crate::handler_context::HandlerContext;
use crate::message::MessageKind;
use crate::poll_schedule::PollSchedule;
use crate::receiver::Receiver;
use crate::remote_side::RemoteSide;
use crate::reply_to::ReplyTo;
use crate::tracing::HandlerRun;
use clump_os::clock;
use clump_shm::virtual_time::{Actor, Arrival};
use clump_transport::Urgency;
use clump_wire::{OwnedMessage, Reason};
use std::time::Duration;

/// Time for which a closing endpoint tries to return delayed messages that find no room.
const LAST_RETURNS: Duration = Duration::from_millis(200);

/// Handles the messages that are due. Returns how many.
///
/// # Errors
/// As for any message.
#[cold]
pub(crate) fn handle_due(
    receiver: &mut Receiver,
    mut remote: Option<&mut RemoteSide>,
    handler_context: &mut HandlerContext,
    schedule: &mut PollSchedule,
) -> Result<usize> {
    let (mut handled, mut kept, mut failure) = (0, Vec::new(), None);
    debug_assert!(handler_context.backlog.busy, "polls look for what is due");
    debug_assert!(handler_context.emulation.is_some(), "messages wait");
    while let Some(emulation) = &mut handler_context.emulation
        && let Some((due_ns, Hidden { message, sent, continues })) = emulation.take_due()
    {
        let traced = sent.filter(|_| handler_context.context.trace().is_some());
        let run =
            traced.map(|sent| HandlerRun::begin(message.from().rank(), message.class(), sent));
        let left = match message {
            Delayed::Local(message) => handle_local(receiver, handler_context, message, None),
            Delayed::Remote(queued) => match remote.as_deref_mut() {
                Some(remote) => {
                    let context = (&mut *handler_context, &mut *schedule);
                    handle_remote(receiver, remote, context, (queued, continues)).map(|()| None)
                }
                None => {
                    clump_bug::bug!("a message of another node without a network");
                    Ok(None)
                }
            },
        };
        match left {
            Ok(None) => {
                if let Some(run) = run {
                    run.end(&handler_context.context);
                }
                handled += 1;
            }
            Ok(Some(message)) => kept.push((due_ns, Hidden { message, sent, continues })),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    if let Some(emulation) = &mut handler_context.emulation {
        // They are due at once when their reply path has room again.
        kept.into_iter().for_each(|(due_ns, hidden)| emulation.keep(due_ns, hidden));
    }
    handler_context.note_delayed();
    handler_context.backlog.check_invariants();
    debug_assert!(!handler_context.backlog.delayed || handler_context.backlog.busy);
    if handled > 0
        && let Some(network) = handler_context.context.network()
    {
        network.flush(Urgency::Gathered);
    }
    failure.map_or(Ok(handled), Err)
}

/// Handles a message of another node that is due.
fn handle_remote(
    receiver: &mut Receiver,
    remote: &mut RemoteSide,
    (handler_context, schedule): (&mut HandlerContext, &mut PollSchedule),
    (queued, continues): (OwnedMessage, bool),
) -> Result<()> {
    debug_assert_eq!(queued.route.to, handler_context.name.to_bits(), "another endpoint's");
    let message = Delayed::Remote(queued);
    if let Some(emulation) = handler_context.emulation.as_ref().filter(|_| !continues) {
        emulation.occupy_receiver(handler_context.context.emulated(), &message);
    }
    let Delayed::Remote(queued) = message else { return Ok(()) };
    debug_assert!(queued.handler != 0, "its stamp named a handler");
    let Receiver { inbox, handlers, .. } = receiver;
    let handling = (handlers, inbox.is_holding());
    if !remote.handle(handling, handler_context, &queued.message())? {
        remote.keep([queued]);
        schedule.network_next();
    }
    Ok(())
}

/// Handles a message of this node that is due; returns it if it has to wait longer. `in_time`: its
/// arrival, where time is virtual.
pub(crate) fn handle_local(
    receiver: &mut Receiver,
    handler_context: &mut HandlerContext,
    message: LocalMessage,
    in_time: Option<(&Actor, Arrival)>,
) -> Result<Option<Delayed>> {
    debug_assert!(message.handler != 0, "its stamp named a handler");
    debug_assert!(message.kind != MessageKind::Returned, "it is never hidden");
    if message.request && receiver.inbox.is_holding() {
        return Ok(Some(Delayed::Local(message)));
    }
    let (back, handlers) = match message.request {
        false => (ReplyTo::None, &mut receiver.handlers),
        true => {
            let (from, lane) = (message.from, message.lane);
            let (queue, handlers) = receiver.reply_queue_of(handler_context, from, lane)?;
            if queue.is_stuck() {
                return Ok(Some(Delayed::Local(message)));
            }
            (ReplyTo::Local(queue), handlers)
        }
    };
    let message = Delayed::Local(message);
    if let Some(emulation) = &handler_context.emulation {
        emulation.occupy_receiver(handler_context.context.emulated(), &message);
    }
    let Delayed::Local(message) = message else { return Ok(None) };
    if let Some((actor, arrival)) = in_time {
        actor.begin_handler(arrival, handler_context.role(message.request));
    }
    let done = handlers.handle(handler_context, &message.arrived(), back);
    if let Some((actor, _)) = in_time {
        actor.end_handler(handler_context.role(message.request));
    }
    let done = done?;
    Ok(if done { None } else { Some(Delayed::Local(message)) })
}

/// Returns the messages that wait to their senders, because the endpoint closes.
pub(crate) fn return_all(
    receiver: &mut Receiver,
    remote: Option<&mut RemoteSide>,
    handler_context: &mut HandlerContext,
) {
    let mut waiting = Vec::new();
    if let Some(inbox) = &mut handler_context.virtual_inbox {
        waiting.extend(inbox.take_all().map(Delayed::Local));
    } else if let Some(emulation) = &mut handler_context.emulation {
        waiting = emulation.take_all();
        debug_assert!(!emulation.is_waiting(), "all of them go back");
    }
    let started = clock::now_ns();
    let mut of_other_nodes = Vec::new();
    while !waiting.is_empty() && u128::from(clock::now_ns() - started) < LAST_RETURNS.as_nanos() {
        for message in std::mem::take(&mut waiting) {
            match message {
                Delayed::Remote(queued) => of_other_nodes.push(queued),
                Delayed::Local(message) => {
                    if !return_local(receiver, handler_context, &message) {
                        waiting.push(Delayed::Local(message));
                    }
                }
            }
        }
        receiver.flush_reply_queues(handler_context);
    }
    if let Some(remote) = remote {
        remote.keep(of_other_nodes);
    } else {
        debug_assert!(of_other_nodes.is_empty(), "messages of other nodes without a network");
    }
    handler_context.note_delayed();
}

/// Returns a message to its sender; false if there is no room for that now.
fn return_local(
    receiver: &mut Receiver,
    handler_context: &mut HandlerContext,
    message: &LocalMessage,
) -> bool {
    let Ok((queue, _)) = receiver.reply_queue_of(handler_context, message.from, message.lane)
    else {
        return true;
    };
    debug_assert_eq!(queue.path.to(), message.from, "it is returned to its sender");
    let back = ReplyTo::to(Some(queue));
    // An error means that the requester's memory is unmapped: no endpoint waits for the message.
    let reason = if message.request { Reason::EndpointGone } else { Reason::ReplyRejected };
    back.give_back(handler_context, &message.arrived(), reason).unwrap_or(true)
}
