//! `clump lab loss`: the cost of lost packets and of many senders at once between nodes.
//!
//! Jobs with and without loss take turns; the loss is that of the driver's fault wrapper, which
//! every rank puts around its socket when the configuration demands it: packets are discarded as
//! they arrive, so that their sender does the same as without loss. The figures are worked out here
//! from the output of the jobs' ranks ([`live`]); [`command`] starts them.

pub mod command;
pub mod live;

use crate::contrast::Contrast;
use anyhow::{Context, Result, ensure};
use clump_loggp::Median;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Packets lost of a million, and the required share of the lossless goodput.
pub const LOSSES: [(u32, f64); 2] = [(10_000, 0.9), (50_000, 0.7)];
/// Loss under which round trips are measured, of a million.
pub const TRIP_LOSS: u32 = 1000;
/// Senders of the incast.
pub const SENDERS: usize = 8;
/// Maximum deviation of a sender from the mean.
const UNFAIR: f64 = 0.2;
/// Share of one sender's goodput below which that of many has collapsed.
const COLLAPSE: f64 = 0.5;

/// Output of a stream job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StreamFigures {
    /// Payload handled by the receiver, per second.
    pub bytes_per_s: f64,
    /// Packets' worth of messages sent for the first time.
    pub sent: u64,
    /// Packets' worth of messages retransmitted.
    pub resent: u64,
}

/// Output of a round-trip job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTripFigures {
    /// Every round trip, nanoseconds.
    pub ns: Vec<f64>,
    /// Packets' worth of messages that were retransmitted.
    pub resent: u64,
}

/// Output of an incast job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IncastFigures {
    /// Bytes per second of one sender while the others wait.
    pub alone: f64,
    /// Bytes per second of each while all send.
    pub together: Vec<f64>,
    /// Scheduling of each meanwhile; empty where the kernel does not report it.
    pub times: Vec<Times>,
}

/// Shares of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Spent on a processor.
    pub ran: f64,
    /// Spent waiting for a processor.
    pub queued: f64,
}

/// Goodput under one loss.
#[derive(Debug, Serialize)]
pub struct Goodput {
    /// Packets lost of a million.
    pub loss_ppm: u32,
    /// Required share of lossless goodput.
    pub goal: f64,
    /// With loss against without, bytes per second.
    pub bytes_per_s: Contrast,
    /// Share of packets that were retransmitted.
    pub resent: f64,
}

impl Goodput {
    /// Builds the figure from turns: with loss, without.
    ///
    /// # Errors
    /// Fails if nothing was retransmitted under loss, or without turns.
    pub fn of(
        (loss_ppm, goal): (u32, f64),
        turns: &[(StreamFigures, StreamFigures)],
    ) -> Result<Self> {
        let pairs: Vec<_> = turns.iter().map(|(a, b)| (a.bytes_per_s, b.bytes_per_s)).collect();
        let count =
            |part: fn(&StreamFigures) -> u64| turns.iter().map(|(lossy, _)| part(lossy)).sum();
        let (sent, resent): (u64, u64) = (count(|s| s.sent), count(|s| s.resent));
        ensure!(resent > 0, "nothing was sent again under loss: the job did not lose any packets");
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let resent = resent as f64 / sent.max(1) as f64;
        let bytes_per_s = Contrast::of(&pairs).context("no turns were played")?;
        Ok(Self { loss_ppm, goal, bytes_per_s, resent })
    }
}

/// Round trips under loss.
#[derive(Debug, Serialize)]
pub struct Tail {
    /// Median without loss.
    pub lossless_ns: Median,
    /// Without loss: 99th percentile.
    pub lossless_p99_ns: f64,
    /// With loss: median, 99th and 99.9th percentile, the worst.
    pub percentiles_ns: [f64; 4],
    /// Limit of the 99th percentile: three smoothed round trips and 50 us.
    pub limit_ns: f64,
    /// Number of round trips.
    pub count: usize,
    /// Packets' worth of messages that were retransmitted.
    pub resent: u64,
}

