//! Results that other instruments printed as JSON: LogP of paths (`clump lab logp`), and the steps
//! of a send and a receive (`clump lab steps`).

use crate::columns::{Column, LogpTable};
use crate::figure::bars::{BarChart, StackedBar};
use crate::schema::{InstrumentReport, ReportTable};
use anyhow::{Context, Result};
use clump_trace::line_state::LineTimes;
use serde::Deserialize;
use serde_json::Value;

/// Steps of a send and a receive.
#[derive(Debug, Clone, PartialEq)]
pub struct StepsReport {
    /// Title that the instrument gave it.
    pub title: String,
    /// Their tables.
    pub tables: Vec<ReportTable>,
    /// A chart for each side.
    pub charts: Vec<BarChart>,
}

/// Results of instruments.
#[derive(Debug, Clone, Default)]
pub struct InstrumentResults {
    /// LogP of each measured path.
    pub columns: Vec<Column>,
    /// Steps, of each file that has them.
    pub steps: Vec<StepsReport>,
    /// Distances of the processors while they were measured, in words.
    pub lines: Vec<String>,
}

/// Sides of a breakdown, as its instruments print them.
#[derive(Debug, Deserialize)]
struct Sides {
    send: Vec<Step>,
    receive: Vec<Step>,
}

#[derive(Debug, Deserialize)]
struct Step {
    name: String,
    ns: StepTimes,
}

/// Times of a step: of a message within a node, or by payload and protection of packets.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum StepTimes {
    One(Option<f64>),
    Packets([[f64; 2]; 2]),
}

/// Names of the packets' times, in their order.
const PACKETS: [[&str; 2]; 2] = [["short, aead", "short, crc"], ["1024 B, aead", "1024 B, crc"]];

impl InstrumentResults {
    /// Reads a report of `clump lab logp` or `clump lab steps`; `name` tells those of one path
    /// apart. Returns false if it is another thing.
    ///
    /// # Errors
    /// It is such a report, and damaged.
    pub fn add(&mut self, name: &str, value: &Value) -> Result<bool> {
        match value.get("instrument").and_then(Value::as_str) {
            Some("logp") => self.add_logp(name, value).context("a damaged report of lab logp")?,
            Some("steps") => self.add_steps(value).context("a damaged report of lab steps")?,
            Some(_) => return Ok(false),
            // Several paths, one after the other: an object of reports.
            None => {
                let all = value.as_object().into_iter().flatten();
                // Beside its format, which those of older builds lack.
                let all: Vec<_> =
                    all.filter(|(name, _)| *name != "format").map(|(_, one)| one).collect();
                let is_logp = |one: &&Value| one.get("instrument").is_some_and(|it| it == "logp");
                if all.is_empty() || !all.iter().all(is_logp) {
                    return Ok(false);
                }
                for one in all {
                    self.add_logp(name, one).context("a damaged report of lab logp")?;
                }
            }
        }
        Ok(true)
    }

    fn add_logp(&mut self, name: &str, report: &Value) -> Result<()> {
        if let Some(columns) = report.pointer("/data/columns") {
            for column in Vec::<Column>::deserialize(columns)? {
                self.add_column(name, column);
            }
            self.add_lines(name, report);
            return Ok(());
        }
        let path = match report.pointer("/data/link/security").and_then(Value::as_str) {
            Some(security) => format!("net, {security}"),
            None => "shm".into(),
        };
        self.add_column(name, Column::of(&path, &report["data"])?);
        self.add_lines(&path, report);
        let sides = report.pointer("/data/breakdown").map(Sides::deserialize).transpose()?;
        if let Some(sides) = sides.filter(|sides| !sides.send.is_empty()) {
            let charts = sides.charts("a short message on one node");
            self.steps.push(StepsReport { title: path, tables: Vec::new(), charts });
        }
        Ok(())
    }

    fn add_column(&mut self, name: &str, mut column: Column) {
        if self.columns.iter().any(|known| known.name == column.name) {
            column.name = format!("{name}: {}", column.name);
        }
        self.columns.push(column);
    }

    /// Keeps the distance of the processors while a report was measured.
    fn add_lines(&mut self, what: &str, report: &Value) {
        let lines = report.get("lines").and_then(|lines| LineTimes::deserialize(lines).ok());
        self.lines.extend(lines.map(|lines| format!("{what}: {}", lines.note())));
    }

    fn add_steps(&mut self, value: &Value) -> Result<()> {
        let report = InstrumentReport::deserialize(value)?;
        let charts = Sides::deserialize(&report.data)?.charts(&report.title);
        let InstrumentReport { title, mut tables, .. } = report;
        self.add_lines(&title, value);
        for table in tables.iter_mut().filter(|table| table.title.is_empty()) {
            table.title = "step".into();
        }
        self.steps.push(StepsReport { title, tables, charts });
        Ok(())
    }

    /// Returns the tables: LogP of all paths side by side (paper 000, table 2), and the steps.
    pub fn tables(&self) -> Vec<ReportTable> {
        const BESIDE: usize = 4;
        let logp = self.columns.chunks(BESIDE).map(|columns| LogpTable { columns }.table());
        let steps = self.steps.iter().flat_map(|steps| steps.tables.clone());
        let mut tables: Vec<_> = logp.chain(steps).collect();
        if let Some(last) = tables.last_mut() {
            last.notes.extend_from_slice(&self.lines);
        }
        tables
    }
}

