//! Sending without room: polls and waits until the message is sent or returned.

use crate::context::RankContext;
use crate::endpoint::Ownership;
use crate::error::{ErrorKind, Result};
use crate::failures::Failures;
use crate::message::{MessageKind, OutgoingMessage};
use crate::peer::Dest;
use crate::pollable::Pollable;
use crate::progress::{NAP_FOR_ROOM, block_on};
use crate::sender::SendAttempt;
use crate::wait_for::{NAP, Room};
use clump_net::Progress;
use clump_os::clock;
use std::cell::Cell;

/// Sends `message` from the endpoint behind `hold` as soon as there is room; `bundle` is polled
/// meanwhile. If there is no room until the rank's send timeout, the message is returned.
/// `progress`: what earlier attempts have packed of it.
///
/// # Errors
/// Polling finds an error, and nothing was sent. Of a payload that is partly packed the rest is
/// sent all the same; the next poll returns the error.
#[cold]
pub(crate) fn send_slowly<H: Ownership>(
    hold: &H,
    bundle: &impl Pollable,
    context: &RankContext,
    dest: Dest,
    message: &OutgoingMessage<'_>,
    progress: Progress,
) -> Result<()> {
    // Shared with the loop below, which reads it between two attempts.
    let packed = Cell::new(progress);
    let is_begun = || packed.get() != Progress::default();
    let send_timeout = context.settings().send_timeout;
    let started = clock::now_ns();
    debug_assert!(message.kind != MessageKind::Returned, "no request");
    let peer = hold.core()?.sender.translation.rank_of(dest);
    let mut sent = false;
    let attempt = || {
        if sent {
            return Ok(true);
        }
        debug_assert!(!is_begun() || message.kind == MessageKind::Long, "parts of a short message");
        let waited = u128::from(clock::now_ns() - started);
        let core = &mut *hold.core()?;
        // A partly packed payload is on its way, and has to be sent whole.
        if send_timeout.is_some_and(|p| waited > p.as_nanos()) && !is_begun() {
            core.sender.give_up(&mut core.handler_context, dest, message)?;
            sent = true;
        } else {
            let mut progress = packed.get();
            let attempt = core.attempt(dest, message, &mut progress);
            packed.set(progress);
            sent = attempt? == SendAttempt::Sent;
        }
        Ok(sent)
    };
    let ask = || {
        if let Ok(core) = hold.core() {
            core.sender.translation.request_room(dest);
        }
    };
    let reachable = context.node().is_local(peer) || context.network().is_some();
    debug_assert!(reachable, "a wait for room at a rank that nothing leads to");
    let own_stack = !context.node().is_local(peer) && context.node().proxies() == 0;
    let nap = if own_stack { NAP_FOR_ROOM } else { NAP };
    let nap = send_timeout.map_or(nap, |send_timeout| nap.min(send_timeout));
    let mut room = Room { attempt, ask, peer, nap };
    let mut failures = Failures::default();
    while let Err(error) = block_on(context, bundle, &mut room) {
        // These errors concern one message, which is lost; any other error persists.
        let passing = matches!(
            error.kind(),
            ErrorKind::HandlerFailed { .. }
                | ErrorKind::Unclaimed { .. }
                | ErrorKind::CorruptPacket(_)
        );
        if !passing || !is_begun() {
            return Err(error);
        }
        debug_assert!(is_begun(), "an error is kept of a message that is sent");
        failures.keep(error);
    }
    debug_assert!(sent, "a wait for room ended before the message was sent");
    let core = &mut *hold.core()?;
    while let Some(error) = failures.next() {
        core.handler_context.keep_failure(error);
    }
    if let Err(error) = core.receiver.handlers.deliver_returned(&mut core.handler_context) {
        core.handler_context.keep_failure(error);
    }
    Ok(())
}