impl Tail {
    /// Builds the figures from jobs with and without loss.
    ///
    /// # Errors
    /// Fails if nothing was retransmitted under loss, or without round trips.
    pub fn of(lossy: &RoundTripFigures, lossless: &RoundTripFigures) -> Result<Self> {
        let median = Median::of(lossless.ns.iter().copied()).context("no round trips")?;
        ensure!(lossy.resent > 0, "nothing was sent again under loss: nothing was lost");
        let at = |trips: &RoundTripFigures, share| {
            percentile(&trips.ns, share).context("no round trips")
        };
        Ok(Self {
            lossless_ns: median,
            lossless_p99_ns: at(lossless, 0.99)?,
            percentiles_ns: [at(lossy, 0.5)?, at(lossy, 0.99)?, at(lossy, 0.999)?, at(lossy, 1.0)?],
            limit_ns: 3.0 * median.value + 50_000.0,
            count: lossy.ns.len(),
            resent: lossy.resent,
        })
    }
}

/// Returns the value below which this share of the samples lies.
fn percentile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = u32::try_from(sorted.len().checked_sub(1)?).ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to last")]
    let at = (share * f64::from(last)).round() as usize;
    sorted.get(at).copied()
}

/// Returns the largest deviation from the mean, as a share of it.
fn farthest(rates: &[f64]) -> f64 {
    let mean = mean(rates.iter().copied());
    rates.iter().map(|rate| (rate / mean.max(1.0) - 1.0).abs()).fold(0.0, f64::max)
}

fn mean(all: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = f64::from(u32::try_from(all.len()).unwrap_or(u32::MAX)).max(1.0);
    all.sum::<f64>() / count
}

impl IncastFigures {
    /// Returns the sum of all senders over one alone.
    pub fn over_alone(&self) -> f64 {
        self.together.iter().sum::<f64>() / self.alone.max(1.0)
    }

    /// Returns the largest deviation of a sender from the mean, as a share of it.
    pub fn unfairness(&self) -> f64 {
        farthest(&self.together)
    }

    /// Returns the unfairness of the bytes that senders sent per second on a processor; `None`
    /// where that is not known.
    pub fn unfairness_on_processor(&self) -> Option<f64> {
        let known = !self.times.is_empty() && self.times.iter().all(|times| times.ran > 0.0);
        let rates = self.together.iter().zip(&self.times);
        known.then(|| farthest(&rates.map(|(rate, times)| rate / times.ran).collect::<Vec<_>>()))
    }
}

/// The whole report.
#[derive(Debug, Serialize)]
pub struct LossReport {
    /// Protection of packets.
    pub security: &'static str,
    /// Goodput, by loss.
    pub goodput: Vec<Goodput>,
    /// Round trips.
    pub tail: Tail,
    /// Many senders to one receiver.
    pub incast: IncastFigures,
}

/// Printed form, in 100 columns.
#[derive(Debug)]
pub struct LossText<'a>(pub &'a LossReport);

