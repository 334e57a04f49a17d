//! Round-trip time: smoothed, its variation, and the least of the last seconds.

use crate::Nanos;
use crate::echo::SocketWait;
use crate::time::{Ticks, nanos, ticks};
use clump_wire::{Flags, Header};

/// RFC 6298, 2: `alpha = 1/8`.
const SMOOTHING_SHIFT: u32 = 3;
/// RFC 6298, 2: `beta = 1/4`.
const VARIATION_SHIFT: u32 = 2;
/// Round trip that is assumed before the first sample. RFC 6298 says 1 s for the internet; between
/// machines of one cluster this is long, and too short an assumption only costs a packet that was
/// not needed.
const ASSUMED: Nanos = 500_000;
/// Least round trip from which on units are always paced: longer than any within a rack.
const LONG: Nanos = 50_000;
/// Age of the least: it is forgotten after between one and two of these, so that a longer path is
/// noticed.
const MIN_AGE: Nanos = 2_000_000_000;

/// Longest time in ticks that a packet may be held to count as a sample. Clocks of two machines
/// drift by 100 parts in a million: a packet held longer than 16 ms would falsify its round trip by
/// more than 1.6 us.
const LONGEST_HELD: u32 = 250_000;

/// Estimates from samples without ambiguity: each packet's time is echoed (RFC 7323, 4), so those
/// of retransmitted units count too.
#[derive(Debug)]
pub(crate) struct Rtt {
    smoothed: Nanos,
    /// The path's share of a round trip, smoothed: packets are paced by it.
    path: Nanos,
    path_sample: Nanos,
    variation: Nanos,
    least: Nanos,
    /// The least of the current age, and the time at which that began.
    min_now: Nanos,
    since: Nanos,
    /// Time at which the last sample was smoothed in.
    smoothed_at: Nanos,
    /// True if the least is known and longer than [`LONG`].
    long: bool,
}

impl Rtt {
    pub(crate) const fn new(now: Nanos) -> Self {
        Self {
            smoothed: 0,
            path: 0,
            path_sample: 0,
            variation: 0,
            least: Nanos::MAX,
            min_now: Nanos::MAX,
            since: now,
            smoothed_at: 0,
            long: false,
        }
    }

    /// Takes in the round trip of the packet that was sent at `echo`. Returns the time that the
    /// path took at least, with the least round trip, if the peer knows how long it held the
    /// packet.
    ///
    /// The time that a packet waited in a socket may be known by bounds only. The least round trip
    /// is of the upper ones, and queues of the lower ones: a wait that was none makes no path
    /// shorter than it is, and no queue longer.
    #[inline]
    pub(crate) fn take_sample(
        &mut self,
        (now, waited): (Nanos, SocketWait),
        echo: Ticks,
        header: &Header,
    ) -> Option<(Nanos, Nanos)> {
        if header.held > LONGEST_HELD {
            return None;
        }
        let answered = ticks(now).checked_sub(echo)?.checked_sub(header.held.into())?;
        let without = |wait: Nanos| nanos(answered.saturating_sub(ticks(wait)));
        let (least, most) = (without(waited.most), without(waited.least).max(1));
        debug_assert!(least <= most, "bounds in order");
        self.on_path(now, (least, most));
        // Timers wait for answers, however long those lay here.
        self.on_sample(now, nanos(echo), nanos(answered.max(1)));
        let known = !header.flags.has(Flags::MAY_HAVE_WAITED);
        known.then_some((least.max(1), self.least()))
    }

    /// Takes in a sample of the path, without the time that packets waited in sockets: it lies
    /// between these bounds.
    #[inline]
    fn on_path(&mut self, now: Nanos, (lower, sample): (Nanos, Nanos)) {
        debug_assert!(sample > 0 && lower <= sample, "a round trip takes time");
        if sample < self.min_now {
            self.min_now = sample;
            self.least = self.least.min(sample);
        }
        if now.saturating_sub(self.since) > MIN_AGE {
            self.least = self.min_now;
            self.min_now = Nanos::MAX;
            self.since = now;
        }
        self.path_sample = lower.max(self.least);
        self.long = self.least > LONG;
        debug_assert!(self.least <= sample && self.least <= self.min_now, "none was shorter");
    }

    /// Sets the least round trip: the path has become longer.
    #[cold]
    pub(crate) fn lengthen(&mut self, now: Nanos, least: Nanos) {
        (self.least, self.min_now, self.since) = (least.max(self.least()), Nanos::MAX, now);
        debug_assert!(self.least >= least, "a shorter one is noticed at once");
    }

