//! `clump lab loss`: the cost of lost packets and of many senders at once between nodes.
//!
//! Jobs with and without loss take turns; the loss is that of the driver's fault wrapper, which
//! every rank puts around its socket when the configuration demands it: packets are discarded as
//! they arrive, so that their sender does the same as without loss. The figures are worked out here
//! from the output of the jobs' ranks ([`live`]).

pub mod live;

use crate::contrast::Contrast;
use crate::schema::{InstrumentReport, ReportColumn, ReportTable, figures_of, plain};
use anyhow::{Context, Result, ensure};
use clump_loggp::Median;
use serde::{Deserialize, Serialize};

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

impl LossReport {
    /// Returns the report in the form that all instruments have.
    ///
    /// # Errors
    /// Fails if it has no JSON form.
    pub fn report(&self) -> Result<InstrumentReport> {
        let title = "packets lost between nodes, and many senders".into();
        let report = InstrumentReport::new("loss", title, self)?;
        let mut report = report.with("security", self.security);
        report.tables = vec![self.goodput_table(), self.tail.table(), self.incast.table()];
        Ok(report)
    }

    fn goodput_table(&self) -> ReportTable {
        let mut columns = vec![
            ReportColumn::ours("with loss"),
            ReportColumn::baseline("without"),
            ReportColumn::ratio("ratio"),
        ];
        columns.push(ReportColumn::ours("sent again").in_unit("%", 2));
        let mut table = ReportTable::new("goodput, 64 KiB", columns);
        for Goodput { loss_ppm, goal, bytes_per_s, resent } in &self.goodput {
            let mut figures = figures_of(bytes_per_s, 1e-9);
            figures.push(Some((resent * 100.0).into()));
            let name = format!("{} % lost", f64::from(*loss_ppm) / 1e4);
            let met = bytes_per_s.ratio.value >= *goal;
            table.row(name, ("GB/s", 2), figures).goal(format!(">= {goal:.1}"), met);
        }
        table
    }
}

impl Tail {
    fn table(&self) -> ReportTable {
        let columns = ["median", "99 %", "99.9 %", "worst"].map(ReportColumn::ours);
        let mut table = ReportTable::new(format!("{} round trips", self.count), columns.into());
        let lossless = [self.lossless_ns.value, self.lossless_p99_ns].map(|ns| ns / 1e3);
        let figures = plain(lossless).into_iter().chain([None, None]).collect();
        table.row("without loss", ("us", 1), figures);
        let name = format!("{} % lost", f64::from(TRIP_LOSS) / 1e4);
        let limit = format!("99 % <= 3 srtt + 50 us = {:.1} us", self.limit_ns / 1e3);
        table
            .row(name, ("us", 1), plain(self.percentiles_ns.map(|ns| ns / 1e3)))
            .goal(limit, self.percentiles_ns[1] <= self.limit_ns);
        table.notes.push(format!("{} packets sent again", self.resent));
        table
    }
}

impl IncastFigures {
    fn table(&self) -> ReportTable {
        let (senders, over, unfair) = (self.together.len(), self.over_alone(), self.unfairness());
        let columns = vec![
            ReportColumn::ours("together"),
            ReportColumn::baseline("one alone"),
            ReportColumn::ratio("ratio"),
        ];
        let mut table = ReportTable::new("incast", columns);
        let sum = self.together.iter().sum::<f64>();
        table
            .row(
                format!("{senders} senders"),
                ("GB/s", 2),
                plain([sum / 1e9, self.alone / 1e9, over]),
            )
            .goal(format!(">= {COLLAPSE}"), over >= COLLAPSE);
        let mut farthest_from_mean = |name: &str, share: f64| {
            let figures = vec![Some((share * 100.0).into()), None, None];
            table.row(name, ("%", 0), figures);
        };
        farthest_from_mean("farthest from their mean", unfair);
        if let Some(on_processor) = self.unfairness_on_processor() {
            let ran: Vec<f64> = self.times.iter().map(|times| times.ran).collect();
            let queued = self.times.iter().map(|times| times.queued);
            farthest_from_mean("  of a second on a processor", on_processor);
            farthest_from_mean("  time on a processor, mean", mean(ran.iter().copied()));
            farthest_from_mean("    farthest from it", farthest_share(&ran));
            farthest_from_mean("  waited for one, mean", mean(queued));
        }
        if let Some(row) = table.rows.get_mut(1) {
            row.goal(format!("<= {:.0} %", UNFAIR * 100.0), unfair <= UNFAIR);
        }
        table
    }
}

/// Returns the largest deviation of shares from their mean, as a share of it.
fn farthest_share(shares: &[f64]) -> f64 {
    // Shares are below 1, where rates are not told from 0.
    farthest(&shares.iter().map(|share| share * 1e9).collect::<Vec<_>>())
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
        let text = crate::render::text(&report.report().unwrap());
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert_eq!(
            (text.matches("missed").count(), text.matches(" met").count()),
            (2, 3),
            "{text}"
        );
    }
}
