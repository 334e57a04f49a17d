//! Samples of a round trip: arrivals, marks, and the delay beyond the least one.

use crate::Nanos;

/// Round trip up to which a path holds nothing: what is in flight lies in sockets.
pub(super) const SHORT_PATH: Nanos = 50_000;
/// Samples of a round from which noise is estimated, at least.
const MIN_SAMPLES: u32 = 4;
/// Noise for which delay is tolerated at most.
const MAX_NOISE: Nanos = 1_000_000;

/// Reason for which the window was made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Packets queue.
    Delay,
    /// Switches marked packets.
    Marks,
    /// Too many are lost.
    Loss,
}

/// Result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// The window was made smaller.
    Cut(Cut),
    /// The path is longer than before: this is its least round trip.
    Longer(Nanos),
}

/// Information of one packet about the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Units that arrived, and their bytes.
    pub units: u32,
    pub bytes: usize,
    /// Packets that arrived with a mark.
    pub marks: u32,
    /// A round trip and the least one, if the packet gave one.
    pub delay: Option<(Nanos, Nanos)>,
}

/// Samples of one round.
#[derive(Debug)]
pub(super) struct RoundSamples {
    pub(super) units: u32,
    pub(super) bytes: usize,
    pub(super) marks: u32,
    /// Least delay above the least round trip, and the round trip with it.
    pub(super) queueing: Nanos,
    pub(super) round_trip: Nanos,
    /// True if the window was in use; it does not grow otherwise (RFC 9002, 7.8).
    pub(super) used: bool,
    /// The last round trip, and the sums by which later ones were longer, and shorter.
    last: Nanos,
    longer: Nanos,
    shorter: Nanos,
    samples: u32,
}

impl RoundSamples {
    pub(super) const NEW: Self = Self {
        units: 0,
        bytes: 0,
        marks: 0,
        queueing: Nanos::MAX,
        round_trip: 0,
        used: false,
        last: 0,
        longer: 0,
        shorter: 0,
        samples: 0,
    };

    /// Takes a sample in.
    #[inline]
    pub(super) fn add(&mut self, sample: &Sample) {
        self.units += sample.units;
        self.bytes += sample.bytes;
        self.marks += sample.marks;
        let Some((round_trip, least)) = sample.delay else { return };
        let queueing = round_trip.saturating_sub(least);
        if queueing < self.queueing {
            self.queueing = queueing;
            self.round_trip = round_trip;
        }
        if least > SHORT_PATH {
            self.compare(round_trip);
        }
    }

    /// Compares a round trip with that before.
    fn compare(&mut self, round_trip: Nanos) {
        if self.samples > 0 {
            self.longer += round_trip.saturating_sub(self.last);
            self.shorter += self.last.saturating_sub(round_trip);
        }
        self.last = round_trip;
        self.samples += 1;
    }

    /// Returns the mean by which round trips in turn differ in either direction, and the number of
    /// samples, if there are enough. A queue that grows or drains is no noise.
    pub(super) fn noise(&self) -> Option<(Nanos, u32)> {
        let mean = 2 * self.longer.min(self.shorter) / Nanos::from(self.samples.max(2) - 1);
        (self.samples >= MIN_SAMPLES).then_some((mean.min(MAX_NOISE), self.samples))
    }

    /// Returns the delay, if there was any sample of it.
    pub(super) fn delay(&self) -> Option<Nanos> {
        (self.queueing != Nanos::MAX).then_some(self.queueing)
    }

    /// Begins the next round.
    pub(super) fn restart(&mut self) {
        *self = Self { round_trip: self.round_trip, ..Self::NEW };
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        let measured = self.queueing == Nanos::MAX || self.queueing <= self.round_trip;
        assert!(measured, "queueing is a part of the round trip");
    }
}
