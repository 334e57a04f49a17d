//! The comparison as text, Markdown and JSON.

use super::missing::Missing;
use super::score::{Score, Workload};
use super::{ImplementationTurns, PlayedRounds, Venue};
use crate::contrast::Contrast;
use crate::schema::{Figure, FigureRole, InstrumentReport, ReportColumn, ReportTable};
use anyhow::Result;
use clump_loggp::Median;
use serde::Serialize;
use std::fmt::Write;

/// Medians over rounds.
#[derive(Debug, Serialize)]
pub struct ComparisonTable {
    /// Implementations, clump first.
    pub names: Vec<String>,
    /// One row per workload that clump ran.
    pub rows: Vec<WorkloadRow>,
}

/// One workload.
#[derive(Debug, Serialize)]
pub struct WorkloadRow {
    /// The workload.
    pub workload: Workload,
    /// Its name in the table.
    pub name: String,
    /// Unit of the figures.
    pub unit: &'static str,
    /// One figure per implementation, in the order of [`ComparisonTable::names`]; `None` where it
    /// does not support the workload.
    pub figures: Vec<Option<Median>>,
    /// Factor by which clump is better than each, by the median of the rounds' ratios; clump
    /// itself: 1.
    pub advantage: Vec<Option<f64>>,
}

impl WorkloadRow {
    /// Returns clump's advantage over the best of the others.
    pub fn over_best(&self) -> Option<f64> {
        self.advantage.iter().skip(1).flatten().copied().min_by(f64::total_cmp)
    }
}

impl ComparisonTable {
    /// Builds the table from the rounds of all implementations that count; the first is clump.
    pub fn of(played: &PlayedRounds) -> Self {
        let counting = played.counting();
        let counted = |one: &ImplementationTurns| {
            let rounds = one.rounds.iter().zip(&counting).filter(|(_, counts)| **counts);
            let rounds = rounds.map(|(score, _)| score.clone()).collect();
            ImplementationTurns { rounds, ..one.clone() }
        };
        let results: Vec<ImplementationTurns> = played.turns.iter().map(counted).collect();
        let names = results.iter().map(|r| r.name.clone()).collect();
        let rounds = results.first().map(|clump| clump.rounds.iter().map(Score::workloads));
        let workloads = rounds.and_then(|mut all| all.find(|known| !known.is_empty()));
        let row = |workload: Workload| WorkloadRow {
            workload,
            name: workload.to_string(),
            unit: workload.unit(),
            figures: results
                .iter()
                .map(|r| {
                    Some(
                        Median::of(r.rounds.iter().filter_map(|s| s.of(workload)))?
                            .scaled(workload.scale(), 0.0),
                    )
                })
                .collect(),
            advantage: results.iter().map(|r| advantage(&results[0], r, workload)).collect(),
        };
        Self { names, rows: workloads.unwrap_or_default().into_iter().map(row).collect() }
    }

    /// Returns the table in the form that all instruments have; `turns` are what it is of.
    ///
    /// # Errors
    /// Fails if it has no JSON form.
    pub fn report(
        &self,
        field: &Venue,
        missing: &[Missing],
        played: &PlayedRounds,
    ) -> Result<InstrumentReport> {
        let turns = &played.turns;
        let mut columns: Vec<ReportColumn> =
            self.names.iter().cloned().map(ReportColumn::baseline).collect();
        if let Some(own) = columns.first_mut() {
            own.role = FigureRole::Ours;
        }
        columns.push(ReportColumn::ratio("over the best"));
        let mut table = ReportTable::new("medians over rounds", columns);
        for row in &self.rows {
            let figures = row.figures.iter().map(|figure| figure.map(Figure::from));
            let best = row.over_best().map(Figure::from);
            let figures: Vec<_> = figures.chain([best]).collect();
            let own = figures.first().copied().flatten().map_or(0.0, |figure| figure.value);
            let digits = if own < 10.0 { 2 } else { 1 };
            table.row(row.name.clone(), (row.unit, digits), figures);
        }
        table.notes = notes(missing, played);
        let data =
            serde_json::json!({ "table": self, "turns": turns, "lines_ns": played.lines_ns });
        let title = format!("clump beside other implementations through {}", field.scope.text());
        let mut report = InstrumentReport::new("compare", title, &data)?
            .with("security", field.security)
            .with("netns", field.netns);
        report.tables.push(table);
        Ok(report)
    }

