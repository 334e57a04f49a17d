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
        // A latency or an overhead below zero is the precision of the measurement.
        let known = |median: Median| Some(median.value.max(0.0));
        BaseParameters {
            o_s_ns: known(self.o_s),
            o_r_ns: known(self.o_r),
            g_ns: known(self.g),
            l_ns: known(self.l),
            big_g_ns_per_byte: known(self.big_g),
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
