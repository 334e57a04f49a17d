//! Idle polls of the program: the poll at which to consider yielding.

use clump_shm::backoff::{PollWindow, WINDOW};

/// Polls of the program that have found nothing.
#[derive(Debug, Default)]
pub(crate) struct IdlePollWindow {
    /// Number of the poll that considers yielding.
    pub(crate) due: u32,
    /// True once that poll has come.
    is_due: bool,
    window: PollWindow,
    /// Activity of the endpoint when the window began.
    activity: u64,
}

impl IdlePollWindow {
    /// Marks poll number `poll` as due, if the program made it (`by_program`); the next is due
    /// after a window.
    pub(crate) fn on_due(&mut self, poll: u32, by_program: bool) {
        debug_assert!(poll.wrapping_sub(self.due) as i32 >= 0, "the window goes on");
        self.due = poll.wrapping_add(WINDOW);
        self.is_due = by_program;
    }

    /// Returns true if a poll of the program was due, once.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Returns true if the program only polled during the window that has just ended, with poll
    /// number `poll`.
    pub(crate) fn has_only_polled(&mut self, poll: u32, activity: u64) -> bool {
        debug_assert!(!self.is_due, "`take_due` comes first");
        let same = std::mem::replace(&mut self.activity, activity) == activity;
        same && self.window.is_back_to_back(poll)
    }

    /// Begins a window of `polls` idle polls after poll number `poll`.
    pub(crate) fn begin_window(&mut self, poll: u32, polls: u32) {
        debug_assert!(polls > 0 && polls <= i32::MAX as u32, "a window of {polls} polls");
        self.window.begin(poll);
        self.due = poll.wrapping_add(polls);
    }
}
