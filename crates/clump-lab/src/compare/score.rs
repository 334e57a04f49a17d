//! Results of one turn of one implementation, and the lines in which implementations print them.

use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Figures of one turn; workloads that an implementation does not support stay empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Score {
    /// Round trip of 8 bytes, nanoseconds.
    pub round_trip_ns: Option<f64>,
    /// One-way messages of 8 bytes per second, one sender.
    pub rate_per_s: Option<f64>,
    /// Bytes per second by payload size; of clump, of medium messages.
    pub bandwidth: BTreeMap<usize, f64>,
    /// Bytes per second of long messages by payload size; of clump only.
    pub long_bandwidth: BTreeMap<usize, f64>,
    /// Bytes per second of long messages through a ring, each byte of which is read, by size.
    pub ring_bandwidth: BTreeMap<usize, f64>,
    /// Nanoseconds per barrier by number of ranks.
    pub barrier_ns: BTreeMap<usize, f64>,
}

/// One figure that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// The figure [`Score::round_trip_ns`].
    RoundTrip,
    /// The figure [`Score::rate_per_s`].
    Rate,
    /// The figure [`Score::bandwidth`] at this size.
    Bandwidth(usize),
    /// The figure [`Score::long_bandwidth`] at this size; of a peer [`Score::bandwidth`]: its
    /// receiver, too, has named the memory that the payload goes to.
    LongBandwidth(usize),
    /// The figure [`Score::ring_bandwidth`] at this size.
    RingBandwidth(usize),
    /// The figure [`Score::barrier_ns`] with this many ranks.
    Barrier(usize),
}

impl Workload {
    /// Returns true if less is better.
    pub fn is_time(self) -> bool {
        matches!(self, Workload::RoundTrip | Workload::Barrier(_))
    }

    /// Returns the unit in tables.
    pub fn unit(self) -> &'static str {
        match self {
            Workload::RoundTrip | Workload::Barrier(_) => "us",
            Workload::Rate => "M/s",
            Workload::Bandwidth(_) | Workload::LongBandwidth(_) | Workload::RingBandwidth(_) => {
                "GB/s"
            }
        }
    }

    /// Returns the factor from the unit of the score to that of tables.
    pub fn scale(self) -> f64 {
        match self {
            Workload::RoundTrip | Workload::Barrier(_) => 1e-3,
            Workload::Rate => 1e-6,
            Workload::Bandwidth(_) | Workload::LongBandwidth(_) | Workload::RingBandwidth(_) => {
                1e-9
            }
        }
    }
}

impl Display for Workload {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        let size = |bytes: usize| crate::render::bytes(bytes as f64);
        match *self {
            Workload::RoundTrip => write!(f, "round trip, 8 B"),
            Workload::Rate => write!(f, "one-way rate, 8 B"),
            Workload::Bandwidth(bytes) => write!(f, "bandwidth, {}, medium", size(bytes)),
            Workload::LongBandwidth(bytes) => write!(f, "bandwidth, {}, long", size(bytes)),
            Workload::RingBandwidth(bytes) => write!(f, "{}, long, each byte read", size(bytes)),
            Workload::Barrier(ranks) => write!(f, "barrier, {ranks} ranks"),
        }
    }
}

impl Score {
    /// Returns the figure of a workload.
    pub fn of(&self, workload: Workload) -> Option<f64> {
        match workload {
            Workload::RoundTrip => self.round_trip_ns,
            Workload::Rate => self.rate_per_s,
            Workload::Bandwidth(bytes) => self.bandwidth.get(&bytes).copied(),
            Workload::LongBandwidth(bytes) => {
                self.long_bandwidth.get(&bytes).or(self.bandwidth.get(&bytes)).copied()
            }
            Workload::RingBandwidth(bytes) => self.ring_bandwidth.get(&bytes).copied(),
            Workload::Barrier(ranks) => self.barrier_ns.get(&ranks).copied(),
        }
    }

    /// Returns the workloads that have a figure.
    pub fn workloads(&self) -> Vec<Workload> {
        let mut workloads = Vec::new();
        workloads.extend(self.round_trip_ns.map(|_| Workload::RoundTrip));
        workloads.extend(self.rate_per_s.map(|_| Workload::Rate));
        workloads.extend(self.bandwidth.keys().map(|&n| Workload::Bandwidth(n)));
        workloads.extend(self.long_bandwidth.keys().map(|&n| Workload::LongBandwidth(n)));
        workloads.extend(self.ring_bandwidth.keys().map(|&n| Workload::RingBandwidth(n)));
        workloads.extend(self.barrier_ns.keys().map(|&n| Workload::Barrier(n)));
        workloads
    }