    /// Formats the table and its notes for BENCHMARKS.md.
    pub fn markdown(&self, missing: &[Missing], played: &PlayedRounds) -> String {
        let mut out = String::from("| what | unit |");
        for name in &self.names {
            let _ = write!(out, " {name} |");
        }
        let _ = writeln!(out, " clump against the best peer |");
        let _ = writeln!(out, "|---|---|{}---|", "---:|".repeat(self.names.len()));
        for row in &self.rows {
            let _ = write!(out, "| {} | {} |", row.name, row.unit);
            for figure in &row.figures {
                let _ = write!(out, " {} |", number(figure.map(|m| m.value)));
            }
            let better = row.over_best().map_or_else(|| "-".into(), |x| format!("{x:.2} x"));
            let _ = writeln!(out, " {better} |");
        }
        out.push('\n');
        for note in notes(missing, played) {
            let _ = writeln!(out, "- {note}");
        }
        out
    }
}

/// Returns the lines below a table: the meaning of the ratio, the state of the machine, and what is
/// missing in it.
fn notes(missing: &[Missing], played: &PlayedRounds) -> Vec<String> {
    let over = "over the best: rates, clump's over that of the best other; times, that of the best \
                other over clump's; above 1 clump is ahead";
    let mut notes = vec![over.to_owned()];
    notes.extend(played.notes());
    notes.extend(missing.iter().map(|peer| format!("{}: {}", peer.name, peer.remedy)));
    for one in &played.turns {
        let failed = |(round, why): &(usize, String)| {
            format!("{}: its turn in round {round} failed: {why}", one.name)
        };
        notes.extend(one.failures.iter().map(failed));
    }
    notes
}

fn advantage(
    us: &ImplementationTurns,
    them: &ImplementationTurns,
    workload: Workload,
) -> Option<f64> {
    let rounds = us.rounds.iter().zip(&them.rounds);
    let pairs: Vec<(f64, f64)> =
        rounds.filter_map(|(a, b)| Some((a.of(workload)?, b.of(workload)?))).collect();
    let ratio = Contrast::of(&pairs)?.ratio.value;
    Some(if workload.is_time() { 1.0 / ratio } else { ratio })
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(v) if v >= 1000.0 => format!("{v:.0}"),
        Some(v) if v >= 10.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::Scope;
    use clump_wire::Security;

    fn result(name: &str, rounds: &[&str]) -> ImplementationTurns {
        let rounds = rounds.iter().map(|text| Score::parse(text, 2).unwrap()).collect();
        ImplementationTurns { name: name.into(), rounds, ..Default::default() }
    }

    fn results() -> PlayedRounds {
        let turns = vec![
            result("clump", &["round_trip_ns 400\nbandwidth 4096 10e9\nbarrier_ns 300"; 3]),
            result("UCX", &["round_trip_ns 1200\nbandwidth 4096 5e9"; 3]),
            result("MPICH", &["round_trip_ns 1000\nbandwidth 4096 20e9\nbarrier_ns 150000"; 3]),
        ];
        PlayedRounds { turns, lines_ns: vec![vec![95.0; 4]; 3], again: 0 }
    }

    #[test]
    fn advantage_is_against_the_best_in_the_direction_of_better() {
        let table = ComparisonTable::of(&results());
        let row = |workload| table.rows.iter().find(|r| r.workload == workload).unwrap();
        assert_eq!(row(Workload::RoundTrip).over_best(), Some(2.5));
        assert_eq!(row(Workload::Bandwidth(4096)).over_best(), Some(0.5));
        assert_eq!(row(Workload::Barrier(2)).over_best(), Some(500.0));
        assert_eq!(row(Workload::Barrier(2)).figures[1], None);
        assert!((row(Workload::RoundTrip).figures[0].unwrap().value - 0.4).abs() < 1e-12);
    }

    #[test]
    fn text_and_markdown_show_every_implementation() {
        let table = ComparisonTable::of(&results());
        let missing = [Missing { name: "Open MPI", remedy: "not installed".into() }];
        let field = Venue { scope: Scope::Shm, security: Security::Aead, netns: false };
        let text = crate::render::text(&table.report(&field, &missing, &results()).unwrap());
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert!(text.contains("2.50") && text.contains("Open MPI: not installed"));
        let mut played = results();
        played.turns[2].failures.push((2, "it hangs".into()));
        let markdown = table.markdown(&missing, &played);
        let (rows, notes): (Vec<_>, Vec<_>) =
            markdown.lines().filter(|l| !l.is_empty()).partition(|l| l.starts_with('|'));
        assert_eq!(rows.len(), 2 + table.rows.len());
        assert!(rows.iter().all(|l| l.matches('|').count() == 7), "{markdown}");
        let expected = ["above 1 clump is ahead", "95 to 95 ns", "not installed", "it hangs"];
        assert_eq!(notes.len(), expected.len(), "{markdown}");
        assert!(notes.iter().zip(expected).all(|(l, part)| l.contains(part)), "{markdown}");
        assert!(ComparisonTable::of(&PlayedRounds::default()).rows.is_empty());
    }
}
