//! Steps of a send and a receive (paper 000, 4.3 and figure 4).

use crate::schema::{Figure, ReportColumn, ReportTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Instruction counts of hot paths that were stored with the source tree, or an empty object.
const STORED: &str = include_str!(concat!(env!("OUT_DIR"), "/icount.json"));

pub mod net;
mod pieces;

pub use pieces::measure;

/// One step of a send or a receive.
#[derive(Debug, Clone, Serialize)]
pub struct StepCost {
    /// Name of the step; the last of a side is the whole.
    pub name: &'static str,
    /// Nanoseconds, alone in a loop with everything in the first-level cache; `None` where the part
    /// cannot be run by itself.
    pub ns: Option<f64>,
    /// Instructions of one execution; `None` where they were not counted.
    pub instructions: Option<f64>,
}

/// Both sides of a short message.
#[derive(Debug, Clone, Serialize)]
pub struct Breakdown {
    /// Parts of a send, in order.
    pub send: Vec<StepCost>,
    /// Parts of a receive, in order.
    pub receive: Vec<StepCost>,
    /// Source of the instruction counts, or reason for their absence.
    pub note: String,
}

impl Breakdown {
    /// Returns the tables of both sides, if anything was measured.
    pub fn tables(&self) -> Vec<ReportTable> {
        let mut tables = Vec::new();
        for (side, steps) in [("send", &self.send), ("receive", &self.receive)] {
            let instructions = ReportColumn::ours("instructions").in_unit("", 0);
            let columns = vec![ReportColumn::ours("time"), instructions];
            let mut table = ReportTable::new(format!("a short {side}, step by step"), columns);
            for StepCost { name, ns, instructions } in steps {
                let figures = [*ns, *instructions].map(|value| value.map(Figure::from));
                table.row(format!("  {name}"), ("ns", 1), figures.into());
            }
            tables.push(table);
        }
        tables.retain(|table| !table.rows.is_empty());
        if let Some(last) = tables.last_mut() {
            last.notes.push(self.note.clone());
        }
        tables
    }

    /// Returns a breakdown for tests and for machines on which nothing could be timed.
    pub fn unknown() -> Self {
        Self { send: Vec::new(), receive: Vec::new(), note: InstructionCounts::stored().note() }
    }
}

/// Instruction counts by path (`cargo xtask icount`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct InstructionCounts {
    compiler: String,
    instructions: BTreeMap<String, f64>,
}

impl InstructionCounts {
    /// Returns the counts that this program was built with; empty where the tree held none.
    pub fn stored() -> Self {
        serde_json::from_str(STORED).unwrap_or_default()
    }

    /// Returns the instructions of `icount_<path>`.
    pub fn of(&self, path: &str) -> Option<f64> {
        self.instructions.get(&format!("icount_{path}")).copied()
    }

    /// Returns their source, as a line under the table.
    pub fn note(&self) -> String {
        if self.instructions.is_empty() {
            return "instructions: not counted in this build (`cargo xtask icount --update` counts them)"
                .into();
        }
        format!("instructions: callgrind, optimized build by {}", self.compiler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_path_and_their_absence_is_said() {
        let counts: InstructionCounts = serde_json::from_str(
            r#"{"compiler": "rustc 1.95.0", "instructions": {"icount_lane_push": 31.5}}"#,
        )
        .unwrap();
        assert_eq!((counts.of("lane_push"), counts.of("lane_pop")), (Some(31.5), None));
        assert!(counts.note().contains("rustc 1.95.0"));
        let none: InstructionCounts = serde_json::from_str("{}").unwrap();
        assert!(none.note().contains("not counted"));
        // The contents of the tree at build time can be read.
        assert!(!InstructionCounts::stored().note().is_empty());
    }
}
