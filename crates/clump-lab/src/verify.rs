//! The independence of the knobs (paper 001, table 2): each is turned alone, all parameters are
//! measured, and only those may move that the knob is to move.

use crate::calibrate::{PathFigures, rows};
use crate::negative;
use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable};
use anyhow::Result;
use clump_loggp::Median;
use serde::{Deserialize, Serialize};

/// Movement that is none: 50 ns, or 2 %.
const STILL_NS: f64 = 50.0;
const STILL_SHARE: f64 = 0.02;
/// Stamps are in units of 16 ns, two of them in a round trip.
const ROUNDING_NS: f64 = 32.0;
/// Share by which g may move at a large L.
const GAP_AT_LATENCY: f64 = 0.05;
/// Time or share below which no setting makes sense: twice what the path takes.
const LEAST: f64 = 2.0;

/// A knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnedKnob {
    /// Overhead of sending and receiving.
    Overhead,
    /// Gap.
    Gap,
    /// Latency.
    Latency,
    /// Time per byte.
    PerByte,
}

/// All knobs, with their names.
const KNOBS: [(TurnedKnob, &str); 4] = [
    (TurnedKnob::Overhead, "o"),
    (TurnedKnob::Gap, "g"),
    (TurnedKnob::Latency, "L"),
    (TurnedKnob::PerByte, "G"),
];

/// One knob at one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyPoint {
    /// The knob.
    pub knob: TurnedKnob,
    /// Nanoseconds, or nanoseconds a byte: added for o and L, in all for g and G.
    pub value: f64,
    /// The text that turns it.
    pub text: String,
}

/// Returns `settings` points of each knob, from 1 us (or twice what the path takes) to a hundred
/// times as much.
pub fn points(base: &PathFigures, settings: u32) -> Vec<VerifyPoint> {
    let mut all = Vec::new();
    for (knob, name) in KNOBS {
        let least = match knob {
            TurnedKnob::Overhead => (LEAST * base.o_s.value.max(base.o_r.value)).max(1_000.0),
            TurnedKnob::Gap => (LEAST * base.g.value).max(1_000.0),
            TurnedKnob::Latency => (LEAST * base.l.value).max(1_000.0),
            TurnedKnob::PerByte => LEAST * base.big_g.value,
        };
        let most: f64 = if knob == TurnedKnob::PerByte { 16.0 } else { 100.0 };
        for at in 0..settings {
            let share = f64::from(at) / f64::from(settings.saturating_sub(1).max(1));
            let value = least * most.powf(share);
            let (value, text) = match knob {
                TurnedKnob::PerByte => {
                    let ps = (value * 1e3).round();
                    (ps / 1e3, format!("G={ps}ps/B,class=bulk"))
                }
                // Bulk is cut into messages; what each adds is no part of G.
                TurnedKnob::Overhead | TurnedKnob::Gap => {
                    let plus = if knob == TurnedKnob::Overhead { "+" } else { "" };
                    (value.round(), format!("{name}={plus}{}ns,class=short", value.round()))
                }
                TurnedKnob::Latency => (value.round(), format!("L=+{}ns", value.round())),
            };
            all.push(VerifyPoint { knob, value, text });
        }
    }
    all
}

/// One parameter at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VerifyCell {
    /// The value that it is to have.
    pub expected: f64,
    /// Most by which it may differ.
    pub tolerance: f64,
    /// The value that was measured.
    pub measured: Median,
    /// True if the knob is to move it.
    pub own: bool,
}

impl VerifyCell {
    /// Returns true if the measured interval reaches what was expected.
    pub fn holds(&self) -> bool {
        let (low, high) = (self.measured.low.min(self.measured.value), self.measured.high);
        low <= self.expected + self.tolerance && high >= self.expected - self.tolerance
    }
}

/// Cells of one point, in the order of [`rows`], without the round trip.
pub type VerifyRow = [VerifyCell; 5];

