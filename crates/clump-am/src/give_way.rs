//! Yields of polls that find nothing.
//!
//! Each poll compares its number with that of the next poll that does more, and this comparison
//! triggers the decision, so an idle poll pays nothing for it. The decision and its reasons are
//! described in [`clump_shm::backoff`].

use crate::context::RankContext;
use crate::error::Result;
use crate::pollable::Pollable;
use crate::progress::activity_of_bundle;
use crate::sleep::sleep;
use crate::wait_for::WaitFor;
use clump_shm::backoff::PollBackoff;
use clump_shm::rank::WaitReason;
use clump_shm::waiter::WaitStep;
use clump_trace::{Counter, Counters};
use std::cell::RefCell;
use std::time::Duration;

thread_local! {
    static BACKOFF: RefCell<PollBackoff> = RefCell::default();
}

/// Longest sleep inside a poll: the program may wait for something that no message announces.
const NAP_IN_POLL: Duration = Duration::from_micros(200);

/// Waits for any arrival.
struct Arrival;

impl WaitFor for Arrival {
    fn done(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Message
    }

    fn nap(&self) -> Duration {
        NAP_IN_POLL
    }
}

/// Called after a window of idle polls of `mine`; `only_polled`: the program did nothing else with
/// it. Yields or sleeps for a moment if this thread has done nothing else for long, and others are
/// runnable on its processor. Returns true if it did; the next poll finds what has arrived
/// meanwhile, and then [`note_arrival`] is to be called.
///
/// # Errors
/// Polling finds an error.
#[cold]
pub fn give_way(context: &RankContext, mine: &impl Pollable, only_polled: bool) -> Result<bool> {
    if context.actor().is_some() {
        return Ok(false);
    }
    let heard = context.network().map_or(0, |network| network.packets_heard());
    let activity = mine.activity().wrapping_add(heard).wrapping_add(activity_of_bundle());
    let next = BACKOFF.with_borrow_mut(|backoff| {
        if only_polled {
            return backoff.step(context.spin_policy(), activity);
        }
        backoff.begin(activity);
        WaitStep::Poll
    });
    debug_assert!(only_polled || next == WaitStep::Poll, "a program that works is left alone");
    let counters = Counters::over(context.block().counters());
    match next {
        WaitStep::Poll => return Ok(false),
        WaitStep::Yielded => {
            counters.bump(Counter::Yields);
            counters.bump(Counter::PollYields);
            if context.network().is_some() {
                mine.force_network_poll();
            }
        }
        WaitStep::Sleep => {
            counters.bump(Counter::PollSleeps);
            sleep(context, mine, &mut Arrival)?;
            if context.network().is_some() {
                mine.force_network_poll();
            }
        }
    }
    Ok(true)
}

/// Notes that the poll after [`give_way`] has found something.
#[cold]
pub fn note_arrival() {
    BACKOFF.with_borrow_mut(PollBackoff::note_arrival);
}
