//! A report as one page that opens without a network: tables, and figures inside it.

use crate::figure::LabFigure;
use crate::render;
use crate::schema::{InstrumentReport, Machine};
use anyhow::{Context, Result};
use askama::Template;

/// Largest error of a prediction that is shown as a good one, in percent.
const SMALL_PERCENT: f64 = 10.0;

#[derive(Debug, Template)]
#[template(path = "study.html")]
struct Page<'a> {
    title: &'a str,
    machine: String,
    tables: Vec<PageTable<'a>>,
    figures: Vec<String>,
}

#[derive(Debug)]
struct PageTable<'a> {
    title: &'a str,
    columns: Vec<&'a str>,
    has_goals: bool,
    rows: Vec<PageRow<'a>>,
    notes: &'a [String],
}

#[derive(Debug)]
struct PageRow<'a> {
    name: &'a str,
    cells: Vec<PageCell>,
    goals: String,
}

#[derive(Debug)]
struct PageCell {
    text: String,
    class: &'static str,
    interval: String,
}

/// Returns the page.
///
/// # Errors
/// Fails if the template cannot be filled in.
pub fn page(report: &InstrumentReport, figures: &[LabFigure]) -> Result<String> {
    let tables = report.tables.iter().map(|table| PageTable {
        title: &table.title,
        columns: table.columns.iter().map(|column| column.name.as_str()).collect(),
        has_goals: table.rows.iter().any(|row| !row.goals.is_empty()),
        rows: table
            .rows
            .iter()
            .map(|row| PageRow {
                name: &row.name,
                goals: render::goals(row),
                cells: table
                    .columns
                    .iter()
                    .zip(&row.figures)
                    .map(|(column, figure)| {
                        let value = figure.map(|figure| figure.value);
                        let is_error = column.name.starts_with("error");
                        let class = match value {
                            Some(error) if is_error && error.abs() <= SMALL_PERCENT => {
                                "error-small"
                            }
                            Some(_) if is_error => "error-large",
                            _ => "",
                        };
                        let interval = figure.and_then(|figure| figure.interval);
                        let interval =
                            interval.map(|(low, high)| format!("95 %: {low:.4} to {high:.4}"));
                        let text = render::cell(row, column, *figure);
                        PageCell { text, class, interval: interval.unwrap_or_default() }
                    })
                    .collect(),
            })
            .collect(),
        notes: &table.notes,
    });
    let page = Page {
        title: &report.title,
        machine: machine(&report.machine),
        tables: tables.collect(),
        // What is black takes the colour of the text, so that it can be read on a dark page.
        figures: figures
            .iter()
            .map(|figure| figure.svg.replace("#000000", "currentColor"))
            .collect(),
    };
    page.render().context("filling in the page")
}

fn machine(machine: &Machine) -> String {
    let Machine { processor, processors, kernel, optimized } = machine;
    let built =
        if *optimized { "" } else { "; built without optimization: the figures say nothing" };
    format!("{processor}, {processors} processors, Linux {kernel}{built}")
}
