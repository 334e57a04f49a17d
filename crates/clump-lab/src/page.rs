//! A report as one page that opens without a network: tables, and figures inside it.

use crate::figure::LabFigure;
use crate::render;
use crate::schema::{Figure, InstrumentReport, Machine, ReportColumn, ReportRow, ReportTable};
use crate::time_limit::FEWEST_SAMPLES;
use anyhow::{Context, Result};
use askama::Template;
use clump_loggp::Model;

/// Largest error of a prediction that is shown as a good one, in percent.
const SMALL_PERCENT: f64 = 10.0;

/// Symbols that reports have, with their meanings.
const SYMBOLS: [(&str, &str); 4] = [
    (
        "o",
        "overhead: time that a processor is busy with sending (o_s) or receiving (o_r) a message",
    ),
    ("g", "gap: least time between two messages of a rank"),
    ("L", "latency: time that a message takes from one processor to the other"),
    ("G", "gap for a byte: time for each byte of a payload, the inverse of the bandwidth"),
];

#[derive(Debug, Template)]
#[template(path = "study.html")]
struct Page<'a> {
    title: &'a str,
    findings: &'a [String],
    machine: String,
    lines: Option<String>,
    figures: Vec<PageFigure<'a>>,
    tables: Vec<PageTable<'a>>,
    key: Vec<(&'static str, &'static str)>,
}

#[derive(Debug)]
struct PageFigure<'a> {
    id: &'a str,
    title: &'a str,
    caption: &'a str,
    svg: String,
}

#[derive(Debug)]
struct PageTable<'a> {
    title: &'a str,
    open: bool,
    columns: Vec<&'a str>,
    has_goals: bool,
    rows: Vec<PageRow<'a>>,
    notes: Vec<&'a str>,
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

/// Returns the page: results in words, figures, and tables to be opened.
///
/// # Errors
/// Fails if the template cannot be filled in.
pub fn page(report: &InstrumentReport, figures: &[LabFigure]) -> Result<String> {
    let mut tables: Vec<PageTable<'_>> = Vec::new();
    for table in &report.tables {
        // A table that was cut for a terminal is whole here.
        match tables.iter_mut().find(|known| known.continues(table)) {
            Some(known) => known.join(table),
            None => tables.push(PageTable::of(table)),
        }
    }
    // Without figures the first table is what the page is for.
    if let Some(first) = tables.first_mut() {
        first.open = true;
    }
    let of_figures = figures.iter().map(|figure| PageFigure {
        id: &figure.name,
        title: &figure.title,
        caption: &figure.caption,
        // What is black takes the colour of the text, so that it can be read on a dark page.
        svg: figure.svg.replace("#000000", "currentColor"),
    });
    let swept = figures.iter().any(|figure| figure.name.starts_with("slowdown"));
    let models = Model::ALL.iter().filter(|_| swept).map(|model| (model.name(), model.holds()));
    let page = Page {
        title: &report.title,
        findings: &report.findings,
        machine: machine(&report.machine),
        lines: report.lines.map(|lines| lines.note()),
        // The four slowdowns first: they are what the rest explains.
        figures: slowdowns_first(of_figures.collect()),
        tables,
        key: SYMBOLS
            .iter()
            .filter(|_| swept || has_symbols(report))
            .copied()
            .chain(models)
            .collect(),
    };
    page.render().context("filling in the page")
}

/// Returns true if rows of a report are named by the symbols.
fn has_symbols(report: &InstrumentReport) -> bool {
    let first_word = |row: &ReportRow| row.name.split_whitespace().next().map(str::to_owned);
    let rows = report.tables.iter().flat_map(|table| &table.rows);
    let names: Vec<String> = rows.filter_map(first_word).collect();
    ["o_s", "g", "L", "G"].iter().all(|symbol| names.iter().any(|name| name == symbol))
}

fn slowdowns_first(figures: Vec<PageFigure<'_>>) -> Vec<PageFigure<'_>> {
    let is_slowdown = |figure: &PageFigure<'_>| figure.id.starts_with("slowdown");
    let (mut first, others): (Vec<_>, Vec<_>) = figures.into_iter().partition(is_slowdown);
    first.extend(others);
    first
}

impl<'a> PageTable<'a> {
    fn of(table: &'a ReportTable) -> Self {
        let row = |row: &'a ReportRow| PageRow {
            name: &row.name,
            goals: render::goals(row),
            cells: cells(table, row, |_| true),
        };
        Self {
            title: if table.title.is_empty() { "notes" } else { &table.title },
            open: false,
            columns: table.columns.iter().map(|column| column.name.as_str()).collect(),
            has_goals: table.rows.iter().any(|row| !row.goals.is_empty()),
            rows: table.rows.iter().map(row).collect(),
            notes: table.notes.iter().map(String::as_str).collect(),
        }
    }

    /// Returns true if `table` has further columns of this one.
    fn continues(&self, table: &ReportTable) -> bool {
        let names = table.rows.iter().map(|row| row.name.as_str());
        !table.title.is_empty()
            && self.title == table.title
            && self.rows.iter().map(|row| row.name).eq(names)
    }

    /// Adds the columns and notes that this one lacks.
    fn join(&mut self, table: &'a ReportTable) {
        let known = self.columns.clone();
        let is_new = |name: &str| !known.contains(&name);
        let names = table.columns.iter().map(|column| column.name.as_str());
        self.columns.extend(names.filter(|name| is_new(name)));
        for (row, more) in self.rows.iter_mut().zip(&table.rows) {
            row.cells.extend(cells(table, more, is_new));
        }
        self.notes.extend(table.notes.iter().map(String::as_str));
    }
}