impl Sides {
    /// Returns a chart for each side; the last step of a side is the whole, and left out.
    fn charts(&self, title: &str) -> Vec<BarChart> {
        let chart = |(side, steps): (&str, &[Step])| {
            let (_, steps) = steps.split_last()?;
            let bars = bars(side, steps);
            let title = format!("{side}: {title}");
            Some(BarChart { title, unit: "ns".into(), digits: 1, bars })
        };
        let sides = [("send", &self.send[..]), ("receive", &self.receive[..])];
        sides.into_iter().filter_map(chart).collect()
    }
}

/// Returns the bars of one side: one, or one for each kind of packet.
fn bars(side: &str, steps: &[Step]) -> Vec<StackedBar> {
    let bar = |name: &str, pick: &dyn Fn(&StepTimes) -> Option<f64>| {
        let part = |step: &Step| Some((step.name.clone(), pick(&step.ns)?));
        StackedBar {
            name: name.into(),
            parts: steps.iter().filter_map(part).collect(),
            within: None,
        }
    };
    if steps.iter().all(|step| matches!(step.ns, StepTimes::One(_))) {
        let one = |times: &StepTimes| match times {
            StepTimes::One(ns) => *ns,
            StepTimes::Packets(_) => None,
        };
        return vec![bar(side, &one)];
    }
    let cells = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let packet = |(size, protection): (usize, usize)| {
        bar(PACKETS[size][protection], &|times| match times {
            StepTimes::One(_) => None,
            StepTimes::Packets(ns) => Some(ns[size][protection]),
        })
    };
    cells.map(packet).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logp;
    use crate::logp_tables::Extent;
    use crate::pair::fake::FakePair;
    use crate::plan::MeasurementPlan;
    use crate::steps::{Breakdown, StepCost};

    fn logp_report() -> Value {
        let plan = MeasurementPlan {
            slices: 3,
            bulk_bytes: vec![4096, 1 << 17],
            ..MeasurementPlan::quick()
        };
        let step = |name, ns| StepCost { name, ns: Some(ns), instructions: None };
        let mut breakdown = Breakdown::unknown();
        breakdown.send = vec![step("slot found", 7.0), step("counted", 2.0), step("whole", 9.0)];
        let report = logp::run(&mut FakePair::default(), &plan, breakdown).unwrap();
        serde_json::to_value(report.report(Extent::Table).unwrap()).unwrap()
    }

    #[test]
    fn reports_of_logp_become_columns_curves_and_bars() {
        let mut results = InstrumentResults::default();
        let mut report = logp_report();
        report["lines"] = serde_json::json!({ "before_ns": 95.0, "after_ns": 480.0 });
        assert!(results.add("a", &report).unwrap());
        let several = serde_json::json!({ "format": 1, "shm": report });
        assert!(results.add("b", &several).unwrap(), "several paths");
        let names: Vec<_> = results.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["shm", "b: shm"]);
        assert!(results.columns.iter().all(|column| column.signature.len() > 10));
        let send = &results.steps[0].charts[0];
        let parts = [("slot found".to_owned(), 7.0), ("counted".to_owned(), 2.0)];
        assert_eq!(
            (send.title.as_str(), &send.bars[0].parts[..]),
            ("send: a short message on one node", &parts[..])
        );
        let tables = results.tables();
        assert_eq!(tables[0].columns.len(), 2);
        assert!(tables[0].rows.iter().any(|row| row.name.starts_with("o_s")));
        let notes = &tables.last().unwrap().notes;
        assert_eq!(notes.iter().filter(|note| note.contains("480 ns after")).count(), 2);
    }

    #[test]
    fn steps_of_packets_become_a_bar_for_each_kind() {
        let step = |name: &str, ns: f64| serde_json::json!({ "name": name, "ns": [[ns, ns + 1.0], [ns, ns]] });
        let data = serde_json::json!({
            "send": [step("seal", 10.0), step("call", 900.0), step("sum of a send", 910.0)],
            "receive": [step("open", 20.0), step("sum of a receive", 20.0)],
        });
        let mut report = InstrumentReport::new("steps", "a packet".into(), &data).unwrap();
        report.tables.push(ReportTable::new("", Vec::new()));
        let mut results = InstrumentResults::default();
        assert!(results.add("s", &serde_json::to_value(&report).unwrap()).unwrap());
        let [send, receive] = &results.steps[0].charts[..] else { panic!("two sides") };
        assert_eq!(send.bars.len(), 4);
        assert_eq!(send.bars[1].parts[0], ("seal".to_owned(), 11.0));
        assert_eq!(
            (receive.bars[0].parts.len(), receive.bars[0].name.as_str()),
            (1, "short, aead")
        );
        report.data = serde_json::json!({ "send": 1 });
        let damaged = results.add("s", &serde_json::to_value(&report).unwrap()).unwrap_err();
        assert!(format!("{damaged:#}").contains("lab steps"), "{damaged:#}");
        assert!(!results.add("s", &serde_json::json!({ "instrument": "verify" })).unwrap());
        assert!(!results.add("s", &serde_json::json!({ "a": 1 })).unwrap());
    }
}
