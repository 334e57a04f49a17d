//! Polls in virtual time (docs/virtual.md): ordered among those of other ranks, and each message
//! handled when it is due.

use crate::due_messages::handle_local;
use crate::emulation::Delayed;
use crate::error::Result;
use crate::handler_context::HandlerContext;
use crate::receiver::Receiver;
use crate::tracing::HandlerRun;
use clump_shm::virtual_time::{Actor, CallKind};
use clump_trace::event::send_key;

/// Begins a poll: waits until all that is due by now has been sent. `after_send`: the send has
/// charged what came before it.
///
/// # Errors
/// All ranks wait for each other.
#[cold]
pub(crate) fn order(
    handler_context: &HandlerContext,
    actor: &Actor,
    after_send: bool,
) -> Result<()> {
    handler_context.context.check_virtual_time()?;
    debug_assert!(handler_context.backlog.ordered, "where time is virtual");
    if after_send {
        actor.enter_quietly();
    } else {
        actor.enter(CallKind::Poll);
    }
    actor.order();
    debug_assert!(!actor.enter(CallKind::Poll), "a poll is a call of the runtime");
    Ok(())
}

/// Handles the messages that are due. Returns how many.
///
/// # Errors
/// As for any message.
#[cold]
pub(crate) fn handle_due(
    receiver: &mut Receiver,
    handler_context: &mut HandlerContext,
    actor: &Actor,
) -> Result<usize> {
    let now_ns = actor.clock_ns();
    if let Some(inbox) = &mut handler_context.virtual_inbox {
        inbox.begin_poll(actor);
    }
    debug_assert!(handler_context.virtual_inbox.is_some(), "where time is virtual");
    let (mut count, mut kept, mut failure) = (0, Vec::new(), None);
    while let Some(inbox) = &mut handler_context.virtual_inbox
        && failure.is_none()
        && let Some((arrival, message)) = inbox.take_due(now_ns)
    {
        let message = Delayed::Local(message);
        let run = handler_context.context.trace().map(|_| {
            let class = message.class_in_virtual_time(actor);
            HandlerRun::begin(message.from().rank(), class, send_key(arrival.sent_ns))
        });
        let Delayed::Local(message) = message else { break };
        match handle_local(receiver, handler_context, message, Some((actor, arrival))) {
            Ok(None) => {
                if let Some(run) = run {
                    run.end(&handler_context.context);
                }
                count += 1;
            }
            Ok(Some(Delayed::Local(message))) => kept.push((arrival, message)),
            Ok(Some(Delayed::Remote(_))) => clump_bug::bug!("a message of another node"),
            Err(error) => failure = Some(error),
        }
    }
    if let Some(inbox) = &mut handler_context.virtual_inbox {
        inbox.keep(kept);
    }
    debug_assert!(actor.clock_ns() >= now_ns, "clocks go on");
    failure.map_or(Ok(count), Err)
}

/// Returns true if messages that were due are to be handled by the next poll, and true if replies
/// wait for room.
pub(crate) fn keeps(handler_context: &HandlerContext) -> (bool, bool) {
    let HandlerContext { virtual_inbox, backlog, .. } = handler_context;
    debug_assert!(backlog.busy || !backlog.ordered, "each poll tries both");
    let messages = virtual_inbox.as_ref().is_some_and(|inbox| inbox.keeps());
    (messages, backlog.stuck_queues != 0)
}
