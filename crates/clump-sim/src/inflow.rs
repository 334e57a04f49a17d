//! Consumption of another endpoint's requests, and the rule for reporting it, as in `clump-am`.

use clump_net::REQUEST_COST;

/// Bytes of one sender's requests: consumed, reported, and asked for.
#[derive(Debug, Default)]
pub(crate) struct Inflow {
    consumed: u64,
    reported: u64,
    asked: Option<u64>,
}

impl Inflow {
    /// Counts a consumed request with this many bytes of payload.
    pub(crate) fn consume(&mut self, payload: usize) {
        self.consumed += REQUEST_COST + payload as u64;
    }

    /// Notes a credit request: the other side wants a report once this total has been consumed.
    /// Credit requests overtake each other: the smallest total is surely reached, and then the
    /// other side asks again.
    pub(crate) fn handle_credit_request(&mut self, total: u64) {
        self.asked = Some(self.asked.map_or(total, |earlier| earlier.min(total)));
    }

    /// Returns the total to report now to the other side, which may have `credit` bytes unconsumed.
    pub(crate) fn due(&mut self, credit: u64) -> Option<u64> {
        let due = self.consumed - self.reported >= credit / 4
            || self.asked.is_some_and(|asked| self.consumed >= asked);
        due.then(|| {
            (self.reported, self.asked) = (self.consumed, None);
            self.consumed
        })
    }

    /// Returns the total consumed if it has not been reported.
    pub(crate) fn untold(&self) -> Option<u64> {
        (self.consumed != self.reported).then_some(self.consumed)
    }
}
