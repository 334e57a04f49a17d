//! Parameters of a path as it is, and as it is while messages are delayed on purpose: what `clump
//! lab calibrate` saves and `clump lab verify` compares with.

use crate::measure::measure;
use crate::negative;
use crate::pair::Pair;
use crate::plan::{Delay, MeasurementPlan};
use crate::schema::{InstrumentReport, ReportColumn, ReportTable};
use anyhow::Result;
use clump_loggp::{BaseParameters, Median};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A knob that delays messages by nothing: it sends them the delayed way.
pub const NOTHING: &str = "L=+1ns";

/// LogGP parameters of one path, all of one way of sending.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathFigures {
    /// o_s, in ns, as the next four.
    pub o_s: Median,
    /// o_r of a lone reply.
    pub o_r: Median,
    /// g beyond the window.
    pub g: Median,
    /// L; may be negative, where sending and receiving overlap.
    pub l: Median,
    /// Round trip.
    pub rtt: Median,
    /// G of medium messages, in ns a byte.
    pub big_g: Median,
}

/// Messages that an interface holds at least, before their sender waits.
const HELD: u32 = 256;

/// Returns the extent of one calibration: what the five parameters need.
pub fn plan(window: u32) -> MeasurementPlan {
    // An interface holds messages back; only beyond what it holds does a sender wait.
    let beyond = window.max(HELD);
    MeasurementPlan {
        bursts: vec![1, 8, 16, 2 * beyond, 4 * beyond],
        longest_delayed: 16,
        delays: vec![Delay::Gaps(0.0), Delay::RoundTrips(2.0)],
        repetitions: 31,
        slices: 11,
        // Longer ones would be memory of their own for the allocator.
        bulk_bytes: vec![4096, 16384, 65536],
        signature_budget: Duration::from_millis(500),
        limit: Duration::from_millis(1500),
        ..MeasurementPlan::quick()
    }
}

impl PathFigures {
    /// Measures the path of a pair.
    ///
    /// # Errors
    /// Fails if the other side stops answering, or if the samples do not suffice.
    pub fn measure<P: Pair>(pair: &mut P) -> Result<Self> {
        let plan = plan(pair.window());
        let (measurement, _) = measure(pair, &plan)?;
        let estimate = measurement.estimate()?;
        let (o_s, o_r, g) = (estimate.o_s, estimate.o_r, estimate.g);
        Ok(Self { o_s, o_r, g, l: estimate.l, rtt: estimate.rtt, big_g: estimate.big_g })
    }

    /// Returns what knobs are set beside.
    pub fn base(&self) -> BaseParameters {
        // An overhead or a gap below zero is the precision of the measurement. A latency is not:
        // sending and receiving overlap (paper 000, table 2), and an absolute L begins there.
        let known = |median: Median| Some(median.value.max(0.0));
        BaseParameters {
            o_s_ns: known(self.o_s),
            o_r_ns: known(self.o_r),
            g_ns: known(self.g),
            l_ns: Some(self.l.value),
            big_g_ns_per_byte: known(self.big_g),
        }
    }

    /// Returns the intervals by the names of the parameters.
    pub fn intervals(&self) -> BTreeMap<String, (f64, f64)> {
        let of = |(name, _, _, pick): Row| (name.to_owned(), (pick(self).low, pick(self).high));
        rows().into_iter().map(of).collect()
    }

    /// Returns what two halves of a measurement say together.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        let both = |pick: fn(&Self) -> Median| {
            let (a, b) = (pick(self), pick(other));
            Median {
                value: f64::midpoint(a.value, b.value),
                low: a.low.min(b.low),
                high: a.high.max(b.high),
                samples: a.samples + b.samples,
            }
        };
        Self {
            o_s: both(|figures| figures.o_s),
            o_r: both(|figures| figures.o_r),
            g: both(|figures| figures.g),
            l: both(|figures| figures.l),
            rtt: both(|figures| figures.rtt),
            big_g: both(|figures| figures.big_g),
        }
    }
}

/// Calibration of one path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathCalibration {
    /// As it is.
    pub bare: PathFigures,
    /// While messages are sent the delayed way, for no delay.
    pub delayed: PathFigures,
}

/// Processors that other programs may keep busy while a calibration is to be saved.
const MAX_LOAD: f64 = 0.2;
/// Share by which the halves of a calibration may differ beyond their intervals, and what may
/// differ anyway: in ns, and in ns a byte.
const MAX_DIFFERENCE: (f64, f64, f64) = (0.1, 50.0, 0.05);

/// Returns the parameters in which two halves of a calibration do not agree, in words.
pub fn disagreements(halves: [&PathFigures; 2]) -> Vec<String> {
    let (share, ns, ns_per_byte) = MAX_DIFFERENCE;
    let differs = |&(name, unit, digits, pick): &Row| {
        let [a, b] = halves.map(pick);
        let apart = (a.low - b.high).max(b.low - a.high);
        let least = if unit == "ns" { ns } else { ns_per_byte };
        let most = share * a.value.abs().max(b.value.abs());
        // L is what overheads leave of a round trip: so is its precision.
        let most = if name == "L" { most.max(share * halves[0].rtt.value.abs()) } else { most };
        (apart > most.max(least))
            .then(|| format!("{name} {:.digits$} and {:.digits$} {unit}", a.value, b.value))
    };
    rows().iter().filter_map(differs).collect()
}

