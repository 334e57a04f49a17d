//! Idle polls of the program: the poll at which to consider yielding, and the yield.
//!
//! Each poll compares its number with that of the next poll that does more, and this comparison
//! triggers the decision, so an idle poll pays nothing for it. The decision and its reasons are
//! described in [`clump_shm::backoff`].

use crate::context::RankContext;
use crate::core::Core;
use crate::dispatch::Caller;
use crate::error::Result;
use crate::progress::{Pollable, WaitFor, activity_of_bundle, sleep};
use clump_shm::backoff::{PollBackoff, PollWindow, WINDOW};
use clump_shm::rank::WaitReason;
use clump_shm::waiter::WaitStep;
use clump_trace::{Counter, Counters, Flow, Role, Size};
use clump_transport::Network;
use std::cell::RefCell;
use std::time::Duration;

/// Polls of the program that have found nothing.
#[derive(Debug, Default)]
pub(crate) struct Vain {
    /// Number of the poll that considers yielding.
    pub(crate) due: u32,
    /// True once that poll has come.
    is_due: bool,
    window: PollWindow,
    /// Activity of the endpoint when the window began.
    activity: u64,
}

impl Vain {
    /// Marks poll number `poll` as due, if the program made it; the next is due after a window.
    pub(crate) fn on_due(&mut self, poll: u32, caller: Caller) {
        self.due = poll.wrapping_add(WINDOW);
        self.is_due = caller == Caller::Program;
    }
}

impl Core {
    /// Performs the first part of a poll of the program: returns how many messages were handled,
    /// and true if [`Core::end_poll`] has to follow.
    #[inline(always)]
    pub(crate) fn begin_poll(&mut self) -> Result<(usize, bool)> {
        let (handled, rare) = self.poll_lanes()?;
        if !rare {
            self.busy_polls += u32::from(handled > 0);
        }
        Ok((handled, rare))
    }

    /// Performs the rest of a poll that has more to do than check lanes. Returns how many messages
    /// were handled in all, and true if a series of idle polls has become long enough to consider
    /// yielding.
    #[cold]
    pub(crate) fn end_poll(&mut self, handled: usize) -> Result<(usize, bool)> {
        let handled = handled + self.poll_rare(Caller::Program)?;
        self.busy_polls += u32::from(handled > 0);
        Ok((handled, handled == 0 && std::mem::take(&mut self.vain.is_due)))
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
        let activity = self.activity();
        let same = std::mem::replace(&mut self.vain.activity, activity) == activity;
        same && self.vain.window.is_back_to_back(self.schedule.polls)
    }

    /// Begins a window of so many idle polls, after which yielding is considered again.
    pub(crate) fn begin_window(&mut self, polls: u32) {
        debug_assert!(polls > 0, "a window without polls");
        self.vain.window.begin(self.schedule.polls);
        self.vain.due = self.schedule.polls.wrapping_add(polls);
        if (self.schedule.due.wrapping_sub(self.vain.due) as i32) > 0 {
            self.schedule.due = self.vain.due;
        }
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
/// it. Yields or sleeps for a moment if this thread has done nothing else for long, and others want
/// its processor. Returns true if it did; the next poll finds what has arrived meanwhile, and then
/// [`note_arrival`] is to be called.
///
/// # Errors
/// Polling finds an error.
#[cold]
pub fn give_way(context: &RankContext, mine: &impl Pollable, only_polled: bool) -> Result<bool> {
    let heard = context.network().map_or(0, Network::packets_heard);
    let activity = mine.activity().wrapping_add(heard).wrapping_add(activity_of_bundle());
    let next = BACKOFF.with_borrow_mut(|backoff| {
        if only_polled {
            return backoff.step(context.spin_policy(), activity);
        }
        backoff.begin(activity);
        WaitStep::Look
    });
    let counters = Counters::over(context.block().counters());
    match next {
        WaitStep::Look => return Ok(false),
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
