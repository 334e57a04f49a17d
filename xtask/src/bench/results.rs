//! Stored results: one file for each table of BENCHMARKS.md.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

const FOLDER: &str = "docs/benchmarks/results";
/// Runs that a row keeps. Its figures are those of all of them.
const KEPT: usize = 5;

/// The results of one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultTable {
    /// Name of the table and of its file.
    pub name: String,
    /// When, where and of which commit rows without runs were recorded by hand.
    pub recorded: Value,
    /// Its columns.
    pub columns: Vec<ResultColumn>,
    /// Its rows.
    pub rows: Vec<ResultRow>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultColumn {
    /// Its heading.
    pub name: String,
    /// `left` or `right`.
    pub align: String,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Its name for instruments.
    pub key: String,
    /// Its cells as people wrote them.
    pub cells: Vec<String>,
    /// Runs that replace cells, the latest last.
    pub runs: Vec<Run>,
}

/// One run of an instrument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The instrument.
    pub instrument: String,
    /// The day.
    pub date: String,
    /// The commit that was measured.
    pub commit: String,
    /// The machine.
    pub machine: Value,
    /// Processes that wanted to run before it (load average of a minute).
    pub load: f64,
    /// Its figures.
    pub figures: Vec<StoredFigure>,
}

/// A median, as the column shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredFigure {
    /// Index of the column.
    pub column: usize,
    /// The median.
    pub value: f64,
    /// The interval that covers 95 %, where it is known.
    pub interval: Option<(f64, f64)>,
    /// Its unit, and what else follows the number.
    pub unit: String,
    /// Digits after the point.
    pub digits: usize,
    /// The largest or smallest value that meets the goal.
    pub goal: Option<Goal>,
}

/// A goal for a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// This much at most.
    AtMost(f64),
    /// This much at least.
    AtLeast(f64),
}

impl ResultTable {
    /// Reads all tables, by name.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is no table.
    pub fn load_all(root: &Path) -> Result<Vec<Self>> {
        let mut tables = Vec::new();
        for entry in std::fs::read_dir(root.join(FOLDER)).context(FOLDER)? {
            let path = entry?.path();
            let what = || format!("reading {}", path.display());
            let text = std::fs::read_to_string(&path).with_context(what)?;
            tables.push(serde_json::from_str::<Self>(&text).with_context(what)?);
        }
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tables)
    }

    /// Writes the table into its file.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn store(&self, root: &Path) -> Result<()> {
        let path = root.join(FOLDER).join(format!("{}.json", self.name));
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }
}

impl ResultRow {
    /// Adds a figure of a run.
    pub fn add(&mut self, run: &Run, figure: StoredFigure) {
        let is_this = |last: &Run| {
            let column = figure.column;
            (&last.instrument, &last.date, &last.commit)
                == (&run.instrument, &run.date, &run.commit)
                && last.figures.iter().all(|known| known.column != column)
        };
        match self.runs.last_mut().filter(|last| is_this(last)) {
            Some(last) => last.figures.push(figure),
            None => self.runs.push(Run { figures: vec![figure], ..run.clone() }),
        }
        let old = self.runs.len().saturating_sub(KEPT);
        self.runs.drain(..old);
    }

    /// Returns its cells: those of runs where there are some.
    pub fn cells(&self) -> Vec<String> {
        let mut cells = self.cells.clone();
        for (column, cell) in cells.iter_mut().enumerate() {
            let figures: Vec<&StoredFigure> = self.figures_of(column).collect();
            let by_value = |a: &&&StoredFigure, b: &&&StoredFigure| a.value.total_cmp(&b.value);
            let ends = (figures.iter().min_by(by_value), figures.iter().max_by(by_value));
            let (Some(low), Some(high)) = ends else { continue };
            *cell = high.text();
            if low.number() != high.number() {
                *cell = format!("{} to {cell}", low.number());
            }
        }
        if let (Some(met), Some(verdict)) = (self.meets_goals(), cells.last_mut()) {
            *verdict = if met { "met".into() } else { "**missed**".into() };
        }
        cells
    }

    fn figures_of(&self, column: usize) -> impl Iterator<Item = &StoredFigure> {
        let figures = self.runs.iter().flat_map(|run| &run.figures);
        figures.filter(move |figure| figure.column == column)
    }

    /// Returns true if every run met the goals of its figures; `None` if they have none.
    fn meets_goals(&self) -> Option<bool> {
        let figures = self.runs.iter().flat_map(|run| &run.figures);
        let met: Vec<bool> = figures.filter_map(StoredFigure::meets_goal).collect();
        (!met.is_empty()).then(|| met.into_iter().all(|met| met))
    }
}

impl StoredFigure {
    /// Returns the figure with its unit.
    pub fn text(&self) -> String {
        format!("{} {}", self.number(), self.unit).trim_end().into()
    }

    fn number(&self) -> String {
        let digits = self.digits;
        format!("{:.digits$}", self.value)
    }

    fn meets_goal(&self) -> Option<bool> {
        self.goal.map(|goal| match goal {
            Goal::AtMost(limit) => self.value <= limit,
            Goal::AtLeast(limit) => self.value >= limit,
        })
    }
}
