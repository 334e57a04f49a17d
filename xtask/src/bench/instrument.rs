//! An instrument: a command that measures, and the rows that its figures belong to.

use super::results::{Goal, StoredFigure};
use serde_json::Value;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

/// A command of clump that measures.
#[derive(Debug, Clone)]
pub struct Instrument {
    /// Its name here.
    pub name: Cow<'static, str>,
    /// Its command line. A word that begins with `example:` is the path of that example. A first
    /// word that begins with `parmacs:` names a C program that runs on threads and on clump.
    pub words: Cow<'static, [&'static str]>,
    /// Settings of the job: variables of the environment, and their values.
    pub settings: Cow<'static, [(&'static str, &'static str)]>,
    /// Its figures.
    pub figures: Cow<'static, [FigureSource]>,
}

/// A figure of a report, and its place.
#[derive(Debug, Clone)]
pub struct FigureSource {
    /// Name of the table.
    pub table: &'static str,
    /// Key of the row.
    pub row: &'static str,
    /// Index of the column.
    pub column: usize,
    /// Path to the median, or to a plain number, in the report; `-` is the last of a list.
    pub path: &'static str,
    /// Factor, unit and digits after the point.
    pub unit: (f64, &'static str, usize),
    /// The value that is to be reached, if there is one.
    pub goal: Option<Goal>,
    /// Part of the report that must have this value, if any.
    pub only: Option<(&'static str, &'static str)>,
}

impl FigureSource {
    /// Describes the figure of a table, row and column.
    pub const fn new(
        (table, row, column): (&'static str, &'static str, usize),
        path: &'static str,
        unit: (f64, &'static str, usize),
        goal: Option<Goal>,
    ) -> Self {
        Self { table, row, column, path, unit, goal, only: None }
    }
}

/// Beginning of a word that names an example of the facade.
const EXAMPLE: &str = "example:";
/// Beginning of a word that names a C program by the macros of PARMACS.
const PARMACS: &str = "parmacs:";

impl Instrument {
    /// Returns the examples that its command line names.
    pub fn examples(&self) -> impl Iterator<Item = &'static str> {
        self.words.iter().filter_map(|word| word.strip_prefix(EXAMPLE))
    }

    /// Returns the C program that it runs on threads and on clump, if it is such an instrument.
    pub fn parmacs(&self) -> Option<&'static str> {
        self.words.first().and_then(|word| word.strip_prefix(PARMACS))
    }

    /// Returns its command line, with examples in a folder.
    pub fn command_line(&self, examples: &Path) -> Vec<OsString> {
        let word = |word: &&'static str| match word.strip_prefix(EXAMPLE) {
            Some(name) => examples.join(name).into_os_string(),
            None => word.into(),
        };
        self.words.iter().map(word).collect()
    }

    /// Returns the figures in a report: table, row, figure.
    pub fn figures_of(&self, report: &Value) -> Vec<(&'static str, &'static str, StoredFigure)> {
        let mut found = Vec::new();
        for source in self.figures.iter() {
            let suits = source.only.is_none_or(|(path, value)| {
                report.pointer(path).and_then(Value::as_str) == Some(value)
            });
            if let Some(figure) = at(report, source.path).filter(|_| suits) {
                found.extend(source.read(figure).map(|read| (source.table, source.row, read)));
            }
        }
        found
    }

    /// Returns the rows that it has figures for.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, usize)> {
        self.figures.iter().map(|source| (source.table, source.row, source.column))
    }
}

impl FigureSource {
    /// Reads a plain number, a median, or a figure of a report's table.
    fn read(&self, figure: &Value) -> Option<StoredFigure> {
        let (scale, unit, digits) = self.unit;
        let number = |value: Option<&Value>| value.and_then(Value::as_f64).map(|v| v * scale);
        let value = number(Some(figure)).or_else(|| number(figure.get("value")))?;
        let ends = match figure.get("interval") {
            Some(interval) => (number(interval.get(0)), number(interval.get(1))),
            None => (number(figure.get("low")), number(figure.get("high"))),
        };
        let interval = ends.0.zip(ends.1);
        Some(StoredFigure {
            column: self.column,
            value,
            interval,
            unit: unit.into(),
            digits,
            goal: self.goal,
        })
    }
}

fn at<'a>(report: &'a Value, path: &str) -> Option<&'a Value> {
    match path.strip_suffix("/-") {
        Some(list) => report.pointer(list)?.as_array()?.last(),
        None => report.pointer(path),
    }
}
