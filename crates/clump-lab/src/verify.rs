//! The independence of the knobs (paper 001, table 2): each is turned alone, all parameters are
//! measured, and only those may move that the knob is to move. So is each pair of them.

use crate::calibrate::{PathFigures, rows};
use crate::negative;
use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable};
use anyhow::Result;
use clump_loggp::Median;
use serde::{Deserialize, Serialize};

/// Movement that is none: 50 ns, unless the user allows more, or 2 %.
pub const STILL_NS: f64 = 50.0;
const STILL_SHARE: f64 = 0.02;
/// Bytes of a message whose time G decides.
const STILL_BYTES: f64 = 4096.0;
/// Stamps are in units of 16 ns, two of them in a round trip.
const ROUNDING_NS: f64 = 32.0;
/// Share by which g may move at a large L.
const GAP_AT_LATENCY: f64 = 0.05;
/// Largest setting in ns, unless the path has more by itself: twice the paper's. Thousands of
/// messages take it, each.
const MAX_NS: f64 = 200_000.0;
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

/// All knobs.
const KNOBS: [TurnedKnob; 4] =
    [TurnedKnob::Overhead, TurnedKnob::Gap, TurnedKnob::Latency, TurnedKnob::PerByte];

/// One knob or two, each at one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyPoint {
    /// The knobs, and nanoseconds, or nanoseconds a byte: added for o and L, in all for g and G.
    pub turned: Vec<(TurnedKnob, f64)>,
    /// The text that turns them.
    pub text: String,
}

impl VerifyPoint {
    /// Turns knobs to shares of their ranges, 0 to 1.
    fn at(base: &PathFigures, shares: &[(TurnedKnob, f64)]) -> Self {
        let of = |&(knob, share): &(TurnedKnob, f64)| {
            let (value, text) = knob.setting(base, share);
            ((knob, value), text)
        };
        let (turned, texts): (Vec<_>, Vec<String>) = shares.iter().map(of).unzip();
        Self { turned, text: texts.join(";") }
    }

    /// Returns the knobs without their paths and classes.
    fn name(&self) -> String {
        let groups = self.text.split(';');
        let names = groups.map(|group| group.split(',').next().unwrap_or_default());
        names.collect::<Vec<_>>().join(" ")
    }
}

impl TurnedKnob {
    /// Returns a value of this knob, and the text that turns it so far: from 1 us, or twice what
    /// the path takes, at a share of 0, to a hundred times as much at 1; G to 16 times.
    fn setting(self, base: &PathFigures, share: f64) -> (f64, String) {
        let least = match self {
            TurnedKnob::Overhead => (LEAST * base.o_s.value.max(base.o_r.value)).max(1_000.0),
            TurnedKnob::Gap => (LEAST * base.g.value).max(1_000.0),
            // L is what o_s and o_r leave of a round trip: so is its precision.
            TurnedKnob::Latency => (LEAST * base.l.value.max(base.rtt.value)).max(1_000.0),
            TurnedKnob::PerByte => LEAST * base.big_g.value,
        };
        let most: f64 = if self == TurnedKnob::PerByte { 16.0 } else { 100.0 };
        let most = match self {
            TurnedKnob::PerByte => most,
            _ => most.min((MAX_NS / least).max(1.0)),
        };
        let value = least * most.powf(share);
        let ns = value.round();
        match self {
            TurnedKnob::PerByte => {
                let ps = (value * 1e3).round();
                (ps / 1e3, format!("G={ps}ps/B,class=bulk"))
            }
            // Bulk is cut into messages; what each adds is no part of G.
            TurnedKnob::Overhead => (ns, format!("o=+{ns}ns,class=short")),
            TurnedKnob::Gap => (ns, format!("g={ns}ns,class=short")),
            TurnedKnob::Latency => (ns, format!("L=+{ns}ns")),
        }
    }
}

/// Returns `settings` points of each knob alone.
pub fn points(base: &PathFigures, settings: u32) -> Vec<VerifyPoint> {
    let last = settings.saturating_sub(1).max(1);
    let of = |knob: TurnedKnob| {
        let at = move |at: u32| VerifyPoint::at(base, &[(knob, f64::from(at) / f64::from(last))]);
        (0..settings).map(at)
    };
    KNOBS.into_iter().flat_map(of).collect()
}

