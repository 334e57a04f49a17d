//! How often to look at the network: a look costs a system call, a look at shared memory some
//! nanoseconds (paper 000, section 3.4).
//!
//! As in the paper the rate follows from how many of the last 32 looks at the network found something,
//! between a least and a largest rate. The rates are today's: ADR 13 derives them.

/// Looks at the network that are remembered.
const REMEMBERED: u32 = 32;

/// So much rarer are looks in a wait while nothing comes (ADR 13).
const COLD_FACTOR: u32 = 8;

/// When to look at the network next, counted in looks at shared memory.
#[derive(Debug, Clone)]
pub struct Polling {
    /// One bit per look at the network, the newest lowest: whether it found anything.
    history: u32,
    least: u32,
    most: u32,
}

impl Polling {
    /// Between one in `least` and one in `most` looks.
    pub fn new(least: u32, most: u32) -> Self {
        Self { history: 0, least: least.max(1), most: most.max(least.max(1)) }
    }

    /// Notes what a look at the network found; says after how many looks at shared memory the next is
    /// due.
    #[inline]
    pub fn on_poll(&mut self, found: bool) -> u32 {
        self.history = self.history << 1 | u32::from(found);
        self.interval()
    }

    /// Looks at shared memory from one look at the network to the next: halved for every quarter of
    /// the memory that was a success, at once for the newest.
    #[inline]
    pub fn interval(&self) -> u32 {
        let hits = self.history.count_ones();
        if hits == 0 || self.least == self.most {
            return self.most;
        }
        let span = (self.most / self.least).max(1).ilog2();
        // From one success on the network is likely to have more; the more successes the likelier.
        let steps = span.div_ceil(2) + span / 2 * hits / REMEMBERED;
        (self.most >> steps.min(span)).max(self.least)
    }

    /// The same for somebody who does nothing but look, from one look at shared memory to the next in
    /// some nanoseconds.
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