    /// Returns a smoothed round trip without the time that packets waited in sockets; the assumed
    /// one before the first sample.
    #[inline]
    pub(crate) fn path(&self) -> Nanos {
        if self.path == 0 { ASSUMED } else { self.path.max(1) }
    }

    /// Takes in a sample of an answer to a packet that was sent at `sent`.
    #[inline]
    fn on_sample(&mut self, now: Nanos, sent: Nanos, sample: Nanos) {
        debug_assert!(sent <= now, "an answer comes after its packet");
        if self.smoothed == 0 {
            self.smoothed = sample.max(1);
            self.path = self.path_sample.max(1);
            self.variation = sample / 2;
            return;
        }
        // RFC 7323, appendix G: more samples a round trip must not weigh more. All packets that a
        // computing peer finds when it polls again tell of the same pause.
        if sent < self.smoothed_at {
            return;
        }
        self.smoothed_at = now;
        self.path = self.path - (self.path >> SMOOTHING_SHIFT)
            + (self.path_sample.min(sample) >> SMOOTHING_SHIFT);
        // Such a peer says nothing about the path: no sample counts for more than four timeouts. A
        // path that did become so long is learnt in a few samples.
        let sample = sample.min(4 * (self.smoothed + 4 * self.variation) + ASSUMED);
        let distance = self.smoothed.abs_diff(sample);
        self.variation =
            self.variation - (self.variation >> VARIATION_SHIFT) + (distance >> VARIATION_SHIFT);
        self.smoothed = (self.smoothed - (self.smoothed >> SMOOTHING_SHIFT)
            + (sample >> SMOOTHING_SHIFT))
            .max(1);
        debug_assert!(self.path > 0, "what is smoothed does not vanish");
        debug_assert!(self.timeout() >= self.smoothed, "a timeout is longer than a round trip");
    }

    /// Returns the smoothed round trip; the assumed one before the first sample.
    #[inline]
    pub(crate) fn smoothed(&self) -> Nanos {
        if self.smoothed == 0 { ASSUMED } else { self.smoothed }
    }

    /// Returns the timeout of RFC 6298, 2: `SRTT + 4 RTTVAR`.
    #[inline]
    pub(crate) fn timeout(&self) -> Nanos {
        if self.smoothed == 0 { 3 * ASSUMED } else { self.smoothed + 4 * self.variation }
    }

    /// Returns the least round trip of the last seconds.
    #[inline]
    pub(crate) fn least(&self) -> Nanos {
        if self.least == Nanos::MAX { self.smoothed() } else { self.least }
    }

    /// Returns true if the least round trip is known and long.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        debug_assert!(!self.long || self.least > LONG, "by the least");
        self.long
    }

    /// Returns smoothed, variation and least; zeroes before the first sample.
    pub(crate) fn estimates(&self) -> (Nanos, Nanos, Nanos) {
        (self.smoothed, self.variation, if self.smoothed == 0 { 0 } else { self.least() })
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.smoothed == 0, self.path == 0, "both begin with the first sample");
        assert!(self.least <= self.min_now, "the least includes the current age");
        assert!(self.smoothed > 0 || self.variation == 0, "variation is of samples");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_answer_is_forgotten_soon_and_a_longer_path_is_learnt() {
        let mut rtt = Rtt::new(0);
        for _ in 0..100 {
            rtt.on_sample(0, 0, 20_000);
        }
        assert!(rtt.smoothed().abs_diff(20_000) < 100 && rtt.timeout() < 25_000);
        rtt.on_sample(0, 0, 100_000_000);
        assert!(rtt.timeout() < 2_000_000, "{}", rtt.timeout());
        for _ in 0..60 {
            rtt.on_sample(0, 0, 20_000);
        }
        assert!(rtt.timeout() < 30_000, "{}", rtt.timeout());
        for _ in 0..60 {
            rtt.on_sample(0, 0, 80_000_000);
        }
        assert!(rtt.smoothed() > 70_000_000, "{}", rtt.smoothed());
    }

    #[test]
    fn the_min_is_forgotten_after_some_seconds() {
        let mut rtt = Rtt::new(0);
        rtt.on_path(0, (0, 10_000));
        rtt.on_path(MIN_AGE, (50_000, 50_000));
        assert_eq!(rtt.least(), 10_000);
        rtt.on_path(MIN_AGE + 1, (50_000, 50_000));
        rtt.on_path(2 * MIN_AGE + 2, (50_000, 50_000));
        rtt.on_path(3 * MIN_AGE + 3, (50_000, 50_000));
        assert_eq!(rtt.least(), 50_000);
    }
}