/// Compares what was measured at a point with what the base and the knob say. `share`: by how much
/// a parameter may miss the value that its knob is set to.
pub fn check(
    base: &PathFigures,
    point: &VerifyPoint,
    measured: &PathFigures,
    share: f64,
) -> VerifyRow {
    let value = point.value;
    let (mut o_s, mut o_r, mut g) = (base.o_s.value, base.o_r.value, base.g.value);
    let (mut l, mut big_g) = (base.l.value, base.big_g.value);
    let mut own = [false; 5];
    let mut gap_share = STILL_SHARE;
    match point.knob {
        TurnedKnob::Overhead => {
            (o_s, o_r) = (o_s + value, o_r + value);
            // Both processors are busy for so long with each message that is answered.
            g = g.max(o_s + o_r);
            own = [true, true, false, false, false];
            gap_share = GAP_AT_LATENCY;
        }
        TurnedKnob::Gap => (g, own[2]) = (g.max(value), true),
        TurnedKnob::Latency => {
            (l, own[3]) = (l + value, true);
            gap_share = GAP_AT_LATENCY;
        }
        TurnedKnob::PerByte => (big_g, own[4]) = (big_g.max(value), true),
    }
    let expected = [o_s, o_r, g, l, big_g];
    std::array::from_fn(|at| {
        let (is_own, is_big_g) = (own[at], at == 4);
        let expected = expected[at];
        let rounding = if is_big_g { 0.0 } else { ROUNDING_NS };
        let tolerance = match at {
            _ if is_own => share * expected.abs() + rounding,
            // The interval of a stream of bytes moves with the machine's memory.
            4 => GAP_AT_LATENCY * expected,
            2 => (gap_share * expected).max(STILL_NS),
            _ => (STILL_SHARE * expected.abs()).max(STILL_NS),
        };
        VerifyCell { expected, tolerance, measured: rows()[at].3(measured), own: is_own }
    })
}

/// Points of one path, with what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedPath {
    /// Its name.
    pub name: String,
    /// Its parameters while messages are delayed by nothing.
    pub base: PathFigures,
    /// Points and their cells.
    pub points: Vec<(VerifyPoint, VerifyRow)>,
}

impl VerifiedPath {
    /// Returns the number of cells that fail.
    pub fn failures(&self) -> usize {
        let cells = self.points.iter().flat_map(|(_, cells)| cells);
        cells.filter(|cell| !cell.holds()).count()
    }
}

