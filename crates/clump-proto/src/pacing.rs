//! Spreading packets over a round trip where bursts would be dropped; off while there is no
//! congestion.

use crate::Nanos;

/// Inverse of the share by which the rate exceeds a window a round trip, a quarter, so that the
/// pace is never the limit (RFC 9002, 7.7).
const FASTER: u64 = 4;
/// Time by which a window may be sent sooner than in a round trip: the queue that a faster pace
/// builds in every round trip, a part of the delay that counts as none.
const SOONER: Nanos = 75_000;
/// Longest pause that earns tokens for a burst.
const MAX_PAUSE: Nanos = 10_000_000;
/// Time for which a process that sends may not be scheduled: bytes of so long may go at once.
const WAKE: Nanos = 250_000;
/// Time between bursts where nothing was lost: a part of the delay that counts as no queue.
const BURST_EVERY: Nanos = 25_000;
const MAX_BURST: u64 = 64 << 10;

/// A rate: a window a round trip, and a little more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub window: usize,
    pub round_trip: Nanos,
    /// True if bursts may be dropped.
    pub limited: bool,
}

impl Pace {
    /// Returns the bytes of a round trip.
    #[inline]
    fn trip_bytes(&self) -> u64 {
        let window = self.window as u64;
        window + (window / FASTER).min(window.saturating_mul(SOONER) / self.round_trip.max(1))
    }

    /// Returns the bytes of so long a time.
    #[inline]
    fn bytes(&self, time: Nanos) -> u64 {
        time.saturating_mul(self.trip_bytes()) / self.round_trip.max(1)
    }

    /// Returns the tokens that may be saved. RFC 9002, 7.7: bursts are bounded; a quarter of a
    /// window leaves policers room.
    #[inline]
    fn most(&self) -> i64 {
        let quarter = self.window as u64 / 4;
        let wake = self.bytes(WAKE);
        let most = if self.limited { quarter.min(wake) } else { wake };
        most.clamp(1, 1 << 40) as i64
    }

    /// Returns the tokens for which a sender without any waits.
    #[inline]
    fn burst(&self) -> i64 {
        let burst = if self.limited { 1 } else { self.bytes(BURST_EVERY).clamp(1, MAX_BURST) };
        (burst as i64).min(self.most()).max(1)
    }
}

/// Token bucket in bytes. Below zero, nothing is sent.
#[derive(Debug)]
pub(crate) struct Pacing {
    tokens: i64,
    at: Nanos,
}

impl Pacing {
    pub(crate) const fn new(now: Nanos) -> Self {
        Self { tokens: 0, at: now }
    }

    #[inline]
    fn earned(&self, now: Nanos, pace: &Pace) -> i64 {
        let pause = now.saturating_sub(self.at).min(MAX_PAUSE);
        (self.tokens + pace.bytes(pause).min(1 << 40) as i64).min(pace.most())
    }

    /// Returns the tokens at `now`; 0 while those of a burst are not together.
    #[inline]
    pub(crate) fn tokens(&self, now: Nanos, pace: &Pace) -> i64 {
        let earned = self.earned(now, pace);
        if self.tokens <= 0 && earned < pace.burst() { earned.min(0) } else { earned }
    }

    /// Notes that `bytes` are sent.
    pub(crate) fn on_sent(&mut self, now: Nanos, bytes: usize, pace: &Pace) {
        let before = self.earned(now, pace);
        debug_assert!(before >= self.tokens.min(pace.most()), "a pause earns tokens");
        self.tokens = before - bytes as i64;
        self.at = now;
        debug_assert!(self.tokens <= pace.most(), "bursts are bounded");
    }

    /// Returns the time at which there will be tokens again; `Nanos::MAX`: there were some at the
    /// last update.
    pub(crate) fn deadline(&self, pace: &Pace) -> Nanos {
        if self.tokens > 0 {
            return Nanos::MAX;
        }
        let missing = (pace.burst() - self.tokens) as u64;
        let trip_bytes = pace.trip_bytes().max(1);
        debug_assert!(missing > 0 && pace.round_trip > 0, "time passes until there is a token");
        self.at + (missing.saturating_mul(pace.round_trip) / trip_bytes + 1).min(MAX_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_goes_out_in_four_fifths_of_a_round_trip() {
        let (mut pacing, mut now, mut sent) = (Pacing::new(0), 0, 0);
        let (window, round_trip) = (100_000, 50_000);
        let pace = Pace { window, round_trip, limited: true };
        while sent < 10 * window {
            if pacing.tokens(now, &pace) > 0 {
                pacing.on_sent(now, 1000, &pace);
                sent += 1000;
            } else {
                let next = pacing.deadline(&pace);
                assert!(next > now, "no loop in one moment");
                now = next;
                assert!(pacing.tokens(now, &pace) > 0, "the deadline is kept");
            }
        }
        let least = 10 * round_trip * 4 / 5;
        assert!(now > least * 95 / 100 && now < least * 105 / 100, "{now}");
        assert!(pacing.tokens(now + MAX_PAUSE, &pace) <= window as i64 / 4);
    }
}
