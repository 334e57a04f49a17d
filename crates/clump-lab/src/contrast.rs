//! Two things measured side by side: clump and its baseline.

use anyhow::{Context, Result};
use clump_loggp::Median;
use serde::Serialize;

/// Medians over interleaved slices. The ratio is the median of the slices' ratios, not the ratio of
/// the medians: a slice's two halves saw the same machine.
#[derive(Debug, Clone, Serialize)]
pub struct Contrast {
    /// Figure of clump.
    pub ours: Median,
    /// Figure of the baseline.
    pub baseline: Median,
    /// Ratio of clump to the baseline.
    pub ratio: Median,
}

impl Contrast {
    /// Runs both in turn, `slices` times, alternating the order.
    ///
    /// # Errors
    /// Fails if a measurement fails, or without slices.
    pub fn measure(
        slices: usize,
        mut ours: impl FnMut() -> Result<f64>,
        mut baseline: impl FnMut() -> Result<f64>,
    ) -> Result<Self> {
        let mut pairs = Vec::with_capacity(slices);
        for slice in 0..slices {
            if slice.is_multiple_of(2) {
                let a = ours()?;
                pairs.push((a, baseline()?));
            } else {
                let b = baseline()?;
                pairs.push((ours()?, b));
            }
        }
        Self::of(&pairs).context("no slices were measured")
    }

    /// Builds the contrast from slices measured elsewhere: (clump, baseline).
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        Some(Self {
            ours: Median::of(pairs.iter().map(|p| p.0))?,
            baseline: Median::of(pairs.iter().map(|p| p.1))?,
            ratio: Median::of(pairs.iter().map(|p| p.0 / p.1))?,
        })
    }

    /// Converts to other units.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            ours: self.ours.scaled(factor, 0.0),
            baseline: self.baseline.scaled(factor, 0.0),
            ratio: self.ratio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine halves its speed in the middle: both sides slow down, the ratio stays.
    #[test]
    fn a_machine_that_changes_changes_both_sides() {
        let (mut a, mut b) = (0, 0);
        let slow = |n: i32| if n <= 10 { 1.0 } else { 2.0 };
        let contrast = Contrast::measure(
            21,
            || {
                a += 1;
                Ok(120.0 * slow(a))
            },
            || {
                b += 1;
                Ok(100.0 * slow(b))
            },
        )
        .unwrap();
        assert!((contrast.ratio.value - 1.2).abs() < 1e-12 && contrast.ratio.spread() < 1e-12);
        assert_eq!(contrast.ours.samples, 21);
        assert!(Contrast::measure(0, || Ok(1.0), || Ok(1.0)).is_err());
    }
}