/// Returns the report of verified paths.
///
/// # Errors
/// Fails if the data have no JSON form.
pub fn report(paths: &[VerifiedPath], share: f64) -> Result<InstrumentReport> {
    let title = "Independence of the knobs".to_owned();
    let report = InstrumentReport::new("verify", title, &paths)?;
    let mut report = report.with("a knob's own parameter within", format!("{} %", share * 100.0));
    for path in paths {
        let columns = rows().into_iter().take(5).map(|(name, unit, _, _)| {
            let column = ReportColumn::ours(name);
            if unit == "ns" { column.in_unit("us", 2) } else { column.in_unit("ns/B", 3) }
        });
        let mut table = ReportTable::new(format!("path {}", path.name), columns.collect());
        let scaled = |at: usize, value: f64| if at < 4 { value / 1e3 } else { value };
        let base = rows().into_iter().take(5).enumerate();
        let base = base.map(|(at, row)| Some(scaled(at, row.3(&path.base).value).into()));
        table.row("none", ("us", 2), base.collect());
        for (point, cells) in &path.points {
            let figure = |(at, cell): (usize, &VerifyCell)| {
                let Median { value, low, high, .. } = cell.measured;
                let interval = Some((scaled(at, low), scaled(at, high)));
                Some(Figure { value: scaled(at, value), interval })
            };
            let name = point.text.split(',').next().unwrap_or_default();
            let row = table.row(name, ("us", 2), cells.iter().enumerate().map(figure).collect());
            let wrong: Vec<String> = cells
                .iter()
                .zip(rows())
                .enumerate()
                .filter(|(_, (cell, _))| !cell.holds())
                .map(|(at, (cell, (name, ..)))| {
                    format!("{name} not {:.2}", scaled(at, cell.expected))
                })
                .collect();
            let goal = if wrong.is_empty() { "as set".to_owned() } else { wrong.join(", ") };
            row.goal(goal, wrong.is_empty());
        }
        negative::explain(&mut table);
        let (failures, cells) = (path.failures(), 5 * path.points.len());
        table.notes.push(format!("{failures} of {cells} cells fail"));
        report.tables.push(table);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: [f64; 5]) -> PathFigures {
        let [o_s, o_r, g, l, big_g] = values.map(Median::exact);
        PathFigures { o_s, o_r, g, l, rtt: Median::exact(0.0), big_g }
    }

    fn base() -> PathFigures {
        figures([400.0, 600.0, 1_200.0, 5_000.0, 0.5])
    }

    fn point(knob: TurnedKnob, value: f64) -> VerifyPoint {
        VerifyPoint { knob, value, text: "x=1".into() }
    }

    fn wrong(knob: TurnedKnob, value: f64, measured: [f64; 5]) -> Vec<usize> {
        let cells = check(&base(), &point(knob, value), &figures(measured), 0.01);
        (0..5).filter(|&at| !cells[at].holds()).collect()
    }

    #[test]
    fn a_knob_that_moves_its_parameter_alone_passes() {
        use TurnedKnob as K;
        assert!(wrong(K::Latency, 20_000.0, [400.0, 600.0, 1_200.0, 25_000.0, 0.5]).is_empty());
        assert!(wrong(K::Gap, 10_000.0, [400.0, 600.0, 10_050.0, 5_000.0, 0.5]).is_empty());
        assert!(wrong(K::PerByte, 2.0, [400.0, 600.0, 1_200.0, 5_000.0, 2.01]).is_empty());
        // Both overheads of a message are more than the gap.
        assert!(wrong(K::Overhead, 5_000.0, [5_400.0, 5_600.0, 11_000.0, 5_000.0, 0.5]).is_empty());
    }

    #[test]
    fn a_knob_that_misses_or_moves_another_parameter_is_found() {
        use TurnedKnob as K;
        assert_eq!(wrong(K::Latency, 20_000.0, [400.0, 600.0, 1_200.0, 24_000.0, 0.5]), [3]);
        // Paper 001's rig: a large latency raises the gap.
        assert_eq!(wrong(K::Latency, 100_000.0, [400.0, 600.0, 27_700.0, 105_000.0, 0.5]), [2]);
        assert_eq!(wrong(K::Gap, 10_000.0, [460.0, 600.0, 10_000.0, 5_000.0, 0.5]), [0]);
        assert_eq!(wrong(K::Overhead, 5_000.0, [5_400.0, 600.0, 11_000.0, 5_000.0, 0.5]), [1]);
        assert_eq!(wrong(K::PerByte, 2.0, [400.0, 600.0, 1_200.0, 5_200.0, 2.0]), [3]);
    }

    #[test]
    fn settings_are_worth_twice_what_the_path_takes_and_can_be_read() {
        let points = points(&base(), 8);
        assert_eq!(points.len(), 32);
        for point in &points {
            let none = [clump_loggp::BaseParameters::default(); 2];
            assert!(!clump_loggp::KnobTable::parse(&point.text, &none).unwrap().is_off());
        }
        let of = |knob: TurnedKnob| points.iter().filter(move |p| p.knob == knob).map(|p| p.value);
        assert!(of(TurnedKnob::Latency).all(|value| value >= 10_000.0));
        assert!(of(TurnedKnob::PerByte).all(|value| (0.9..=16.1).contains(&value)));
    }

    #[test]
    fn the_table_says_which_cell_fails() {
        let point = point(TurnedKnob::Latency, 20_000.0);
        let measured = figures([400.0, 600.0, 9_000.0, 25_000.0, 0.5]);
        let cells = check(&base(), &point, &measured, 0.01);
        let path = VerifiedPath { name: "net".into(), base: base(), points: vec![(point, cells)] };
        assert_eq!(path.failures(), 1);
        let text = crate::render::text(&report(std::slice::from_ref(&path), 0.01).unwrap());
        let base = PathFigures { l: Median::exact(-200.0), ..path.base };
        let overlap = VerifiedPath { base, ..path.clone() };
        let report_below = report(&[overlap], 0.01).unwrap();
        assert!(negative::unexplained(&report_below).is_empty(), "{:?}", report_below.tables);
        assert_eq!(report_below.tables[0].rows[0].name, "none [1]");
        assert!(text.contains("g not 1.20") && text.contains("1 of 5 cells fail"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