impl Display for LossText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let LossReport { security, goodput, tail, incast } = self.0;
        let verdict = |met| if met { "met" } else { "missed" };
        writeln!(f, "loss between two nodes, packets protected by {security}")?;
        writeln!(
            f,
            "{:<22}{:>14}{:>14}{:>9}{:>14}   goal",
            "goodput, 64 KiB", "with loss", "without", "ratio", "sent again"
        )?;
        for Goodput { loss_ppm, goal, bytes_per_s, resent } in goodput {
            let Contrast { ours, baseline, ratio } = bytes_per_s;
            writeln!(
                f,
                "{:<22}{:>9.2} GB/s{:>9.2} GB/s{:>9.2}{:>12.2} %   >= {goal:.1} {}",
                format!("{} % lost", f64::from(*loss_ppm) / 1e4),
                ours.value / 1e9,
                baseline.value / 1e9,
                ratio.value,
                resent * 100.0,
                verdict(ratio.value >= *goal)
            )?;
        }
        let [p50, p99, p999, worst] = tail.percentiles_ns.map(|ns| ns / 1e3);
        writeln!(
            f,
            "\n{} round trips, {} % lost ({} packets sent again), us:",
            tail.count,
            f64::from(TRIP_LOSS) / 1e4,
            tail.resent
        )?;
        writeln!(
            f,
            "  median {p50:.1}, 99 % {p99:.1}, 99.9 % {p999:.1}, worst {worst:.1}; \
             without loss median {:.1}, 99 % {:.1}",
            tail.lossless_ns.value / 1e3,
            tail.lossless_p99_ns / 1e3
        )?;
        writeln!(
            f,
            "  99 % <= 3 srtt + 50 us = {:.1}: {}",
            tail.limit_ns / 1e3,
            verdict(tail.percentiles_ns[1] <= tail.limit_ns)
        )?;
        let (over, unfair) = (incast.over_alone(), incast.unfairness());
        writeln!(
            f,
            "\nincast: {} senders together {:.2} GB/s, one alone {:.2} GB/s: {over:.2} x (>= {COLLAPSE} {})",
            incast.together.len(),
            incast.together.iter().sum::<f64>() / 1e9,
            incast.alone / 1e9,
            verdict(over >= COLLAPSE)
        )?;
        writeln!(
            f,
            "  the one farthest from their mean: {:.0} % (<= {:.0} % {})",
            unfair * 100.0,
            UNFAIR * 100.0,
            verdict(unfair <= UNFAIR)
        )?;
        let Some(on_processor) = incast.unfairness_on_processor() else { return Ok(()) };
        let (ran, queued) = (|times: &Times| times.ran, |times: &Times| times.queued);
        writeln!(
            f,
            "  senders ran for {:.0} % of the time and waited {:.0} % for a processor (farthest {:.0} %);\n  \
             of what they sent in a second on one, the farthest is {:.0} % from the mean",
            mean(incast.times.iter().map(ran)) * 100.0,
            mean(incast.times.iter().map(queued)) * 100.0,
            farthest(&incast.times.iter().map(|times| times.ran * 1e9).collect::<Vec<_>>()) * 100.0,
            on_processor * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(bytes_per_s: f64, resent: u64) -> StreamFigures {
        StreamFigures { bytes_per_s, sent: 1000, resent }
    }

    fn trips(slow: usize, resent: u64) -> RoundTripFigures {
        let ns = (0..1000).map(|at| if at < slow { 200_000.0 } else { 10_000.0 }).collect();
        RoundTripFigures { ns, resent }
    }

    #[test]
    fn jobs_that_lost_nothing_are_not_believed() {
        let goal = LOSSES[0];
        assert!(Goodput::of(goal, &[(stream(9e8, 0), stream(1e9, 0))]).is_err());
        assert!(Goodput::of(goal, &[]).is_err());
        let goodput = Goodput::of(goal, &[(stream(9e8, 10), stream(1e9, 0)); 5]).unwrap();
        assert!((goodput.bytes_per_s.ratio.value - 0.9).abs() < 1e-12);
        assert!((goodput.resent - 0.01).abs() < 1e-12);
        assert!(Tail::of(&trips(0, 0), &trips(0, 0)).is_err());
    }

    #[test]
    fn the_tail_is_that_of_the_lossy_job_against_the_other_s_median() {
        let tail = Tail::of(&trips(5, 3), &trips(0, 0)).unwrap();
        assert_eq!(tail.limit_ns, 80_000.0);
        assert_eq!(tail.percentiles_ns, [10_000.0, 10_000.0, 200_000.0, 200_000.0]);
        let tail = Tail::of(&trips(20, 3), &trips(0, 0)).unwrap();
        assert_eq!(tail.percentiles_ns[1], 200_000.0);
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn a_starved_sender_is_unfair() {
        let mut incast = IncastFigures { alone: 1e9, together: vec![1e8; 8], times: Vec::new() };
        assert_eq!(incast.unfairness_on_processor(), None);
        assert!((incast.over_alone() - 0.8).abs() < 1e-9 && incast.unfairness() < 1e-9);
        incast.together[3] = 0.0;
        assert!(incast.unfairness() > 0.99);
    }

    #[test]
    fn a_sender_that_did_not_run_is_told_from_one_that_was_held_back() {
        let times = |ran| Times { ran, queued: 0.5 };
        let mut incast =
            IncastFigures { alone: 1e9, together: vec![1e8, 1e8, 5e7], times: vec![times(0.2); 3] };
        assert!((incast.unfairness_on_processor().unwrap() - 0.4).abs() < 1e-9);
        incast.times[2] = times(0.1);
        assert!(incast.unfairness_on_processor().unwrap() < 1e-9 && incast.unfairness() > 0.39);
    }

    #[test]
    fn the_report_fits_and_says_what_was_met() {
        let turns = [(stream(5e8, 10), stream(1e9, 0)); 5];
        let report = LossReport {
            security: "crc",
            goodput: LOSSES.map(|loss| Goodput::of(loss, &turns).unwrap()).into(),
            tail: Tail::of(&trips(5, 3), &trips(0, 0)).unwrap(),
            incast: IncastFigures {
                alone: 1e9,
                together: vec![1e8; 8],
                times: vec![Times { ran: 0.2, queued: 0.6 }; 8],
            },
        };
        let text = LossText(&report).to_string();
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert_eq!(
            (text.matches("missed").count(), text.matches(" met").count()),
            (2, 3),
            "{text}"
        );
    }
}
