//! The rate of polling the network: a poll of the network costs a system call, a poll of shared
//! memory some nanoseconds (paper 000, section 3.4).
//!
//! As in the paper the rate follows from how many of the last 32 polls of the network found
//! something, between a least and a largest rate. The rates are today's: ADR 13 derives them.

/// Polls of the network that are remembered.
const REMEMBERED: u32 = 32;

/// Factor by which polls in a wait are rarer while nothing arrives (ADR 13).
const COLD_FACTOR: u32 = 8;

/// The schedule of polls of the network, counted in polls of shared memory.
#[derive(Debug, Clone)]
pub struct Polling {
    /// One bit per poll of the network, the newest lowest: set if it found anything.
    history: u32,
    least: u32,
    most: u32,
}

impl Polling {
    /// Creates a schedule of between one in `least` and one in `most` polls.
    pub fn new(least: u32, most: u32) -> Self {
        Self { history: 0, least: least.max(1), most: most.max(least.max(1)) }
    }

    /// Records the result of a poll of the network; returns after how many polls of shared memory
    /// the next is due.
    #[inline]
    pub fn on_poll(&mut self, found: bool) -> u32 {
        self.history = self.history << 1 | u32::from(found);
        debug_assert!(!found || self.history & 1 == 1, "the newest lies lowest");
        self.interval()
    }

    /// Returns the polls of shared memory between two polls of the network: halved for every
    /// quarter of the history that was a success, at once for the newest.
    #[inline]
    pub fn interval(&self) -> u32 {
        let hits = self.history.count_ones();
        if hits == 0 || self.least == self.most {
            return self.most;
        }
        debug_assert!(self.least < self.most && hits <= REMEMBERED, "between the rates");
        let span = (self.most / self.least).max(1).ilog2();
        // After one success the network is likely to have more; the more successes the likelier.
        let steps = span.div_ceil(2) + span / 2 * hits / REMEMBERED;
        (self.most >> steps.min(span)).max(self.least)
    }

    /// Returns the interval for a caller that only polls, with some nanoseconds from one poll of
    /// shared memory to the next.
    #[inline]
    pub fn interval_in_wait(&self) -> u32 {
        let cold = self.history == 0 && self.most > self.least;
        if cold { self.most.saturating_mul(COLD_FACTOR) } else { self.interval() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_what_was_found_between_its_bounds() {
        let mut polling = Polling::new(8, 512);
        assert_eq!(polling.interval(), 512);
        let mut last = polling.on_poll(true);
        assert!(last < 512, "one success makes the next look come sooner");
        for _ in 1..32 {
            let next = polling.on_poll(true);
            assert!(next <= last);
            last = next;
        }
        assert_eq!(last, 8);
        for _ in 0..31 {
            let next = polling.on_poll(false);
            assert!(next >= last);
            last = next;
        }
        assert_eq!(polling.interval_in_wait(), polling.interval());
        assert_eq!(polling.on_poll(false), 512, "after 32 failures nothing is remembered");
        assert_eq!(polling.interval_in_wait(), 8 * 512);
    }

    #[test]
    fn odd_bounds_are_put_right() {
        assert_eq!(Polling::new(0, 0).interval(), 1);
        assert_eq!(Polling::new(0, 0).interval_in_wait(), 1);
        assert_eq!(Polling::new(8, 2).on_poll(true), 8);
    }
}
