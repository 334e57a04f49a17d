//! Congestion window of a TCP sender: CUBIC (RFC 9438), in segments.

use crate::kernel::{SECOND, Time};

/// RFC 9438, 4.1: C, in segments per cubic second.
const C: f64 = 0.4;
/// RFC 9438, 4.6: multiplicative decrease.
const BETA: f64 = 0.7;
/// RFC 6928, 2: initial window.
const INITIAL: f64 = 10.0;
/// RFC 5681, 3.1: least slow start threshold, in segments.
const MIN_THRESHOLD: f64 = 2.0;

/// The window and the epoch in which it grows.
#[derive(Debug)]
pub(super) struct Cubic {
    window: f64,
    threshold: f64,
    /// RFC 9438, 4.1.2: `W_max`, `W_est`, `cwnd_prior`, and the beginning of the epoch with `K`.
    w_max: f64,
    w_est: f64,
    prior: f64,
    epoch: Option<(Time, f64)>,
}

impl Cubic {
    pub(super) fn new() -> Self {
        let w_max = 0.0;
        Self { window: INITIAL, threshold: f64::MAX, w_max, w_est: 0.0, prior: 0.0, epoch: None }
    }

    /// Returns the segments that may be in flight.
    pub(super) fn segments(&self) -> u64 {
        self.window.max(1.0) as u64
    }

    /// Grows by `acked` segments that arrived.
    pub(super) fn on_acked(&mut self, now: Time, acked: u64, round_trip: Time) {
        let acked = acked as f64;
        if self.window < self.threshold {
            self.window += acked; // RFC 5681, 3.1
            return;
        }
        let seconds = |time: Time| time as f64 / SECOND as f64;
        let (begun, k) = *self.epoch.get_or_insert_with(|| {
            // RFC 9438, 4.2; where slow start ended without loss (4.8), K is 0.
            self.w_max = self.w_max.max(self.window);
            (self.w_est, self.prior) = (self.window, self.prior.max(self.window));
            (now, ((self.w_max - self.window) / C).cbrt())
        });
        let elapsed = seconds(now.saturating_sub(begun));
        let cubic = |at: f64| C * (at - k).powi(3) + self.w_max;
        // RFC 9438, 4.3: the Reno-friendly region.
        let alpha = if self.w_est < self.prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.w_est += alpha * acked / self.window;
        if cubic(elapsed) < self.w_est {
            self.window = self.window.max(self.w_est);
            return;
        }
        // RFC 9438, 4.4 and 4.5: the target is that of a round trip later, half as much more at
        // most.
        let target = cubic(elapsed + seconds(round_trip)).clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) / self.window * acked;
    }

    /// Decreases after loss: RFC 9438, 4.6 and 4.7 (fast convergence).
    pub(super) fn on_lost(&mut self) {
        self.prior = self.window;
        let falls = self.window < self.w_max;
        self.w_max = if falls { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.threshold = (self.window * BETA).max(MIN_THRESHOLD);
        self.window = self.threshold;
        self.epoch = None;
    }

    /// Begins again after a silence: RFC 5681, 3.1 and RFC 9438, 4.8.
    pub(super) fn on_timeout(&mut self) {
        self.on_lost();
        self.window = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Time = SECOND / 10;

    fn rounds(cubic: &mut Cubic, from: Time, count: u64) -> Time {
        for round in 0..count {
            let acked = cubic.segments();
            cubic.on_acked(from + round * TRIP, acked, TRIP);
        }
        from + count * TRIP
    }

    /// RFC 9438, 4.2: the window is back at `W_max` after `K`, flat there, and steep before and
    /// after.
    #[test]
    fn a_window_is_back_where_it_was_after_k_seconds() {
        let mut cubic = Cubic::new();
        let now = rounds(&mut cubic, 0, 8);
        assert_eq!(cubic.segments(), 2560, "doubled each round");
        cubic.on_lost();
        assert_eq!(cubic.segments(), 1792);
        let k = (2560.0_f64 * 0.3 / C).cbrt();
        let now = rounds(&mut cubic, now, (k * 10.0) as u64);
        assert!((2540..=2560).contains(&cubic.segments()), "{cubic:?}");
        let now = rounds(&mut cubic, now, 10);
        assert!((2555..2570).contains(&cubic.segments()), "{cubic:?}");
        rounds(&mut cubic, now, 100);
        assert!(cubic.segments() > 2900, "{cubic:?}");
    }
}
