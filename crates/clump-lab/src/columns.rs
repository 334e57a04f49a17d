//! Both paths alone and together, side by side (paper 000, table 2).

use crate::contrast::Contrast;
use crate::figure::signature::{SignaturePoint, points};
use crate::goals::IDLE_NETWORK;
use crate::negative;
use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable, figures_of};
use anyhow::{Context, Result};
use clump_loggp::{Estimate, Median, Signature};
use serde::{Deserialize, Serialize};

/// Figures of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name of the measured combination.
    pub name: String,
    /// Its LogP table.
    pub estimate: Estimate,
    /// Short round trip as a multiple of the bare one.
    pub over_bare: Median,
    /// The signature; empty in reports of older builds.
    #[serde(default)]
    pub signature: Vec<SignaturePoint>,
}

impl Column {
    /// Reads a column from the data of a report.
    ///
    /// # Errors
    /// Fails if a part is missing or has another form.
    pub fn of(name: &str, data: &serde_json::Value) -> Result<Self> {
        let part = |path: &str| {
            data.pointer(path).cloned().with_context(|| format!("the report has no {path}"))
        };
        let signature: Signature = serde_json::from_value(part("/measurement/signature")?)?;
        Ok(Self {
            name: name.into(),
            signature: points(&signature),
            estimate: serde_json::from_value(part("/estimate")?)?,
            over_bare: serde_json::from_value(part("/round_trip_ns/ratio")?)?,
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
type Row = (&'static str, fn(&Column) -> Figure, (&'static str, usize));

const ROWS: [Row; 10] = [
    ("RTT   request to reply handled", |c| c.estimate.rtt.into(), ("ns", 0)),
    ("L     RTT / 2 - o_s - o_r", |c| c.estimate.l.into(), ("ns", 0)),
    ("o_s   processor time of a lone send", |c| c.estimate.o_s.into(), ("ns", 0)),
    ("o_r   of a lone receive", |c| c.estimate.o_r.into(), ("ns", 0)),
    ("o     both, in a paced burst", |c| c.estimate.paced.into(), ("ns", 0)),
    ("g     interval", |c| c.estimate.g.into(), ("ns", 0)),
    ("G     time per byte", |c| c.estimate.big_g.into(), ("ns", 3)),
    ("1/G   bandwidth", |c| (1e3 / c.estimate.big_g.value).into(), ("MB/s", 0)),
    (
        "n1/2  size that reaches half of it",
        |c| (c.estimate.half_power_bytes / 1e3).into(),
        ("kB", 1),
    ),
    ("RTT over the bare round trip", |c| c.over_bare.into(), ("", 2)),
];

/// Paths side by side (paper 000, table 2).
#[derive(Debug, Clone, Copy)]
pub struct LogpTable<'a> {
    /// The paths.
    pub columns: &'a [Column],
}

impl LogpTable<'_> {
    /// Returns the table; what is below zero is explained in it.
    pub fn table(self) -> ReportTable {
        let columns = self.columns.iter().map(|column| ReportColumn::ours(&column.name));
        let mut table = ReportTable::new("parameter", columns.collect());
        for (name, figure, unit) in ROWS {
            let figures = self.columns.iter().map(|column| Some(figure(column)));
            table.row(name, unit, figures.collect());
        }
        negative::explain(&mut table);
        table
    }
}

impl Columns {
    /// Returns the table in the form that all instruments have.
    ///
    /// # Errors
    /// Fails if it has no JSON form.
    pub fn report(&self) -> Result<InstrumentReport> {
        let table = LogpTable { columns: &self.columns }.table();
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
        let json = serde_json::to_value(report).unwrap();
        let names = ["shm alone", "shm, net idle", "net, shm idle", "net alone"];
        let columns = Columns {
            security: "aead",
            columns: names.map(|name| Column::of(name, &json).unwrap()).into(),
            idle_network: Contrast::of(&[(400.0, 380.0); 21]).unwrap(),
        };
        let mut columns = columns;
        columns.columns[1].estimate.l = Median::exact(-300.0);
        let report = columns.report().unwrap();
        assert!(negative::unexplained(&report).is_empty(), "{:?}", report.tables);
        let again: Vec<Column> = serde_json::from_value(report.data["columns"].clone()).unwrap();
        assert_eq!(again, columns.columns, "a report of it is read back");
        let text = crate::render::text(&report);
        assert!(text.contains("[1] L below 0: sending and receiving overlap"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert!(names.iter().all(|name| text.contains(name)) && text.contains("1.053"), "{text}");
        assert!(text.contains("met") && !text.contains("missed"));
        assert!(Column::of("nothing", &serde_json::json!({})).is_err());
    }
}
