//! Times by powers of two: cells that their owner records in, and the numbers read from them.
#![allow(clippy::disallowed_types, reason = "taken from clump_os::sync; the lint sees through it")]

use clump_os::sync::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};

/// Cells of a table: cell i counts times from 2^i to 2^(i + 1) ns, the last one all longer ones.
pub const CELLS: usize = 40;

/// Counts a time. The caller is the only writer at that time.
pub fn record(cells: &[AtomicU64; CELLS], ns: u64) {
    let cell = &cells[bucket(ns)];
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

fn bucket(ns: u64) -> usize {
    (ns.max(1).ilog2() as usize).min(CELLS - 1)
}

/// Times counted by powers of two: element i counts those from 2^i to 2^(i + 1) ns. Elements behind
/// the last that is not zero are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// Reads the cells of a running or finished owner.
    pub fn of(cells: &[AtomicU64; CELLS]) -> Self {
        let mut histogram = Self::default();
        for (at, cell) in cells.iter().enumerate() {
            histogram.add_to(at, cell.load(Ordering::Relaxed));
        }
        histogram
    }

    fn add_to(&mut self, at: usize, count: u64) {
        if count != 0 && at < CELLS {
            let counts = &mut self.counts;
            counts.resize(counts.len().max(at + 1), 0);
            counts[at] = counts[at].wrapping_add(count);
        }
    }

    /// Adds the times of another.
    pub fn add(&mut self, other: &Self) {
        for (at, &count) in other.counts.iter().enumerate() {
            self.add_to(at, count);
        }
    }

    /// Returns the number of times.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Returns the counts, each with its shortest time, in ns.
    pub fn cells(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().take(CELLS).enumerate().map(|(at, &count)| (1 << at, count))
    }

    /// Returns the time that a share of all times (0 to 1) do not exceed, in ns, rounded to a power
    /// of two; `None` without times.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let total = self.total();
        let mut seen = 0_u64;
        for (from, count) in self.cells() {
            seen = seen.saturating_add(count);
            if count != 0 && seen as f64 >= share * total as f64 {
                return Some(from * 2);
            }
        }
        None
    }

    /// Returns the share of times below `ns`, between 0 and 1, as if the times of a cell were
    /// spread evenly; `None` without times.
    pub fn share_below(&self, ns: f64) -> Option<f64> {
        let total = self.total();
        let mut below = 0.0;
        for (from, count) in self.cells() {
            let from = from as f64;
            below += count as f64 * ((ns - from) / from).clamp(0.0, 1.0);
        }
        (total != 0).then(|| below / total as f64)
    }

    /// Returns the part of a cost of `ns` a time that the times do not hide: the mean of what `ns`
    /// exceeds each by; zero without times.
    pub fn mean_excess_ns(&self, ns: f64) -> f64 {
        let total = self.total().max(1) as f64;
        let excess = |(from, count): (u64, u64)| count as f64 * (ns - from as f64 * 1.5).max(0.0);
        self.cells().map(excess).sum::<f64>() / total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> [AtomicU64; CELLS] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn a_time_is_counted_by_its_power_of_two() {
        let cells = cells();
        for ns in [0, 1, 2, 3, 1024, 2047, 2048, u64::MAX] {
            record(&cells, ns);
        }
        let histogram = Histogram::of(&cells);
        let found: Vec<_> = histogram.cells().filter(|(_, count)| *count != 0).collect();
        assert_eq!(found, [(1, 2), (2, 2), (1 << 10, 2), (1 << 11, 1), (1 << 39, 1)]);
        assert_eq!((histogram.total(), histogram.quantile_ns(0.5)), (8, Some(4)));
        assert_eq!(Histogram::default().quantile_ns(0.5), None);
    }

    #[test]
    fn sums_and_their_text_keep_every_time() {
        let (short, long) = (cells(), cells());
        (0..5).for_each(|_| record(&short, 300));
        record(&long, 70_000);
        let mut sum = Histogram::of(&short);
        sum.add(&Histogram::of(&long));
        let text = serde_json::to_string(&sum).unwrap();
        assert_eq!(text, "[0,0,0,0,0,0,0,0,5,0,0,0,0,0,0,0,1]");
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), sum);
        assert_eq!(sum.share_below(512.0), Some(5.0 / 6.0));
        // Of six intervals five are of about 384 ns: a gap of 1,000 ns exceeds each by 616 ns.
        assert!((sum.mean_excess_ns(1000.0) - 5.0 * 616.0 / 6.0).abs() < 1e-9);
    }
}
