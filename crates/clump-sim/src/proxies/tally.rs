//! Counts of all stations together.

use crate::kernel::Time;

/// Counts of all stations together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Messages handed over and not handled, and the time of the last change.
    pub(super) under_way: u64,
    pub(super) changed: Time,
    /// Integral of that number over time.
    pub(crate) under_way_time: u128,
    pub(crate) handled: u64,
    /// The sum of their times from end to end.
    pub(crate) end_to_end: u128,
    /// Number of times a rank found no room.
    pub(crate) refused: u64,
}

impl Tally {
    pub(super) fn change(&mut self, now: Time, by: i64) {
        let span = now.saturating_sub(self.changed);
        self.under_way_time += u128::from(self.under_way) * u128::from(span);
        self.under_way = self.under_way.saturating_add_signed(by);
        self.changed = now;
    }

    /// Returns true if everything that was handed over was handled.
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way == 0
    }

    pub(super) fn on_handled(&mut self, now: Time, sent: Time) {
        self.change(now, -1);
        self.handled += 1;
        self.end_to_end += u128::from(now.saturating_sub(sent));
    }
}
