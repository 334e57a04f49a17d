//! Yields of polls that find nothing.
//!
//! Each poll compares its number with that of the next poll that does more, and this comparison
//! triggers the decision, so an idle poll pays nothing for it. The decision and its reasons are
//! described in [`clump_shm::backoff`].

use crate::context::RankContext;
use crate::core::Core;
use crate::error::Result;
use crate::poll::Caller;
use crate::progress::{Pollable, activity_of_bundle, sleep};
use crate::wait_for::WaitFor;
use clump_shm::backoff::PollBackoff;
use clump_shm::rank::WaitReason;
use clump_shm::waiter::WaitStep;
use clump_trace::{Counter, Counters, Flow, Role, Size};
use std::cell::RefCell;
use std::time::Duration;

impl Core {
    /// Performs the first part of a poll of the program: returns how many messages were handled,
    /// and true if [`Core::end_poll`] has to follow.
    #[inline(always)]
    pub(crate) fn begin_poll(&mut self) -> Result<(usize, bool)> {
        let (handled, rare) = self.poll_lanes()?;
        if !rare {
            debug_assert!(!self.handler_context.backlog.has_work(), "no poll does it");
            self.schedule.note_handled(handled);
        }
        Ok((handled, rare))
    }

    /// Performs the rest of a poll that has more to do than check lanes. Returns how many messages
    /// were handled in all, and true if a series of idle polls has become long enough to consider
    /// yielding.
    #[cold]
    pub(crate) fn end_poll(&mut self, handled: usize) -> Result<(usize, bool)> {
        let handled = handled + self.poll_rare(Caller::Program)?;
        debug_assert!(
            !self.schedule.is_idle_window_due(),
            "the window ends with every poll from now on"
        );
        self.schedule.note_handled(handled);
        Ok((handled, handled == 0 && self.schedule.idle_window.take_due()))
    }

    /// Returns a number that grows with all that the program does with this endpoint besides idle
    /// polls: messages sent and handled.
    pub(crate) fn activity(&self) -> u64 {
        let counters = self.handler_context.counters();
        let sent = [Size::Short, Size::Medium, Size::Long].map(|size| {
            let counter = Counter::messages(Role::Request, size, Flow::Sent);
            counters.get(counter).wrapping_add(counters.get(counter.over_network()))
        });
        sent.into_iter().fold(self.handled(), u64::wrapping_add)
    }

    /// Returns true if the program only polled during the window of idle polls that has just ended.
    pub(crate) fn has_only_polled(&mut self) -> bool {
        let (poll, activity) = (self.schedule.polls, self.activity());
        self.schedule.idle_window.has_only_polled(poll, activity)
    }
}

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