/// Returns `settings` points of each pair of knobs: the less the one is turned, the more the
/// other.
pub fn pairs(base: &PathFigures, settings: u32) -> Vec<VerifyPoint> {
    let mut all = Vec::new();
    for (at, first) in KNOBS.into_iter().enumerate() {
        for second in KNOBS.into_iter().skip(at + 1) {
            all.extend((0..settings).map(|at| {
                let share = (f64::from(at) + 0.5) / f64::from(settings);
                VerifyPoint::at(base, &[(first, share), (second, 1.0 - share)])
            }));
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
/// a parameter may miss the value that its knob is set to; `still_ns`: by how much the others, and
/// what the path takes beside the setting, may move (G: for a message of [`STILL_BYTES`]). What the
/// base is not known better than comes on top.
pub fn check(
    base: &PathFigures,
    point: &VerifyPoint,
    measured: &PathFigures,
    (share, still_ns): (f64, f64),
) -> VerifyRow {
    let (mut o_s, mut o_r, mut g) = (base.o_s.value, base.o_r.value, base.g.value);
    let (mut l, mut big_g) = (base.l.value, base.big_g.value);
    let mut own = [false; 5];
    let mut gap_share = STILL_SHARE;
    for &(knob, value) in &point.turned {
        match knob {
            TurnedKnob::Overhead => {
                (o_s, o_r) = (o_s + value, o_r + value);
                (own[0], own[1]) = (true, true);
                gap_share = GAP_AT_LATENCY;
            }
            TurnedKnob::Gap => (g, own[2]) = (g.max(value), true),
            TurnedKnob::Latency => {
                (l, own[3]) = (l + value, true);
                gap_share = GAP_AT_LATENCY;
            }
            TurnedKnob::PerByte => (big_g, own[4]) = (big_g.max(value), true),
        }
    }
    if own[0] && g < o_s + o_r {
        // Both processors are busy for so long with each message that is answered, whatever g is.
        (g, own[2]) = (o_s + o_r, false);
    }
    let expected = [o_s, o_r, g, l, big_g];
    std::array::from_fn(|at| {
        let (is_own, expected) = (own[at], expected[at]);
        let known = rows()[at].3(base);
        let spread = (known.high - known.low).max(0.0) / 2.0;
        let tolerance = spread
            + match at {
                4 if is_own => share * expected,
                2 if is_own => share * expected + ROUNDING_NS,
                // What the path takes by itself is a part of o and L, and may move here, too.
                _ if is_own => share * expected.abs() + ROUNDING_NS + still_ns - STILL_NS,
                // The interval of a stream of bytes moves with the machine's memory.
                4 => (GAP_AT_LATENCY * expected).max(still_ns / STILL_BYTES),
                2 => (gap_share * expected).max(still_ns),
                _ => (STILL_SHARE * expected.abs()).max(still_ns),
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
    /// Takes over points that were measured again. A cell that holds in one measurement holds:
    /// noise of the machine does not come back, a knob that is wrong does.
    pub fn merge(&mut self, again: VerifiedPath) {
        for (point, cells) in again.points {
            let before = self.points.iter_mut().find(|(old, _)| *old == point);
            let Some((_, old_cells)) = before else { continue };
            for (old_cell, cell) in old_cells.iter_mut().zip(cells) {
                if !old_cell.holds() {
                    *old_cell = cell;
                }
            }
        }
    }

    /// Returns the points of which cells fail.
    pub fn failing(&self) -> Vec<VerifyPoint> {
        let failing = |cells: &VerifyRow| cells.iter().any(|cell| !cell.holds());
        let points = self.points.iter().filter(|(_, cells)| failing(cells));
        points.map(|(point, _)| point.clone()).collect()
    }

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
                let Median { value, low, high, samples } = cell.measured;
                let interval = Some((scaled(at, low), scaled(at, high)));
                Some(Figure { value: scaled(at, value), interval, samples: Some(samples) })
            };
            let row =
                table.row(point.name(), ("us", 2), cells.iter().enumerate().map(figure).collect());
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
        VerifyPoint { turned: vec![(knob, value)], text: "x=1".into() }
    }

    fn wrong(knob: TurnedKnob, value: f64, measured: [f64; 5]) -> Vec<usize> {
        wrong_of(&[(knob, value)], measured)
    }

    fn wrong_of(turned: &[(TurnedKnob, f64)], measured: [f64; 5]) -> Vec<usize> {
        let point = VerifyPoint { turned: turned.to_vec(), text: "x=1".into() };
        let cells = check(&base(), &point, &figures(measured), (0.01, STILL_NS));
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
        let of = |knob: TurnedKnob| {
            let turned = points.iter().flat_map(|point| &point.turned);
            turned.filter(move |one| one.0 == knob).map(|one| one.1)
        };
        assert!(of(TurnedKnob::Latency).all(|value| (10_000.0..=MAX_NS).contains(&value)));
        assert!(of(TurnedKnob::Overhead).all(|value| (1_200.0..=120_000.0).contains(&value)));
        assert!(of(TurnedKnob::PerByte).all(|value| (0.9..=16.1).contains(&value)));
    }

    #[test]
    fn two_knobs_move_two_parameters_and_no_third() {
        use TurnedKnob as K;
        let latency_gap = [(K::Latency, 20_000.0), (K::Gap, 10_000.0)];
        assert!(wrong_of(&latency_gap, [400.0, 600.0, 10_000.0, 25_000.0, 0.5]).is_empty());
        // One knob turns the other back; both move a third parameter.
        assert_eq!(wrong_of(&latency_gap, [400.0, 600.0, 1_200.0, 25_000.0, 0.5]), [2]);
        assert_eq!(wrong_of(&latency_gap, [400.0, 600.0, 10_000.0, 5_000.0, 0.5]), [3]);
        assert_eq!(wrong_of(&latency_gap, [400.0, 600.0, 10_000.0, 25_000.0, 0.7]), [4]);
        // The larger of both is the gap, in any order.
        let both = [(K::Overhead, 5_000.0), (K::Gap, 20_000.0)];
        assert!(wrong_of(&both, [5_400.0, 5_600.0, 20_000.0, 5_000.0, 0.5]).is_empty());
        assert_eq!(wrong_of(&both, [5_400.0, 5_600.0, 11_000.0, 5_000.0, 0.5]), [2]);
        let both = [(K::Gap, 2_000.0), (K::Overhead, 5_000.0)];
        assert!(wrong_of(&both, [5_400.0, 5_600.0, 11_000.0, 5_000.0, 0.5]).is_empty());
        assert_eq!(wrong_of(&both, [5_400.0, 5_600.0, 2_000.0, 5_000.0, 0.5]), [2]);
    }

    #[test]
    fn every_pair_of_knobs_is_turned_in_opposite_directions_and_can_be_read() {
        let none = [clump_loggp::BaseParameters::default(); 2];
        let two = pairs(&base(), 2);
        assert_eq!((pairs(&base(), 0).len(), pairs(&base(), 1).len(), two.len()), (0, 6, 12));
        for (at, point) in two.iter().enumerate() {
            let [(one, _), (other, _)] = point.turned[..] else { panic!("two: {point:?}") };
            assert!(one != other, "{point:?}");
            assert!(!clump_loggp::KnobTable::parse(&point.text, &none).unwrap().is_off());
            if at % 2 == 1 {
                let less = &two[at - 1];
                let values = |point: &VerifyPoint| [point.turned[0].1, point.turned[1].1];
                let (less, more) = (values(less), values(point));
                assert!(less[0] < more[0] && less[1] > more[1], "{point:?}");
            }
        }
        assert_eq!(two[0].name().split(' ').count(), 2, "{}", two[0].name());
    }

    #[test]
    fn a_cell_that_holds_once_holds() {
        let verified = |measured: [f64; 5]| {
            let point = point(TurnedKnob::Latency, 20_000.0);
            let cells = check(&base(), &point, &figures(measured), (0.01, STILL_NS));
            VerifiedPath { name: "net".into(), base: base(), points: vec![(point, cells)] }
        };
        let mut path = verified([500.0, 600.0, 1_200.0, 20_000.0, 0.5]);
        assert_eq!((path.failures(), path.failing().len()), (2, 1));
        // The noise of o_s is gone, L is wrong again, and g is noise of this time.
        path.merge(verified([400.0, 600.0, 9_000.0, 20_000.0, 0.5]));
        assert_eq!((path.failures(), path.failing().len()), (1, 1));
        path.merge(verified([400.0, 600.0, 1_200.0, 25_000.0, 0.5]));
        assert_eq!((path.failures(), path.failing().len()), (0, 0));
    }

    #[test]
    fn what_the_base_is_not_known_better_than_or_the_user_allows_is_no_movement() {
        let point = point(TurnedKnob::Latency, 20_000.0);
        let measured = figures([900.0, 600.0, 1_200.0, 25_000.0, 0.6]);
        let wrong = |base: &PathFigures, still_ns: f64| {
            let cells = check(base, &point, &measured, (0.01, still_ns));
            (0..5).filter(|&at| !cells[at].holds()).collect::<Vec<_>>()
        };
        assert_eq!(wrong(&base(), STILL_NS), [0, 4]);
        assert_eq!(wrong(&base(), 450.0), [0], "0.1 ns a byte are 410 ns of 4 KiB");
        assert_eq!(wrong(&base(), 500.0), [0_usize; 0]);
        let vague = Median { low: 100.0, high: 1_100.0, ..Median::exact(400.0) };
        assert_eq!(wrong(&PathFigures { o_s: vague, ..base() }, STILL_NS), [4]);
    }

    #[test]
    fn the_table_says_which_cell_fails() {
        let point = point(TurnedKnob::Latency, 20_000.0);
        let measured = figures([400.0, 600.0, 9_000.0, 25_000.0, 0.5]);
        let cells = check(&base(), &point, &measured, (0.01, STILL_NS));
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
