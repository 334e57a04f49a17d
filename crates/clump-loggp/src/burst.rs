//! Bursts: the time to issue `m` requests with a fixed delay between them.

use crate::fit::block_lines;
use crate::median::Median;
use serde::{Deserialize, Serialize};
use std::ops::RangeBounds;

/// One cell of the signature, measured several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Requests in the burst.
    pub messages: u32,
    /// Computation between two requests: `messages - 1` delays in all.
    pub delay_ns: f64,
    /// From before the first request to after the last, one sample per repetition. The clock stops
    /// at the last issue, although requests are still in flight (paper 001, 3.3).
    pub samples_ns: Vec<f64>,
}

impl Burst {
    /// Returns the median of the whole burst.
    pub fn total(&self) -> Option<Median> {
        Median::of(self.samples_ns.iter().copied())
    }

    /// Returns the median per message: the average initiation interval that the signature shows.
    pub fn per_message(&self) -> Option<Median> {
        Some(self.total()?.scaled(1.0 / f64::from(self.messages), 0.0))
    }
}

/// The LogP signature (paper 001, figure 3): burst size against time per message, a curve per
/// delay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// All cells, in any order.
    pub bursts: Vec<Burst>,
}

impl Signature {
    /// Returns the delays that were measured, ascending.
    pub fn delays_ns(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.bursts.iter().map(|b| b.delay_ns).collect();
        all.sort_unstable_by(f64::total_cmp);
        all.dedup();
        all
    }

    /// Returns the cells of one delay, by burst size.
    pub fn curve(&self, delay_ns: f64) -> Vec<&Burst> {
        let mut curve: Vec<_> =
            self.bursts.iter().filter(|b| b.delay_ns.total_cmp(&delay_ns).is_eq()).collect();
        curve.sort_by_key(|b| b.messages);
        curve
    }

    /// Returns the steady interval between requests at this delay: the slope of the burst time over
    /// the burst size, over bursts of so many `messages`.
    pub fn steady_interval(
        &self,
        delay_ns: f64,
        messages: impl RangeBounds<u32>,
    ) -> Option<Median> {
        let curve = self.curve(delay_ns);
        let columns: Vec<_> = curve
            .iter()
            .filter(|b| messages.contains(&b.messages))
            .map(|b| (f64::from(b.messages), b.samples_ns.as_slice()))
            .collect();
        Median::of(block_lines(&columns).iter().map(|line| line.slope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(messages: u32, delay_ns: f64, samples: &[f64]) -> Burst {
        Burst { messages, delay_ns, samples_ns: samples.to_vec() }
    }

    #[test]
    fn per_message_and_curves() {
        let s = Signature {
            bursts: vec![
                burst(8, 10.0, &[80.0, 96.0, 88.0]),
                burst(2, 10.0, &[20.0]),
                burst(2, 0.0, &[4.0]),
            ],
        };
        assert_eq!(s.delays_ns(), [0.0, 10.0]);
        let curve = s.curve(10.0);
        assert_eq!(curve.iter().map(|b| b.messages).collect::<Vec<_>>(), [2, 8]);
        assert_eq!(curve[1].per_message().unwrap().value, 11.0);
    }

    #[test]
    fn steady_interval_ignores_short_bursts_and_spoilt_repetitions() {
        let line = |m: f64| 500.0 + 30.0 * m;
        let mut bursts = vec![burst(1, 0.0, &[7.0; 5])];
        for m in [64u32, 128, 256] {
            let t = line(f64::from(m));
            bursts.push(burst(m, 0.0, &[t, t, t, t + 9e5 / f64::from(m), t]));
        }
        let g = Signature { bursts }.steady_interval(0.0, 64..).unwrap();
        assert!((g.value - 30.0).abs() < 1e-9, "{g:?}");
        assert_eq!(g.samples, 5);
        assert!(Signature::default().steady_interval(0.0, ..).is_none());
    }
}
