//! Instruments, and the rows that their figures belong to.

use super::applications;
use super::results::{Goal, StoredFigure};
use serde_json::Value;
use std::borrow::Cow;

/// A command of clump that measures.
#[derive(Debug, Clone)]
pub struct Instrument {
    /// Its name here.
    pub name: Cow<'static, str>,
    /// Its command line.
    pub words: Cow<'static, [&'static str]>,
    /// Its figures.
    pub figures: Cow<'static, [FigureSource]>,
}

/// A figure of a report, and its place.
#[derive(Debug, Clone)]
pub struct FigureSource {
    table: &'static str,
    row: &'static str,
    column: usize,
    /// Path to the median, or to a plain number, in the report; `-` is the last of a list.
    path: &'static str,
    /// Factor, unit and digits after the point.
    unit: (f64, &'static str, usize),
    goal: Option<Goal>,
    /// Part of the report that must have this value, if any.
    only: Option<(&'static str, &'static str)>,
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

const NODE: &str = "within-a-node";
const NODES: &str = "between-nodes";
const PEERS: &str = "beside-others";

/// Returns all instruments.
pub fn all() -> Vec<Instrument> {
    LABORATORY.iter().cloned().chain(applications::all()).collect()
}

/// Instruments of the laboratory that measure communication.
const LABORATORY: &[Instrument] = &[
    Instrument {
        name: Cow::Borrowed("logp"),
        words: Cow::Borrowed(&["lab", "logp", "--json"]),
        figures: Cow::Borrowed(&[
            FigureSource {
                only: Some(("/data/placement", "separate_cores")),
                ..FigureSource::new(
                    (NODE, "short-round-trip-two-line-ping-pong-cpus-apart", 1),
                    "/data/round_trip_ns/ratio",
                    (1.0, "", 2),
                    Some(Goal::AtMost(1.20)),
                )
            },
            FigureSource {
                only: Some(("/data/placement", "siblings")),
                ..FigureSource::new(
                    (NODE, "the-same-cpus-that-share-a-cache", 1),
                    "/data/round_trip_ns/ratio",
                    (1.0, "", 2),
                    Some(Goal::AtMost(1.30)),
                )
            },
            FigureSource::new(
                (NODE, "one-way-short-rate-one-pair", 1),
                "/data/rate_per_s/ours",
                (1e-6, "M/s", 0),
                Some(Goal::AtLeast(60.0)),
            ),
        ]),
    },
    Instrument {
        name: Cow::Borrowed("idle-net"),
        words: Cow::Borrowed(&["lab", "logp", "--scope", "all", "--json"]),
        figures: Cow::Borrowed(&[FigureSource::new(
            (NODE, "round-trip-with-the-network-enabled-but-idle-without", 1),
            "/data/idle_network/ratio",
            (1.0, "", 2),
            Some(Goal::AtMost(1.15)),
        )]),
    },
    Instrument {
        name: Cow::Borrowed("compare"),
        words: Cow::Borrowed(&["lab", "compare", "--json"]),
        figures: Cow::Borrowed(&[
            FigureSource::new(
                (PEERS, "one-node-round-trip-of-8-bytes", 1),
                "/tables/0/rows/0/figures/0",
                (1.0, "us", 2),
                None,
            ),
            FigureSource::new(
                (PEERS, "one-node-round-trip-of-8-bytes", 3),
                "/tables/0/rows/0/figures/-",
                (1.0, "", 1),
                None,
            ),
            FigureSource::new(
                (PEERS, "one-way-rate-of-8-bytes", 1),
                "/tables/0/rows/1/figures/0",
                (1.0, "M/s", 0),
                None,
            ),
            FigureSource::new(
                (PEERS, "one-way-rate-of-8-bytes", 3),
                "/tables/0/rows/1/figures/-",
                (1.0, "", 1),
                None,
            ),
        ]),
    },
    Instrument {
        name: Cow::Borrowed("loss"),
        words: Cow::Borrowed(&["lab", "loss", "--json"]),
        figures: Cow::Borrowed(&[
            FigureSource::new(
                (NODES, "goodput-at-1-loss-lossless", 1),
                "/data/goodput/0/bytes_per_s/ratio",
                (1.0, "(AEAD)", 2),
                Some(Goal::AtLeast(0.9)),
            ),
            FigureSource::new(
                (NODES, "goodput-at-5-loss-lossless", 1),
                "/data/goodput/1/bytes_per_s/ratio",
                (1.0, "(AEAD)", 2),
                Some(Goal::AtLeast(0.7)),
            ),
        ]),
    },
    Instrument {
        name: Cow::Borrowed("flood"),
        words: Cow::Borrowed(&["lab", "flood", "--json"]),
        figures: Cow::Borrowed(&[FigureSource::new(
            (NODES, "flood-of-50-000-foreign-packets-s-of-a-processor", 1),
            "/data/processor",
            (100.0, "% (AEAD)", 1),
            Some(Goal::AtMost(10.0)),
        )]),
    },
    Instrument {
        name: Cow::Borrowed("urgent"),
        words: Cow::Borrowed(&["lab", "urgent", "--json"]),
        figures: Cow::Borrowed(&[FigureSource::new(
            (NODES, "round-trip-under-bulk-control-ahead-of-data-in-line", 1),
            "/data/rows/0/loaded_ns/ratio",
            (1.0, "(AEAD)", 2),
            None,
        )]),
    },
];

impl Instrument {
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
