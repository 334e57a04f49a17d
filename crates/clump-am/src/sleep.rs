//! Sleeping until something arrives.

use crate::bundle::each_beside;
use crate::context::RankContext;
use crate::error::Result;
use crate::pollable::Pollable;
use crate::wait_for::{TOO_SHORT, WaitFor};
use clump_trace::{Counter, Counters};
use clump_transport::Urgency;
use std::time::Duration;

/// Sleeps until something arrives, a peer wakes this rank, or the nap of `what` is over.
///
/// # Errors
/// The last call of `done` fails.
pub(crate) fn sleep(
    context: &RankContext,
    mine: &impl Pollable,
    what: &mut impl WaitFor,
) -> Result<()> {
    let counters = Counters::over(context.block().counters());
    mine.arm_notifications();
    each_beside(mine, |member| member.slow().arm_notifications());
    what.before_sleep();
    let announced = context.block().park().announce(context.node().fence());
    what.announced();
    mine.request_room();
    each_beside(mine, |member| member.slow().request_room());
    let mut busy = mine.anything_waiting();
    each_beside(mine, |member| busy |= member.slow().anything_waiting());
    let done = what.done();
    if busy || !matches!(done, Ok(false)) || context.fatal_death().is_some() {
        context.block().park().withdraw(announced);
    } else {
        counters.bump(Counter::Parks);
        let most = what.nap();
        let mut nap = most;
        let mut until_due = |due: Option<Duration>| {
            nap = due.map_or(nap, |due| nap.min(due.saturating_sub(TOO_SHORT)));
        };
        until_due(mine.due_in());
        each_beside(mine, |member| until_due(member.slow().due_in()));
        debug_assert!(nap <= most, "a message that is due shortens a sleep");
        let woken = match (context.network(), context.node().alarm(context.rank())) {
            (Some(network), Some(alarm)) => {
                let due = network.flush(Urgency::Sleep);
                let nap = due.map_or(nap, |due| nap.min(due));
                debug_assert!(due.is_none_or(|due| nap <= due), "the network is polled in time");
                let socket = network.readiness();
                let woken = context.block().park().sleep_on(announced, alarm, socket, Some(nap));
                if woken.other {
                    network.note_watched();
                }
                woken.rung || woken.other
            }
            _ => {
                if let Some(actor) = context.actor() {
                    let mut first_ns = mine.first_due_ns();
                    each_beside(mine, |member| {
                        first_ns = first_ns.into_iter().chain(member.slow().first_due_ns()).min();
                    });
                    actor.set_first_due(first_ns);
                }
                context.block().park().sleep(announced, Some(nap))
            }
        };
        if woken {
            counters.bump(Counter::WakesReceived);
        }
    }
    mine.awake();
    each_beside(mine, |member| member.slow().awake());
    what.after_sleep();
    // `done` may have had effects (a message sent), and returns the same when called again.
    done.map(drop)
}