    /// Takes over the figures of `other`.
    pub fn join(&mut self, other: Score) {
        self.round_trip_ns = other.round_trip_ns.or(self.round_trip_ns);
        self.rate_per_s = other.rate_per_s.or(self.rate_per_s);
        self.bandwidth.extend(other.bandwidth);
        self.long_bandwidth.extend(other.long_bandwidth);
        self.ring_bandwidth.extend(other.ring_bandwidth);
        self.barrier_ns.extend(other.barrier_ns);
    }

    /// Reads the lines that `peers/mpi_bench.c` and clump's ranks print; others are skipped,
    /// because launchers add their own.
    ///
    /// # Errors
    /// Fails if a known line has no number.
    pub fn parse(text: &str, ranks: usize) -> Result<Self> {
        let mut out = Score::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |word: &str| -> Result<f64> {
                let value: f64 = word.parse().with_context(|| format!("no number in `{line}`"))?;
                Ok(value)
            };
            let size = |word: &str| -> Result<usize> {
                word.parse().with_context(|| format!("no size in `{line}`"))
            };
            match words.as_slice() {
                ["round_trip_ns", v] => out.round_trip_ns = Some(number(v)?),
                ["rate_per_s", v] => out.rate_per_s = Some(number(v)?),
                ["barrier_ns", v] => {
                    out.barrier_ns.insert(ranks, number(v)?);
                }
                ["bandwidth", bytes, v] => {
                    out.bandwidth.insert(size(bytes)?, number(v)?);
                }
                ["long_bandwidth", bytes, v] => {
                    out.long_bandwidth.insert(size(bytes)?, number(v)?);
                }
                ["ring", bytes, v] => {
                    out.ring_bandwidth.insert(size(bytes)?, number(v)?);
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// Formats the score in the lines that [`Score::parse`] reads.
    pub fn lines(&self) -> String {
        let mut out = String::new();
        out.extend(self.round_trip_ns.map(|v| format!("round_trip_ns {v:.1}\n")));
        out.extend(self.rate_per_s.map(|v| format!("rate_per_s {v:.0}\n")));
        out.extend(self.bandwidth.iter().map(|(n, v)| format!("bandwidth {n} {v:.0}\n")));
        let long = self.long_bandwidth.iter();
        out.extend(long.map(|(n, v)| format!("long_bandwidth {n} {v:.0}\n")));
        out.extend(self.ring_bandwidth.iter().map(|(n, v)| format!("ring {n} {v:.0}\n")));
        out.extend(self.barrier_ns.values().map(|v| format!("barrier_ns {v:.1}\n")));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_scores_are_the_same_thing() {
        let text = "launcher says hello\nround_trip_ns 412.5\nrate_per_s 51000000\n\
                    bandwidth 4096 9000000000\nbandwidth 65536 11000000000\n\
                    long_bandwidth 65536 12000000000\nring 65536 8000000000\nbarrier_ns 350.0\n";
        let score = Score::parse(text, 2).unwrap();
        assert_eq!(score.of(Workload::RoundTrip), Some(412.5));
        assert_eq!(score.of(Workload::Bandwidth(65536)), Some(11e9));
        assert_eq!(
            (score.of(Workload::Barrier(2)), score.of(Workload::Barrier(16))),
            (Some(350.0), None)
        );
        assert_eq!(Score::parse(&score.lines(), 2).unwrap(), score);
        let long = |bytes| score.of(Workload::LongBandwidth(bytes));
        assert_eq!((long(65536), long(4096)), (Some(12e9), Some(9e9)), "peers have one figure");
        assert_eq!(score.of(Workload::RingBandwidth(65536)), Some(8e9));
        assert_eq!(score.of(Workload::RingBandwidth(4096)), None, "no other figure stands for it");
        assert_eq!(score.workloads().len(), 7);
        assert!(Score::parse("rate_per_s many", 2).is_err());
    }

    #[test]
    fn joining_keeps_what_the_other_lacks() {
        let mut two = Score::parse("round_trip_ns 1\nbarrier_ns 2", 2).unwrap();
        two.join(Score::parse("barrier_ns 3", 16).unwrap());
        assert_eq!(
            (two.of(Workload::Barrier(2)), two.of(Workload::Barrier(16))),
            (Some(2.0), Some(3.0))
        );
        assert_eq!(two.round_trip_ns, Some(1.0));
    }
}
