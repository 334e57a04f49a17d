//! Medians and their confidence intervals.

use serde::{Deserialize, Serialize};

/// The median of some samples, with the interval that covers the true median with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of samples. Below 6 no interval covers 95 %: it then spans all samples.
    pub samples: usize,
}

impl Median {
    /// Computes the median of some samples; `None` without any. Samples that are NaN are left out.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().filter(|x| !x.is_nan()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let last = n.checked_sub(1)?;
        let rank = interval_rank(n);
        Some(Self {
            value: f64::midpoint(sorted[last / 2], sorted[n / 2]),
            low: sorted[rank],
            high: sorted[last - rank],
            samples: n,
        })
    }

    /// Returns a number that is known and not measured.
    pub fn exact(value: f64) -> Self {
        Self { value, low: value, high: value, samples: 0 }
    }

    /// Returns half the width of the interval over the median: 0.01 means "known to 1 %".
    pub fn spread(&self) -> f64 {
        let half = (self.high - self.low) / 2.0;
        if half == 0.0 { 0.0 } else { half / self.value.abs() }
    }

    /// Maps all numbers by `x -> factor * x + offset`.
    #[must_use]
    pub fn scaled(self, factor: f64, offset: f64) -> Self {
        let (a, b) = (factor * self.low + offset, factor * self.high + offset);
        Self { value: factor * self.value + offset, low: a.min(b), high: a.max(b), ..self }
    }

    /// Returns the sum of two medians; the interval takes the worst of both ends.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.minus(other.scaled(-1.0, 0.0))
    }

    /// Returns the difference of two medians; the interval takes the worst of both ends.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            value: self.value - other.value,
            low: self.low - other.high,
            high: self.high - other.low,
            samples: self.samples.min(other.samples),
        }
    }
}

/// Returns the number of order statistics below the interval: the largest `k` with `P(Binomial(n,
/// 1/2) < k + 1) <= 0.025`, so that `[x_k, x_(n-1-k)]` covers at least 95 %.
fn interval_rank(n: usize) -> usize {
    /// Up to here 2^-n is far from the smallest number; above, the normal approximation is exact
    /// enough.
    const EXACT: usize = 500;
    let real = f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    if n > EXACT {
        let k = (real - 1.96 * real.sqrt()) / 2.0 - 1.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 < k < n")]
        return k.max(0.0) as usize;
    }
    let mut term = 0.5f64.powf(real); // P(X = 0)
    let mut below = term; // P(X <= i)
    let mut i = 0usize;
    while below <= 0.025 {
        i += 1;
        let step = f64::from(u32::try_from(i).unwrap_or(u32::MAX));
        term *= (real - step + 1.0) / step;
        below += term;
    }
    i.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_and_even_counts() {
        assert_eq!(Median::of([3.0, 1.0, 2.0]).unwrap().value, 2.0);
        assert_eq!(Median::of([4.0, 1.0, 2.0, 3.0]).unwrap().value, 2.5);
        assert_eq!(Median::of([f64::NAN, 5.0]).unwrap().samples, 1);
        assert!(Median::of([]).is_none());
    }

    /// Ranks (0-based) from the tables in W. J. Conover, Practical Nonparametric Statistics, A3.
    #[test]
    fn intervals_take_the_tabulated_order_statistics() {
        for (n, rank) in
            [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (20, 5), (21, 5), (31, 9), (100, 39)]
        {
            assert_eq!(interval_rank(n), rank, "n = {n}");
        }
        // The two formulas meet: at most one order statistic apart.
        assert!(interval_rank(500).abs_diff(interval_rank(501)) <= 1);
        let m = Median::of((0..31).map(f64::from)).unwrap();
        assert_eq!((m.low, m.value, m.high), (9.0, 15.0, 21.0));
    }

    #[test]
    fn differences_are_pessimistic_about_their_interval() {
        let a = Median { value: 10.0, low: 9.0, high: 12.0, samples: 31 };
        let b = Median { value: 4.0, low: 3.0, high: 5.0, samples: 7 };
        assert_eq!(a.minus(b), Median { value: 6.0, low: 4.0, high: 9.0, samples: 7 });
        assert_eq!(a.plus(b), Median { value: 14.0, low: 12.0, high: 17.0, samples: 7 });
        assert_eq!(a.scaled(-1.0, 0.0).low, -12.0);
        assert!((a.spread() - 0.15).abs() < 1e-12);
        assert_eq!(Median::exact(0.0).spread(), 0.0);
    }
}
