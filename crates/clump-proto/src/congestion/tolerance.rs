//! Delay that is no congestion: what a queue may have, and what comes and goes by itself.

use super::round::RoundSamples;
use crate::Nanos;

/// Least window, RFC 6928, 2: ten packets of 1460 bytes.
pub(super) const MIN_WINDOW: usize = 14_600;
/// Window below which more delay is tolerated, by the root of the window as in Swift, 3.5:
/// otherwise a sender with a small window would keep it, for the least delay of fewer packets is
/// higher (ADR 12).
const SMALL_WINDOW: usize = 64 << 10;
/// Additional delay tolerated at [`MIN_WINDOW`], as a share of the target.
const SMALL_SHARE: f64 = 0.5;
/// Delay tolerated for noise, of the mean by which round trips in turn differ, where a round has
/// this many samples or fewer. The least of four sums of two evenly distributed delays is above 2.4
/// times that mean once in 50.
const NOISE_SHARE: f64 = 2.0;
const NOISY_SAMPLES: f64 = 4.0;

/// Delay that is tolerated.
#[derive(Debug)]
pub(super) struct Tolerance {
    target: Nanos,
    /// Delay that comes and goes, smoothed, by the number of samples of a round.
    noise: Nanos,
}

impl Tolerance {
    /// Tolerates `target` with large windows.
    pub(super) fn new(target: Nanos) -> Self {
        Self { target, noise: 0 }
    }

    /// Returns true if a round trip may be one of queues.
    pub(super) fn is_short(&self, least: Nanos) -> bool {
        least <= 2 * self.target
    }

    /// Returns true if a round trip is much longer than the queues that count as congestion.
    pub(super) fn is_far(&self, least: Nanos) -> bool {
        least > 4 * self.target
    }

    /// Returns true for the delay of next to no queue.
    pub(super) fn is_empty(&self, delay: Nanos) -> bool {
        delay <= self.target / 4 + self.noise
    }

    /// Smooths the noise of a round of this least round trip. The least of few samples is far above
    /// the least of all, that of many is not.
    pub(super) fn take_noise(&mut self, round: &RoundSamples, least: Nanos) {
        if self.is_short(least) {
            // Of senders that share a short path, the one that tolerates more gets the shares of
            // others, and noise of half a round trip costs next to nothing there.
            self.noise = 0;
            return;
        }
        let Some((noise, samples)) = round.noise() else { return };
        let weight = (NOISY_SAMPLES / f64::from(samples)).sqrt().min(1.0);
        let noise = (NOISE_SHARE * weight * noise as f64) as Nanos;
        self.noise = self.noise - self.noise / 4 + noise / 4;
    }

    /// Returns the delay that is tolerated with a window on a path of this least round trip.
    pub(super) fn of(&self, window: usize, least: Nanos) -> Nanos {
        let target = self.target + (self.target as f64 * self.more(window, least)) as Nanos;
        debug_assert!(target >= self.target, "a small window tolerates more");
        target + self.noise
    }

    /// Returns the share of the target that a small window tolerates beyond it.
    fn more(&self, window: usize, least: Nanos) -> f64 {
        if self.is_far(least) {
            // By the root of the window too: of senders that share a path, those with more make
            // room first. On shorter paths cuts alone do that, for they are larger there.
            return (SMALL_WINDOW as f64 / window as f64).sqrt().min(SMALL_SHARE);
        }
        if window >= SMALL_WINDOW {
            return 0.0;
        }
        let inverse = |window: usize| 1.0 / (window as f64).sqrt();
        let (least, most) = (inverse(SMALL_WINDOW), inverse(MIN_WINDOW));
        SMALL_SHARE * ((inverse(window) - least) / (most - least)).min(1.0)
    }
}
