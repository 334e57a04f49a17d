//! Extent of a measurement: sizes, repetitions, and time limits.

use crate::pair::Scope;
use std::time::Duration;

/// The extent of a measurement.
#[derive(Debug, Clone)]
pub struct MeasurementPlan {
    /// Burst sizes, ascending, from 1.
    pub bursts: Vec<u32>,
    /// Largest burst with a delay in it. Those show the interval over a round trip, for which short
    /// bursts suffice; and between nodes a long one takes its time.
    pub longest_delayed: u32,
    /// Delays in units of g and of the round trip.
    pub delays: Vec<Delay>,
    /// Minimum number of repetitions of the signature.
    pub repetitions: usize,
    /// Minimum number of slices of an interleaved comparison.
    pub slices: usize,
    /// Length of one slice: at most 100 ms, so that both sides see the same machine.
    pub slice: Duration,
    /// Payload sizes of the bulk streams.
    pub bulk_bytes: Vec<usize>,
    /// Time for the signature; repetitions are made until its intervals are under 1 % or this time
    /// has passed.
    pub signature_budget: Duration,
    /// Time for each part on a path so slow that the samples above would take longer: beyond it,
    /// only those are taken without which there is no interval.
    pub limit: Duration,
}

/// A delay between two requests of a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// This many gaps.
    Gaps(f64),
    /// This many round trips.
    RoundTrips(f64),
}

impl MeasurementPlan {
    /// Returns the full measurement, about five seconds.
    pub fn full() -> Self {
        Self {
            bursts: burst_sizes(2048),
            longest_delayed: u32::MAX,
            delays: vec![
                Delay::Gaps(0.0),
                Delay::Gaps(0.5),
                Delay::Gaps(1.0),
                Delay::Gaps(2.0),
                Delay::RoundTrips(1.0),
                Delay::RoundTrips(2.0),
            ],
            repetitions: 31,
            slices: 31,
            slice: Duration::from_millis(4),
            bulk_bytes: (12..=22).step_by(2).map(|bits| 1 << bits).collect(),
            signature_budget: Duration::from_millis(1500),
            limit: Duration::from_secs(8),
        }
    }

    /// Returns the same table from fewer points, about one second: for the demonstration.
    pub fn quick() -> Self {
        Self {
            bursts: vec![1, 2, 4, 8, 32, 128, 512, 1024, 2048],
            longest_delayed: u32::MAX,
            delays: vec![Delay::Gaps(0.0), Delay::RoundTrips(1.0), Delay::RoundTrips(2.0)],
            repetitions: 21,
            slices: 21,
            slice: Duration::from_millis(2),
            bulk_bytes: vec![4096, 65536, 1 << 20],
            signature_budget: Duration::from_millis(300),
            limit: Duration::from_secs(2),
        }
    }

    /// Adapts the plan to a path on which everything takes longer.
    #[must_use]
    pub fn over(self, scope: Scope) -> Self {
        match scope {
            Scope::Shm => self,
            Scope::Net => Self {
                longest_delayed: 256,
                slice: 2 * self.slice,
                bulk_bytes: vec![4096, 65536, 1 << 20],
                ..self
            },
        }
    }
}

/// Returns 1, 2, 3, 4, 6, 8, 12, ... up to `most`.
fn burst_sizes(most: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = vec![1];
    let mut power = 2;
    while power <= most {
        sizes.extend([power, power + power / 2]);
        power *= 2;
    }
    sizes.retain(|&m| m <= most);
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_start_as_the_method_says() {
        let sizes = burst_sizes(2048);
        assert_eq!(&sizes[..9], [1, 2, 3, 4, 6, 8, 12, 16, 24]);
        assert_eq!(sizes.last(), Some(&2048));
        let most = MeasurementPlan::full().over(Scope::Net).slice;
        assert!(most <= Duration::from_millis(100));
        assert!(
            MeasurementPlan::full().slice <= Duration::from_millis(100)
                && MeasurementPlan::quick().slices >= 21
        );
    }
}