/// Returns why a calibration is not saved: other programs kept processors busy, or its halves do
/// not agree.
pub fn refusal(load: f64, disagreements: &[String]) -> Option<String> {
    let busy = (load > MAX_LOAD).then(|| format!("other programs keep {load:.1} processors busy"));
    let halves = (!disagreements.is_empty())
        .then(|| format!("its halves do not agree: {}", disagreements.join(", ")));
    let why: Vec<String> = busy.into_iter().chain(halves).collect();
    (!why.is_empty()).then(|| {
        format!(
            "not saved, {}; wait until the machine is idle, or save it by --force",
            why.join("; ")
        )
    })
}

/// Returns the report of calibrated paths, by name.
///
/// # Errors
/// Fails if the data have no JSON form.
pub fn report(paths: &[(String, PathCalibration)], saved: &str) -> Result<InstrumentReport> {
    let title = "Parameters of this machine's paths".to_owned();
    let mut report = InstrumentReport::new("calibrate", title, &paths)?;
    for (name, PathCalibration { bare, delayed }) in paths {
        let columns = vec![
            ReportColumn::ours("as it is"),
            ReportColumn::ours("delayed by nothing"),
            ReportColumn::ours("difference"),
        ];
        let mut table = ReportTable::new(format!("path {name}"), columns);
        for (what, unit, digits, pick) in rows() {
            let (bare, delayed) = (pick(bare), pick(delayed));
            let difference = (delayed.value - bare.value).into();
            table.row(
                what,
                (unit, digits),
                vec![Some(bare.into()), Some(delayed.into()), Some(difference)],
            );
        }
        negative::explain(&mut table);
        report.tables.push(table);
    }
    if let Some(last) = report.tables.last_mut() {
        last.notes.push(format!(
            "the difference is what delaying itself costs; knobs are set beside it ({saved})"
        ));
    }
    Ok(report)
}

/// Name, unit, digits, and place of each parameter.
type Row = (&'static str, &'static str, usize, fn(&PathFigures) -> Median);

/// Returns the parameters in the order of tables.
pub fn rows() -> [Row; 6] {
    [
        ("o_s", "ns", 0, |figures| figures.o_s),
        ("o_r", "ns", 0, |figures| figures.o_r),
        ("g", "ns", 0, |figures| figures.g),
        ("L", "ns", 0, |figures| figures.l),
        ("G", "ns/B", 3, |figures| figures.big_g),
        ("round trip", "ns", 0, |figures| figures.rtt),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(o_s: f64, l: f64, half: f64) -> PathFigures {
        let of = |value: f64| Median { value, low: value - half, high: value + half, samples: 9 };
        let [o_s, o_r, g, l, rtt, big_g] = [o_s, 600.0, 900.0, l, 9_000.0, 0.5].map(of);
        PathFigures { o_s, o_r, g, l, rtt, big_g }
    }

    #[test]
    fn a_latency_below_zero_is_kept_and_an_overhead_is_not() {
        let base = figures(-3.0, -300.0, 1.0).base();
        assert_eq!((base.o_s_ns, base.l_ns), (Some(0.0), Some(-300.0)));
    }

    #[test]
    fn a_calibration_under_load_or_of_halves_that_disagree_is_not_saved() {
        let (a, b, other) =
            (figures(400.0, -300.0, 9.0), figures(440.0, -900.0, 9.0), figures(700.0, -300.0, 9.0));
        assert_eq!(
            disagreements([&a, &b]),
            [] as [String; 0],
            "within a tenth, L of the round trip"
        );
        assert_eq!(disagreements([&a, &other]), ["o_s 400 and 700 ns"]);
        let joined = a.joined(&other).o_s;
        assert_eq!(
            (joined.value, joined.low, joined.high, joined.samples),
            (550.0, 391.0, 709.0, 18)
        );
        assert_eq!(refusal(0.1, &[]), None);
        assert!(refusal(0.5, &[]).unwrap().contains("0.5 processors busy"));
        assert!(refusal(0.0, &disagreements([&a, &other])).unwrap().contains("o_s 400 and 700"));
        assert_eq!(a.intervals()["o_s"], (391.0, 409.0));
    }
    use crate::pair::fake::FakePair;

    #[test]
    fn a_known_machine_is_calibrated_and_its_table_says_so() {
        let mut pair = FakePair::default();
        (pair.l, pair.o_s, pair.o_r, pair.g) = (20_000.0, 500.0, 700.0, 1_300.0);
        let figures = PathFigures::measure(&mut pair).unwrap();
        for (got, expected) in [
            (figures.o_s, pair.o_s),
            (figures.o_r, pair.o_r),
            (figures.g, pair.g),
            (figures.l, pair.l),
            (figures.big_g, pair.big_g),
        ] {
            assert!((got.value - expected).abs() <= 0.03 * expected, "{got:?}, not {expected}");
        }
        let path = PathCalibration { bare: figures, delayed: figures };
        let text = crate::render::text(&report(&[("shm".into(), path)], "saved").unwrap());
        assert!(text.contains("o_s") && text.contains("ns/B") && text.contains("saved"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        // An overlap on the path as it is, and a difference that is less than the precision.
        let bare = PathFigures { l: Median::exact(-300.0), o_s: Median::exact(900.0), ..figures };
        let path = PathCalibration { bare, delayed: figures };
        let report = report(&[("shm".into(), path)], "saved").unwrap();
        assert!(negative::unexplained(&report).is_empty(), "{:?}", report.tables);
        let text = crate::render::text(&report);
        assert!(text.contains("L [2]") && text.contains("[2] L below 0"), "{text}");
        assert!(text.contains("o_s [1]") && text.contains("[1] difference below 0"), "{text}");
    }
}