/// Returns the cells of a row, in columns whose name is wanted.
fn cells(table: &ReportTable, row: &ReportRow, wanted: impl Fn(&str) -> bool) -> Vec<PageCell> {
    let columns = table.columns.iter().zip(&row.figures);
    let columns = columns.filter(|(column, _)| wanted(&column.name));
    let cell = |(column, figure): (&ReportColumn, &Option<Figure>)| {
        let value = figure.map(|figure| figure.value);
        let is_error = column.name.starts_with("error");
        let class = match value {
            Some(error) if is_error && error.abs() <= SMALL_PERCENT => "error-small",
            Some(_) if is_error => "error-large",
            _ => "",
        };
        let interval = figure.and_then(|figure| figure.interval);
        let interval = interval.map(|(low, high)| {
            let end = |value: f64| render::cell(row, column, Some(value.into()));
            let samples = figure.and_then(|figure| figure.samples);
            interval_in_words(samples, &end(low), &end(high))
        });
        let text = render::cell(row, column, *figure);
        PageCell { text, class, interval: interval.unwrap_or_default() }
    };
    columns.map(cell).collect()
}

/// Returns the meaning of an interval, and its ends: so few runs have none that covers 95 %.
fn interval_in_words(samples: Option<usize>, low: &str, high: &str) -> String {
    match samples {
        Some(0) => String::new(),
        Some(1) => "one run".into(),
        Some(runs) if runs < FEWEST_SAMPLES => format!("range of {runs} runs: {low} to {high}"),
        _ => format!("95 %: {low} to {high}"),
    }
}

fn machine(machine: &Machine) -> String {
    let Machine { processor, processors, kernel, optimized } = machine;
    let built =
        if *optimized { "" } else { "; built without optimization: the figures say nothing" };
    format!("{processor}, {processors} processors, Linux {kernel}{built}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::plain;
    use clump_loggp::Median;

    #[test]
    fn an_interval_of_few_runs_is_the_range_of_all() {
        let mut table = ReportTable::new("times", vec![ReportColumn::ours("time")]);
        for (name, samples) in [("exact", 0), ("one", 1), ("five", 5), ("six", 6)] {
            let time = Median { value: 2.0, low: 1.0, high: 3.0, samples };
            table.row(name, ("s", 1), vec![Some(time.into())]);
        }
        let mut report = InstrumentReport::new("report", "t".into(), &()).unwrap();
        report.tables.push(table);
        let page = page(&report, &[]).unwrap();
        let tips: Vec<_> = page.split("title=\"").skip(1).map(|at| at.split('"').next()).collect();
        let expected = ["one run", "range of 5 runs: 1.0 s to 3.0 s", "95 %: 1.0 s to 3.0 s"];
        assert_eq!(tips, expected.map(Some));
    }

    #[test]
    fn a_table_that_was_cut_for_a_terminal_is_whole_and_stands_once() {
        let table = |columns: [&str; 2], values: [f64; 2], note: &str| {
            let columns = columns.map(ReportColumn::ours).to_vec();
            let mut table = ReportTable::new("radix: o", columns);
            table.row("o=+5us", ("", 1), plain(values));
            table.notes.push(note.into());
            table
        };
        let mut report = InstrumentReport::new("report", "t".into(), &()).unwrap();
        report.findings.push("radix is sensitive to o".into());
        report.tables.push(table(["time", "M1"], [2.0, 3.0], "first"));
        report.tables.push(table(["time", "M5"], [2.0, 4.0], "second"));
        let page = page(&report, &[]).unwrap();
        assert_eq!(page.matches("radix: o<").count(), 1, "one title: {page}");
        assert!(page.contains("<th>time</th><th>M1</th><th>M5</th>"), "{page}");
        assert!(page.contains("<td>2.0</td><td>3.0</td><td>4.0</td>"), "{page}");
        assert!(page.contains("first") && page.contains("second"));
        let (found, table) = (page.find("radix is sensitive"), page.find("<table>"));
        assert!(found.unwrap() < table.unwrap(), "results first");
        assert!(!page.contains("id=\"key\""), "no models without a sweep");
    }
}
