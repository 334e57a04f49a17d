//! The one form of every instrument's results: named figures with units, beside their baselines
//! and goals, and the machine that they are of.

use crate::contrast::Contrast;
use anyhow::Result;
use clump_loggp::Median;
use clump_os::console::JSON_FORMAT;
use clump_trace::line_state::{LineTimes, LineWatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results of one run of an instrument; serializes to its `--json` output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstrumentReport {
    /// Number of the format; 0: of a report from before it had one.
    #[serde(default)]
    pub format: u32,
    /// Name of the instrument, as its command has it.
    pub instrument: String,
    /// One line that says what was measured.
    pub title: String,
    /// Results in words, where there are some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Settings of the run.
    pub parameters: Vec<Parameter>,
    /// The machine.
    pub machine: Machine,
    /// Round trips between the processors before and after, where they matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineTimes>,
    /// The results.
    pub tables: Vec<ReportTable>,
    /// Everything measured, in the instrument's own form.
    pub data: serde_json::Value,
}

/// A setting of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The machine that figures are of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Its processor.
    pub processor: String,
    /// Processors that this program may use.
    pub processors: usize,
    /// Its kernel.
    pub kernel: String,
    /// False if this program was built without optimization: the figures then say nothing.
    pub optimized: bool,
}

impl Machine {
    /// Returns the machine that this runs on; what it does not tell stays empty.
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            processor: model.map(|(_, name)| name.trim().to_owned()).unwrap_or_default(),
            processors: clump_os::topology::usable_cores(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            optimized: !cfg!(debug_assertions),
        }
    }
}

/// One table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportTable {
    /// Heading of the column of names.
    pub title: String,
    /// The columns of figures.
    pub columns: Vec<ReportColumn>,
    /// The rows.
    pub rows: Vec<ReportRow>,
    /// Lines of text below.
    pub notes: Vec<String>,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportColumn {
    /// Its heading.
    pub name: String,
    /// Meaning of its figures in the row.
    pub role: FigureRole,
    /// Unit of its figures, if not that of the row.
    pub unit: Option<String>,
    /// Digits after the point, if not those of the row.
    pub digits: Option<usize>,
}

/// Meaning of the figures of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureRole {
    /// A measurement of clump.
    Ours,
    /// The thing that it is compared with.
    Baseline,
    /// The ratio of both.
    Ratio,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportRow {
    /// The thing that was measured.
    pub name: String,
    /// Unit of its figures.
    pub unit: String,
    /// Digits after the point.
    pub digits: usize,
    /// Figures by column; none where there is none.
    pub figures: Vec<Option<Figure>>,
    /// Goals for them.
    pub goals: Vec<GoalCheck>,
}

/// A figure with the interval of its median, where it is one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// Lower and upper end of the interval that covers 95 %; of fewer than six samples, which have
    /// none, of all of them.
    pub interval: Option<(f64, f64)>,
    /// Samples, where they are counted; 0: it is known and not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
}

/// A goal, and whether it was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoalCheck {
    /// The goal in words.
    pub goal: String,
    /// True if it was met.
    pub met: bool,
}

impl InstrumentReport {
    /// Begins a report; `data` is everything that was measured.
    ///
    /// # Errors
    /// Fails if the data have no JSON form.
    pub fn new(instrument: &str, title: String, data: &impl Serialize) -> Result<Self> {
        Ok(Self {
            format: JSON_FORMAT,
            instrument: instrument.into(),
            title,
            findings: Vec::new(),
            parameters: Vec::new(),
            machine: Machine::this(),
            lines: None,
            tables: Vec::new(),
            data: serde_json::to_value(data)?,
        })
    }

    /// Adds the round trips between the processors, from the beginning of the measurement to now.
    #[must_use]
    pub fn watched(self, watch: LineWatch) -> Self {
        Self { lines: watch.end(), ..self }
    }

    /// Adds a setting of the run.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.parameters.push(Parameter { name: name.into(), value: value.to_string() });
        self
    }
}

impl ReportTable {
    /// Creates a table without rows.
    pub fn new(title: impl Into<String>, columns: Vec<ReportColumn>) -> Self {
        Self { title: title.into(), columns, ..Self::default() }
    }

    /// Adds a row, whose figures may then be given their goals.
    pub fn row(
        &mut self,
        name: impl Into<String>,
        (unit, digits): (&str, usize),
        figures: Vec<Option<Figure>>,
    ) -> &mut ReportRow {
        debug_assert_eq!(figures.len(), self.columns.len(), "a figure for each column");
        let (name, unit) = (name.into(), unit.into());
        let at = self.rows.len();
        self.rows.push(ReportRow { name, unit, digits, figures, goals: Vec::new() });
        &mut self.rows[at]
    }
}

impl ReportRow {
    /// Adds a goal.
    pub fn goal(&mut self, goal: impl Into<String>, met: bool) -> &mut Self {
        self.goals.push(GoalCheck { goal: goal.into(), met });
        self
    }
}

impl ReportColumn {
    /// Creates a column of clump's figures.
    pub fn ours(name: impl Into<String>) -> Self {
        Self { name: name.into(), role: FigureRole::Ours, unit: None, digits: None }
    }

    /// Creates a column of what they are compared with.
    pub fn baseline(name: impl Into<String>) -> Self {
        Self { role: FigureRole::Baseline, ..Self::ours(name) }
    }

    /// Creates a column of ratios.
    pub fn ratio(name: impl Into<String>) -> Self {
        let (unit, digits) = (Some(String::new()), Some(2));
        Self { role: FigureRole::Ratio, unit, digits, ..Self::ours(name) }
    }

    /// Gives the column a unit of its own.
    #[must_use]
    pub fn in_unit(self, unit: &str, digits: usize) -> Self {
        Self { unit: Some(unit.into()), digits: Some(digits), ..self }
    }
}

impl From<f64> for Figure {
    fn from(value: f64) -> Self {
        Self { value, interval: None, samples: None }
    }
}

impl From<Median> for Figure {
    fn from(median: Median) -> Self {
        let Median { value, low, high, samples } = median;
        Self { value, interval: Some((low, high)), samples: Some(samples) }
    }
}

/// Returns the figures of a comparison for columns ours, baseline, ratio.
pub fn figures_of(contrast: &Contrast, scale: f64) -> Vec<Option<Figure>> {
    let Contrast { ours, baseline, ratio } = contrast.scaled(scale);
    [ours, baseline, ratio].map(|median| Some(median.into())).into()
}

/// Returns figures without intervals.
pub fn plain(values: impl IntoIterator<Item = f64>) -> Vec<Option<Figure>> {
    values.into_iter().map(|value| Some(value.into())).collect()
}
