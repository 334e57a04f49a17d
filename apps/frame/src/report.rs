//! The report of a run, as text and as JSON; sizes of inputs, and times of phases.

use anyhow::{Context, Result};
use clap::ValueEnum;
use clump_os::printable::counted;
use clump_os::{clock, console};
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

/// Size of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InputSize {
    /// Seconds, for tests
    Ci,
    /// Up to a minute or two, to measure
    Measure,
    /// That of the paper or of the benchmark's rules
    Paper,
}

impl InputSize {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ci => "ci",
            Self::Measure => "measure",
            Self::Paper => "paper",
        }
    }

    /// Returns one of three values.
    pub fn of<T>(self, ci: T, measure: T, paper: T) -> T {
        match self {
            Self::Ci => ci,
            Self::Measure => measure,
            Self::Paper => paper,
        }
    }
}

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AppReport {
    /// Number of the format.
    format: u32,
    /// The application.
    app: &'static str,
    /// Size of the input.
    size: &'static str,
    /// Ranks of the job.
    ranks: usize,
    /// Its nodes.
    nodes: usize,
    /// Parameters and counts, by name.
    counts: BTreeMap<&'static str, u64>,
    /// Choices, by name.
    choices: BTreeMap<&'static str, Cow<'static, str>>,
    /// Seconds of the slowest rank, by phase, in their order.
    phases: Vec<(&'static str, f64)>,
    /// Rates and ratios, by name.
    figures: BTreeMap<&'static str, f64>,
    /// Lines of text that the run ends with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    text: Vec<String>,
    /// True if the result was checked and is right.
    verified: bool,
}

impl AppReport {
    /// Creates the report of an application that has not been verified.
    pub fn of(app: &'static str, size: InputSize, (ranks, nodes): (usize, usize)) -> Self {
        let (counts, choices, phases, figures, text) = Default::default();
        let size = size.name();
        let format = console::JSON_FORMAT;
        let verified = false;
        Self { format, app, size, ranks, nodes, counts, choices, phases, figures, text, verified }
    }

    /// Adds a parameter or a count.
    pub fn count(&mut self, name: &'static str, count: u64) {
        self.counts.insert(name, count);
    }

    /// Adds a choice.
    pub fn choice(&mut self, name: &'static str, choice: impl Into<Cow<'static, str>>) {
        self.choices.insert(name, choice.into());
    }

    /// Adds the seconds of a phase.
    pub fn phase(&mut self, name: &'static str, seconds: f64) {
        self.phases.push((name, seconds));
    }

    /// Adds a rate or a ratio.
    pub fn figure(&mut self, name: &'static str, value: f64) {
        self.figures.insert(name, value);
    }

    /// Adds a line of text.
    pub fn line(&mut self, text: String) {
        self.text.push(text);
    }

    /// Records if the check has passed on all ranks.
    pub fn verify(&mut self, passed: bool) {
        self.verified = passed;
    }

    /// Prints it if `lead`, and returns the exit code of the run.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn finish(&self, lead: bool, json: bool) -> Result<ExitCode> {
        if lead && json {
            let text = serde_json::to_string(self).context("writing JSON")?;
            console::out(&format!("{text}\n"))?;
        } else if lead {
            console::out(&format!("{self}\n"))?;
        }
        Ok(if self.verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl fmt::Display for AppReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app, size, ranks, nodes, .. } = self;
        let (ranks, nodes) = (counted(*ranks as u64, "rank"), counted(*nodes as u64, "node"));
        writeln!(f, "{app}: size {size}, {ranks} on {nodes}")?;
        for (name, choice) in &self.choices {
            writeln!(f, "  {name:<34}{choice:>16}")?;
        }
        for (name, count) in &self.counts {
            writeln!(f, "  {name:<34}{count:>16}")?;
        }
        for (name, seconds) in &self.phases {
            writeln!(f, "  {:<34}{seconds:>14.3} s", format!("time of: {name}"))?;
        }
        for (name, value) in &self.figures {
            writeln!(f, "  {name:<34}{value:>16.3}")?;
        }
        for line in &self.text {
            writeln!(f, "{line}")?;
        }
        write!(f, "verified: {}", if self.verified { "yes" } else { "no" })
    }
}

/// The beginning of a phase.
#[derive(Debug)]
pub struct Lap(u64);

impl Lap {
    /// Begins a phase.
    pub fn begin() -> Self {
        Self(clock::now_ns())
    }

    /// Returns the seconds since the beginning.
    pub fn seconds(&self) -> f64 {
        clock::now_ns().saturating_sub(self.0) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::{AppReport, InputSize};

    #[test]
    fn a_report_says_that_it_is_not_verified() {
        let mut report = AppReport::of("some", InputSize::Ci, (2, 1));
        assert!(report.to_string().ends_with("verified: no"));
        report.verify(true);
        report.figure("million a second", 1.5);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["verified"], true);
        assert_eq!(json["figures"]["million a second"], 1.5);
    }
}
