//! Both paths alone and together, side by side (paper 000, table 2).

use crate::contrast::Contrast;
use crate::goals::IDLE_NETWORK;
use crate::schema::{InstrumentReport, ReportColumn, ReportTable, figures_of};
use anyhow::{Context, Result};
use clump_loggp::{Estimate, Median};
use serde::Serialize;

/// Figures of one job.
#[derive(Debug, Serialize)]
pub struct Column {
    /// Name of the measured combination.
    pub name: &'static str,
    /// Its LogP table.
    pub estimate: Estimate,
    /// Short round trip as a multiple of the bare one.
    pub over_bare: Median,
}

impl Column {
    /// Reads a column from a report's JSON.
    ///
    /// # Errors
    /// Fails if a part is missing or has another form.
    pub fn of(name: &'static str, report: &serde_json::Value) -> Result<Self> {
        let part = |path: &str| {
            report.pointer(path).cloned().with_context(|| format!("the report has no {path}"))
        };
        Ok(Self {
            name,
            estimate: serde_json::from_value(part("/data/estimate")?)?,
            over_bare: serde_json::from_value(part("/data/round_trip_ns/ratio")?)?,
        })
    }
}

/// The whole table.
#[derive(Debug, Serialize)]
pub struct Columns {
    /// Protection of packets.
    pub security: &'static str,
    /// Four jobs.
    pub columns: Vec<Column>,
    /// Short round trips through shared memory with an idle network against those without, from
    /// jobs that took turns; nanoseconds.
    pub idle_network: Contrast,
}

/// A row: its name, its figure of a column, unit and digits.
type Row = (&'static str, fn(&Column) -> Median, (&'static str, usize));

const ROWS: [Row; 8] = [
    ("RTT   request to reply handled", |c| c.estimate.rtt, ("ns", 0)),
    ("L     RTT / 2 - o_s - o_r; overlap if < 0", |c| c.estimate.l, ("ns", 0)),
    ("o_s   processor time of a lone send", |c| c.estimate.o_s, ("ns", 0)),
    ("o_r   of a lone receive", |c| c.estimate.o_r, ("ns", 0)),
    ("o     both, in a paced burst", |c| c.estimate.paced, ("ns", 0)),
    ("g     interval", |c| c.estimate.g, ("ns", 0)),
    ("G     time per byte", |c| c.estimate.big_g, ("ns", 3)),
    ("RTT over the bare round trip", |c| c.over_bare, ("", 2)),
];

impl Columns {
    /// Returns the table in the form that all instruments have.
    ///
    /// # Errors
    /// Fails if it has no JSON form.
    pub fn report(&self) -> Result<InstrumentReport> {
        let columns = self.columns.iter().map(|column| ReportColumn::ours(column.name));
        let mut table = ReportTable::new("parameter", columns.collect());
        for (name, figure, unit) in ROWS {
            let figures = self.columns.iter().map(|column| Some(figure(column).into()));
            table.row(name, unit, figures.collect());
        }
        let columns = vec![
            ReportColumn::ours("network idle"),
            ReportColumn::baseline("without"),
            ReportColumn::ratio("ratio").in_unit("", 3),
        ];
        let mut idle = ReportTable::new("shared-memory round trip", columns);
        let met = self.idle_network.ratio.value <= IDLE_NETWORK;
        idle.row(
            format!("{} turns of both", self.idle_network.ratio.samples),
            ("ns", 0),
            figures_of(&self.idle_network, 1.0),
        )
        .goal(format!("<= {IDLE_NETWORK}"), met);
        let title = "LogP of both paths (paper 000, table 2)".into();
        let report = InstrumentReport::new("logp", title, self)?;
        let mut report = report.with("security", self.security);
        report.tables = vec![table, idle];
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logp;
    use crate::pair::fake::FakePair;
    use crate::plan::MeasurementPlan;
    use crate::steps::Breakdown;

    #[test]
    fn four_reports_become_four_columns() {
        let plan = MeasurementPlan {
            slices: 3,
            bulk_bytes: vec![4096, 1 << 17],
            ..MeasurementPlan::quick()
        };
        let report = logp::run(&mut FakePair::default(), &plan, Breakdown::unknown()).unwrap();
        let json = serde_json::json!({ "data": report });
        let names = ["shm alone", "shm, net idle", "net, shm idle", "net alone"];
        let columns = Columns {
            security: "aead",
            columns: names.map(|name| Column::of(name, &json).unwrap()).into(),
            idle_network: Contrast::of(&[(400.0, 380.0); 21]).unwrap(),
        };
        let text = crate::render::text(&columns.report().unwrap());
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert!(names.iter().all(|name| text.contains(name)) && text.contains("1.053"), "{text}");
        assert!(text.contains("met") && !text.contains("missed"));
        assert!(Column::of("nothing", &serde_json::json!({})).is_err());
    }
}
