//! Both paths alone and together, side by side (paper 000, table 2).

use crate::contrast::Contrast;
use crate::goals::IDLE_NETWORK;
use anyhow::{Context, Result};
use clump_loggp::{Estimate, Median};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};

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

/// A row: its name, its figure of a column, digits.
type Row = (&'static str, fn(&Column) -> f64, usize);

/// Printed form, in 100 columns.
#[derive(Debug)]
pub struct ColumnsText<'a>(pub &'a Columns);

impl Display for ColumnsText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Columns { security, columns, idle_network } = self.0;
        writeln!(
            f,
            "LogP of both paths, packets protected by {security}; ns (paper 000, table 2)"
        )?;
        write!(f, "{:<32}", "parameter")?;
        for column in columns {
            write!(f, "{:>15}", column.name)?;
        }
        writeln!(f)?;
        let rows: [Row; 7] = [
            ("RTT   request to reply handled", |c| c.estimate.rtt.value, 0),
            ("L     rest of half of it", |c| c.estimate.l.value, 0),
            ("o_s   processor time of a send", |c| c.estimate.o_s.value, 0),
            ("o_r   of a receive", |c| c.estimate.o_r.value, 0),
            ("g     interval", |c| c.estimate.g.value, 0),
            ("G     time per byte", |c| c.estimate.big_g.value, 3),
            ("RTT over the bare round trip", |c| c.over_bare.value, 2),
        ];
        for (name, figure, digits) in rows {
            write!(f, "{name:<32}")?;
            for column in columns {
                write!(f, "{:>15.digits$}", figure(column))?;
            }
            writeln!(f)?;
        }
        let Contrast { ours, baseline, ratio } = idle_network;
        let verdict = if ratio.value <= IDLE_NETWORK { "met" } else { "missed" };
        writeln!(
            f,
            "\nshared-memory round trip with the network enabled but idle: {:.0} ns; without: {:.0} ns",
            ours.value, baseline.value
        )?;
        writeln!(
            f,
            "ratio of {} turns of both: {:.3} ({:.3} to {:.3}); goal <= {IDLE_NETWORK} {verdict}",
            ratio.samples, ratio.value, ratio.low, ratio.high
        )
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
        let json = serde_json::to_value(&report).unwrap();
        let names = ["shm alone", "shm, net idle", "net, shm idle", "net alone"];
        let columns = Columns {
            security: "aead",
            columns: names.map(|name| Column::of(name, &json).unwrap()).into(),
            idle_network: Contrast::of(&[(400.0, 380.0); 21]).unwrap(),
        };
        let text = ColumnsText(&columns).to_string();
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert!(names.iter().all(|name| text.contains(name)) && text.contains("1.053"), "{text}");
        assert!(text.contains("met") && !text.contains("missed"));
        assert!(Column::of("nothing", &serde_json::json!({})).is_err());
    }
}
