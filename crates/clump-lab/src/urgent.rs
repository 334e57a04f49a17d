//! `clump lab urgent`: the cost of small messages and locks between nodes during bulk transfers,
//! with control ahead of data and without (paper 003, section 4).
//!
//! Jobs with and without take turns; [`live`] is the work of their ranks.

pub mod live;

use crate::contrast::Contrast;
use crate::schema::{InstrumentReport, ReportColumn, ReportTable, figures_of};
use anyhow::{Context, Result};
use clump_loggp::Median;
use serde::{Deserialize, Serialize};

/// Output of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UrgentJob {
    /// Every small operation without load, nanoseconds.
    pub idle_ns: Vec<f64>,
    /// Every small operation during bulk transfers, nanoseconds.
    pub loaded_ns: Vec<f64>,
    /// Bulk bytes per second that this rank sent meanwhile.
    pub bulk_bytes_per_s: f64,
    /// Packets' worth of messages that went ahead.
    pub ahead: u64,
}

/// One small operation.
#[derive(Debug, Serialize)]
pub struct OperationRow {
    /// Its name.
    pub what: &'static str,
    /// Median without load.
    pub idle_ns: Median,
    /// Medians under load: with control ahead, and without.
    pub loaded_ns: Contrast,
    /// The 99th percentiles under load: with control ahead, and without.
    pub p99_ns: Contrast,
    /// Bulk bytes per second meanwhile: with control ahead, and without.
    pub bulk_bytes_per_s: Contrast,
    /// Packets' worth of messages that went ahead, in all jobs.
    pub ahead: u64,
}

impl OperationRow {
    /// Builds the row from turns: with control ahead, and without.
    ///
    /// # Errors
    /// Fails if a job measured nothing, or without turns.
    pub fn of(what: &'static str, turns: &[(UrgentJob, UrgentJob)]) -> Result<Self> {
        let contrast = |part: &dyn Fn(&UrgentJob) -> Option<f64>| -> Result<Contrast> {
            let pairs = turns.iter().map(|(with, without)| Some((part(with)?, part(without)?)));
            let pairs: Option<Vec<_>> = pairs.collect();
            Contrast::of(&pairs.context("a job measured nothing")?).context("no turns were played")
        };
        let idle = turns.iter().flat_map(|(with, without)| [with, without]);
        let idle = idle.filter_map(|said| share(&said.idle_ns, 0.5));
        Ok(Self {
            what,
            idle_ns: Median::of(idle).context("a job measured nothing")?,
            loaded_ns: contrast(&|said| share(&said.loaded_ns, 0.5))?,
            p99_ns: contrast(&|said| share(&said.loaded_ns, 0.99))?,
            bulk_bytes_per_s: contrast(&|said| Some(said.bulk_bytes_per_s))?,
            ahead: turns.iter().map(|(with, _)| with.ahead).sum(),
        })
    }
}

/// Returns the value below which this share of the samples lies.
fn share(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = u32::try_from(sorted.len().checked_sub(1)?).ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to last")]
    let at = (share * f64::from(last)).round() as usize;
    sorted.get(at).copied()
}

/// The whole report.
#[derive(Debug, Serialize)]
pub struct UrgentReport {
    /// Protection of packets.
    pub security: &'static str,
    /// Each small operation.
    pub rows: Vec<OperationRow>,
}

impl UrgentReport {
    /// Returns the report in the form that all instruments have.
    ///
    /// # Errors
    /// Fails if it has no JSON form.
    pub fn report(&self) -> Result<InstrumentReport> {
        let columns = vec![
            ReportColumn::ours("idle"),
            ReportColumn::ours("ahead"),
            ReportColumn::baseline("in line"),
            ReportColumn::ratio("ratio"),
            ReportColumn::ours("p99 ahead"),
            ReportColumn::baseline("in line"),
            ReportColumn::ratio("ratio"),
            ReportColumn::ratio("bulk"),
        ];
        let mut table = ReportTable::new("", columns);
        for OperationRow { what, idle_ns, loaded_ns, p99_ns, bulk_bytes_per_s, .. } in &self.rows {
            let mut figures = vec![Some(idle_ns.scaled(1e-3, 0.0).into())];
            figures.extend(figures_of(loaded_ns, 1e-3));
            figures.extend(figures_of(p99_ns, 1e-3));
            figures.push(Some(bulk_bytes_per_s.ratio.into()));
            table.row(*what, ("us", 1), figures);
        }
        let notes = "ratios: ahead over in line; bulk: goodput of rank 0, the same ratio";
        table.notes.push(notes.into());
        let title = "small messages between two nodes during bulk transfers".into();
        let report = InstrumentReport::new("urgent", title, self)?;
        let mut report = report.with("security", self.security);
        report.tables.push(table);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(idle: f64, loaded: f64, bulk: f64) -> UrgentJob {
        let all = |ns: f64| (1..=100_u32).map(|i| ns * f64::from(i)).collect();
        UrgentJob { idle_ns: all(idle), loaded_ns: all(loaded), bulk_bytes_per_s: bulk, ahead: 3 }
    }

    #[test]
    fn ratios_are_those_of_turns() {
        let turns =
            [1.0, 10.0, 2.0].map(|slow| (said(1.0, 2.0 * slow, 4.0), said(1.0, 8.0 * slow, 5.0)));
        let row = OperationRow::of("a lock", &turns).unwrap();
        assert!((row.loaded_ns.ratio.value - 0.25).abs() < 1e-9, "{row:?}");
        assert!((row.p99_ns.ratio.value - 0.25).abs() < 1e-9);
        assert!((row.bulk_bytes_per_s.ratio.value - 0.8).abs() < 1e-9);
        assert_eq!(row.ahead, 9);
        assert!(OperationRow::of("nothing", &[]).is_err());
        let report = UrgentReport { security: "aead", rows: vec![row] }.report().unwrap();
        let text = crate::render::text(&report);
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert!(text.contains("a lock") && text.contains("0.25"), "{text}");
    }
}
