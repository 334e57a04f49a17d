//! Costs of the instruments in messages without measurement: of knobs that are off, of counters,
//! of traces.

use crate::contrast::Contrast;
use crate::schema::{InstrumentReport, ReportColumn, ReportTable};
use anyhow::Result;
use clump_loggp::Median;
use clump_os::clock;
use clump_os::sync::AtomicU64;
use clump_trace::{CAPACITY, Counter, Counters};
use serde::{Deserialize, Serialize};

/// Most that a message, or an event, may cost more, in ns.
const KNOBS_NS: f64 = 2.0;
const COUNTERS_NS: f64 = 10.0;
const EVENT_NS: f64 = 50.0;
/// Messages of a round trip.
const MESSAGES: f64 = 2.0;

/// Measurement of one job: round trips within a node.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostRun {
    /// Time of a round trip, in ns.
    pub trip_ns: f64,
    /// Number of round trips.
    pub trips: f64,
    /// Times that counters of messages, of both ranks, grew in a round trip.
    pub counted: f64,
}

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct LabCosts {
    /// Round trips of a job whose knobs were turned back, and of one that never turned any.
    pub turned_back: Contrast,
    /// Round trips of a traced job, and of another.
    pub traced: Contrast,
    /// Events of a round trip, of both ranks.
    pub events: f64,
    /// Times that counters of messages, of both ranks, grow in a round trip.
    pub counted: f64,
    /// Time in which a counter grows, in ns.
    pub count_ns: Median,
}

/// Returns the times in which a counter grows, one growing after the other.
pub fn count_ns() -> Vec<f64> {
    const SLICES: usize = 21;
    const ROUNDS: u32 = 100_000;
    let cells: [AtomicU64; CAPACITY] = std::array::from_fn(|_| AtomicU64::new(0));
    let counters = Counters::over(&cells);
    let slice = |_| {
        let begun = clock::now_ns();
        for _ in 0..ROUNDS {
            // A message raises some of them, seldom one of them twice.
            for counter in Counter::ALL.iter().take(8) {
                std::hint::black_box(counters).bump(*counter);
            }
        }
        (clock::now_ns() - begun) as f64 / f64::from(ROUNDS) / 8.0
    };
    (0..SLICES).map(slice).collect()
}

impl LabCosts {
    /// Returns what a message costs more where knobs have been turned and turned back, in ns.
    fn knobs_ns(&self) -> f64 {
        difference(&self.turned_back) / MESSAGES
    }

    /// Returns what counting a message costs at most, in ns.
    fn counters_ns(&self) -> f64 {
        self.counted / MESSAGES * self.count_ns.value
    }

    /// Returns what an event costs, the stamps of its messages with it, in ns.
    fn event_ns(&self) -> f64 {
        difference(&self.traced) / self.events.max(1.0)
    }

    /// Returns the report.
    ///
    /// # Errors
    /// Fails if the data have no JSON form.
    pub fn report(&self) -> Result<InstrumentReport> {
        let mut report = InstrumentReport::new("costs", "Costs of the instruments".into(), self)?;
        let columns = vec![
            ReportColumn::ours("round trip with"),
            ReportColumn::baseline("without"),
            ReportColumn::ours("each"),
        ];
        let mut table = ReportTable::new("within a node", columns);
        let mut row = |name: &str, trips: Option<&Contrast>, each: f64, most: f64, of: &str| {
            let with = trips.map(|trips| trips.ours.into());
            let without = trips.map(|trips| trips.baseline.into());
            let row = table.row(name, ("ns", 1), vec![with, without, Some(each.into())]);
            row.goal(format!("at most {most} ns {of}"), each <= most);
        };
        row("knobs that are off", Some(&self.turned_back), self.knobs_ns(), KNOBS_NS, "a message");
        row("counters, at most", None, self.counters_ns(), COUNTERS_NS, "a message");
        row("traces", Some(&self.traced), self.event_ns(), EVENT_NS, "an event");
        table.notes = vec![
            format!("a round trip: {:.1} events of both ranks", self.events),
            format!(
                "counters have no switch: in a round trip they grow {:.1} times, {:.2} ns each",
                self.counted, self.count_ns.value
            ),
            "knobs that are off are the same code where none was ever turned, and where all were \
             turned back"
                .into(),
        ];
        report.tables.push(table);
        Ok(report)
    }
}

/// Returns by how much the one takes longer, as the median of the slices' ratios says.
fn difference(contrast: &Contrast) -> f64 {
    (contrast.ratio.value - 1.0) * contrast.baseline.value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(turned_back: f64, traced: f64, counted: f64) -> LabCosts {
        let beside = |ours: f64| Contrast::of(&[(ours, 200.0)]).unwrap();
        LabCosts {
            turned_back: beside(turned_back),
            traced: beside(traced),
            events: 6.0,
            counted,
            count_ns: Median::exact(0.5),
        }
    }

    fn missed(costs: &LabCosts) -> Vec<String> {
        let report = costs.report().unwrap();
        let rows = report.tables[0].rows.iter();
        let missed = rows.filter(|row| row.goals.iter().any(|goal| !goal.met));
        missed.map(|row| row.name.clone()).collect()
    }

    #[test]
    fn each_cost_is_of_one_message_or_event() {
        let good = costs(203.0, 440.0, 30.0);
        assert!((good.knobs_ns() - 1.5).abs() < 1e-9 && (good.event_ns() - 40.0).abs() < 1e-9);
        assert!((good.counters_ns() - 7.5).abs() < 1e-9);
        assert!(missed(&good).is_empty(), "{:?}", missed(&good));
    }

    #[test]
    fn what_costs_more_than_it_may_is_missed() {
        assert_eq!(missed(&costs(210.0, 440.0, 30.0)), ["knobs that are off"]);
        assert_eq!(missed(&costs(203.0, 600.0, 30.0)), ["traces"]);
        assert_eq!(missed(&costs(203.0, 440.0, 50.0)), ["counters, at most"]);
        let text = crate::render::text(&costs(203.0, 440.0, 30.0).report().unwrap());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn counters_grow_in_some_time() {
        assert!(count_ns().into_iter().all(|ns| ns > 0.0));
    }
}
