//! The polls at which an endpoint has more to do than check its lanes.

use crate::idle_poll_window::IdlePollWindow;
use clump_trace::{Counter, Counters};

/// Polls between two rounds of housekeeping.
const HOUSEKEEPING_EVERY: u32 = 8192;

/// Numbers of polls; they wrap. A poll compares its number with [`PollSchedule::due`] alone.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PollSchedule {
    /// Polls so far.
    pub(crate) polls: u32,
    /// Number of the next poll that has more to do.
    due: u32,
    /// Number of the next poll that polls the network.
    network_due: u32,
    /// Number of the next poll that does housekeeping.
    housekeeping_due: u32,
    /// Number of the next poll that samples the times between sends.
    sample_due: u32,
    /// Idle polls of the program.
    pub(crate) idle_window: IdlePollWindow,
    /// Polls since the last count that handled something.
    busy: u32,
    /// Number of the last poll that was counted.
    counted: u32,
}

// Inline code of other languages counts its polls and compares (`crate::view`).
const _: () = assert!(std::mem::offset_of!(PollSchedule, polls) == 0);
const _: () = assert!(std::mem::offset_of!(PollSchedule, due) == size_of::<u32>());

/// Returns true if poll number `due` is at or before poll number `now`; numbers wrap.
#[inline(always)]
fn has_come(due: u32, now: u32) -> bool {
    due.wrapping_sub(now) as i32 <= 0
}

impl Default for PollSchedule {
    fn default() -> Self {
        Self {
            polls: 0,
            due: 1,
            network_due: 1,
            housekeeping_due: 1,
            sample_due: 1,
            idle_window: IdlePollWindow::default(),
            busy: 0,
            counted: 0,
        }
    }
}

impl PollSchedule {
    /// Checks relations that hold between polls.
    pub(crate) fn check_invariants(&self) {
        debug_assert!(has_come(self.due, self.housekeeping_due), "housekeeping is forgotten");
        debug_assert!(
            has_come(self.housekeeping_due, self.polls.wrapping_add(HOUSEKEEPING_EVERY)),
            "the next round of housekeeping is further away than the interval"
        );
        debug_assert!(has_come(self.counted, self.polls), "polls are counted before they happen");
    }

    /// Begins the next poll.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.polls = self.polls.wrapping_add(1);
    }

    /// Counts the current poll as one that handled messages, if it did.
    #[inline(always)]
    pub(crate) fn note_handled(&mut self, handled: usize) {
        self.busy += u32::from(handled > 0);
    }

    /// Returns true if the current poll has more to do.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        has_come(self.due, self.polls)
    }

    /// Returns true if the current poll polls the network.
    pub(crate) fn is_network_due(&self) -> bool {
        has_come(self.network_due, self.polls)
    }

    /// Returns true if the current poll does housekeeping, and schedules the next.
    pub(crate) fn take_housekeeping(&mut self) -> bool {
        let due = has_come(self.housekeeping_due, self.polls);
        if due {
            self.housekeeping_due = self.polls.wrapping_add(HOUSEKEEPING_EVERY);
        }
        debug_assert!(!has_come(self.housekeeping_due, self.polls), "due twice");
        due
    }

    /// Returns true if the current poll samples the times between sends.
    pub(crate) fn is_sample_due(&self) -> bool {
        has_come(self.sample_due, self.polls)
    }

    /// Schedules a sample of the times between sends in `polls` polls.
    pub(crate) fn sample_in(&mut self, polls: u32) {
        self.sample_due = self.polls.wrapping_add(polls);
        debug_assert!(!self.is_sample_due(), "due again in the same poll");
    }

    /// Returns true if the current poll considers yielding.
    pub(crate) fn is_idle_window_due(&self) -> bool {
        has_come(self.idle_window.due, self.polls)
    }

    /// Begins a window of `polls` idle polls, after which one considers yielding.
    pub(crate) fn begin_window(&mut self, polls: u32) {
        debug_assert!(polls > 0, "a window without polls");
        self.idle_window.begin_window(self.polls, polls);
        self.due_by(self.idle_window.due);
        debug_assert!(has_come(self.due, self.idle_window.due), "the window ends unseen");
    }

    /// Schedules a poll of the network in `polls` polls.
    pub(crate) fn network_in(&mut self, polls: u32) {
        debug_assert!(polls <= i32::MAX as u32, "so far ahead that it wraps around");
        self.network_due = self.polls.wrapping_add(polls);
        debug_assert_eq!(self.is_network_due(), polls == 0, "due too early");
    }

    /// Puts the next poll of the network off for `polls` polls, if it is due before.
    pub(crate) fn network_not_before(&mut self, polls: u32) {
        let soonest = self.polls.wrapping_add(polls);
        if has_come(self.network_due, soonest) {
            self.network_due = soonest;
        }
        debug_assert!(has_come(soonest, self.network_due), "due before the soonest");
    }

    /// Makes the current poll poll the network.
    pub(crate) fn network_now(&mut self) {
        self.network_due = self.polls;
        self.due_by(self.polls);
        debug_assert!(self.is_due() && self.is_network_due());
    }

    /// Makes the next poll poll the network.
    #[inline]
    pub(crate) fn network_next(&mut self) {
        self.network_due = self.polls.wrapping_add(1);
        self.due_by(self.network_due);
        debug_assert!(has_come(self.due, self.network_due), "the next poll, or this one");
    }

    /// Schedules the next poll that has more to do. `network`: there is one to be polled.
    pub(crate) fn reschedule(&mut self, network: bool) {
        self.due = self.housekeeping_due;
        self.due_by(self.sample_due);
        self.due_by(self.idle_window.due);
        if network {
            self.due_by(self.network_due);
            debug_assert!(has_come(self.due, self.network_due), "the network is forgotten");
        }
        debug_assert!(has_come(self.due, self.idle_window.due), "idle polls are forgotten");
        debug_assert!(has_come(self.due, self.housekeeping_due), "housekeeping is forgotten");
    }

    fn due_by(&mut self, poll: u32) {
        if has_come(poll, self.due) {
            self.due = poll;
        }
    }

    /// Adds the polls made since the last call to the counters; in between they are counted
    /// privately, because they are a hundred times as frequent as anything else.
    pub(crate) fn count(&mut self, counters: Counters<'_>) {
        let polls = self.polls.wrapping_sub(std::mem::replace(&mut self.counted, self.polls));
        let busy = std::mem::take(&mut self.busy);
        debug_assert!(self.counted == self.polls && self.busy == 0, "counted twice");
        // The poll that is under way is noted at its end.
        debug_assert!(busy <= polls.saturating_add(1), "{busy} of {polls} polls found messages");
        counters.add(Counter::Polls, u64::from(polls));
        counters.add(Counter::PollsEmpty, u64::from(polls.saturating_sub(busy)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_not_put_off_by_a_poll_of_the_network() {
        let mut schedule = PollSchedule::default();
        schedule.begin();
        assert!(schedule.is_due() && schedule.take_housekeeping());
        schedule.reschedule(true);
        for _ in 0..2 * HOUSEKEEPING_EVERY {
            schedule.begin();
            // A request that finds the network full requests a poll of it, again and again.
            schedule.network_next();
            schedule.check_invariants();
            if schedule.is_due() {
                if schedule.take_housekeeping() {
                    return;
                }
                schedule.reschedule(true);
            }
        }
        panic!("housekeeping was put off for ever");
    }
}
