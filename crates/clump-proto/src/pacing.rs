//! Spreading packets over a round trip where bursts would be dropped; off while there is no
//! congestion.

use crate::Nanos;

/// Inverse of the share by which the rate exceeds a window a round trip, a quarter, so that the
/// pace is never the limit (RFC 9002, 7.7).
const FASTER: u64 = 4;
/// Longest pause that earns tokens for a burst.
const MAX_PAUSE: Nanos = 10_000_000;

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

    /// Returns the tokens at `now` for so large a window a round trip.
    #[inline]
    pub(crate) fn tokens(&self, now: Nanos, window: usize, round_trip: Nanos) -> i64 {
        let pause = now.saturating_sub(self.at).min(MAX_PAUSE);
        let rate = window as u64 + window as u64 / FASTER;
        let earned = pause.saturating_mul(rate) / round_trip.max(1);
        // RFC 9002, 7.7: bursts are bounded; a quarter of a window leaves policers room.
        (self.tokens + earned.min(1 << 40) as i64).min((window / 4) as i64)
    }

    /// Notes that `bytes` are sent.
    pub(crate) fn on_sent(&mut self, now: Nanos, bytes: usize, window: usize, round_trip: Nanos) {
        let before = self.tokens(now, window, round_trip);
        debug_assert!(before >= self.tokens.min((window / 4) as i64), "a pause earns tokens");
        self.tokens = before - bytes as i64;
        self.at = now;
        debug_assert!(self.tokens <= (window / 4) as i64, "bursts are bounded");
    }

    /// Returns the time at which there will be tokens again; `Nanos::MAX`: there were some at the
    /// last update.
    pub(crate) fn deadline(&self, window: usize, round_trip: Nanos) -> Nanos {
        if self.tokens > 0 {
            return Nanos::MAX;
        }
        let missing = (1 - self.tokens) as u64;
        let rate = (window as u64 + window as u64 / FASTER).max(1);
        debug_assert!(missing > 0 && round_trip > 0, "time passes until there is a token");
        self.at + (missing.saturating_mul(round_trip) / rate + 1).min(MAX_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_goes_out_in_four_fifths_of_a_round_trip() {
        let (mut pacing, mut now, mut sent) = (Pacing::new(0), 0, 0);
        let (window, round_trip) = (100_000, 50_000);
        while sent < 10 * window {
            if pacing.tokens(now, window, round_trip) > 0 {
                pacing.on_sent(now, 1000, window, round_trip);
                sent += 1000;
            } else {
                let next = pacing.deadline(window, round_trip);
                assert!(next > now, "no loop in one moment");
                now = next;
                assert!(pacing.tokens(now, window, round_trip) > 0, "the deadline is kept");
            }
        }
        let least = 10 * round_trip * 4 / 5;
        assert!(now > least * 95 / 100 && now < least * 105 / 100, "{now}");
        assert!(pacing.tokens(now + MAX_PAUSE, window, round_trip) <= window as i64 / 4);
    }
}
