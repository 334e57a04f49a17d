//! Reports as text: the only place that knows how tables look.

use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportRow, ReportTable};
use comfy_table::{CellAlignment, Table, presets};

/// Formats a report for a terminal of 100 columns.
pub fn text(report: &InstrumentReport) -> String {
    let mut out = report.title.clone();
    if !report.parameters.is_empty() {
        let settings = report.parameters.iter().map(|p| format!("{} {}", p.name, p.value));
        out += &format!(" ({})", settings.collect::<Vec<_>>().join(", "));
    }
    out.push('\n');
    if !report.machine.optimized {
        out += "this program was built without optimization: the figures say nothing\n";
    }
    out.extend(report.lines.map(|lines| lines.note() + "\n"));
    for finding in &report.findings {
        out += &format!("{finding}\n");
    }
    for table in &report.tables {
        out += &format!("\n{}", table_text(table));
    }
    out
}

/// Prints a report, as one JSON object or as text.
///
/// # Errors
/// Fails if it cannot be written.
pub fn show(report: &InstrumentReport, json: bool) -> anyhow::Result<()> {
    let text = if json { format!("{}\n", serde_json::to_string(report)?) } else { text(report) };
    Ok(clump_os::console::out(&text)?)
}

fn table_text(table: &ReportTable) -> String {
    let mut out = String::new();
    if !table.rows.is_empty() {
        let mut grid = Table::new();
        grid.load_preset(presets::NOTHING);
        let headings = table.columns.iter().map(|column| column.name.clone());
        let has_goals = table.rows.iter().any(|row| !row.goals.is_empty());
        let goal = has_goals.then(|| "goal".to_owned());
        grid.set_header([table.title.clone()].into_iter().chain(headings).chain(goal));
        for row in &table.rows {
            let cells = table.columns.iter().zip(&row.figures);
            let cells = cells.map(|(column, figure)| cell(row, column, *figure));
            let goals = has_goals.then(|| goals(row));
            grid.add_row([row.name.clone()].into_iter().chain(cells).chain(goals));
        }
        for column in grid.column_iter_mut() {
            let at = column.index;
            let figures = (1..=table.columns.len()).contains(&at);
            column.set_padding((0, if figures || at == 0 { 2 } else { 0 }));
            let alignment = if figures { CellAlignment::Right } else { CellAlignment::Left };
            column.set_cell_alignment(alignment);
        }
        for line in grid.lines() {
            out += line.trim_end();
            out.push('\n');
        }
    }
    for note in &table.notes {
        for line in wrapped(note) {
            out += &line;
            out.push('\n');
        }
    }
    out
}

/// Most columns of a line.
const MAX_COLUMNS: usize = 100;

/// Returns a note in lines that fit; what fits is left as it is. A word that is longer than a line,
/// as a path may be, has one of its own.
fn wrapped(note: &str) -> Vec<String> {
    let columns = |text: &str| text.chars().count();
    if columns(note) <= MAX_COLUMNS {
        return vec![note.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in note.split_whitespace() {
        let Some(line) = lines.last_mut() else { continue };
        match line.is_empty() {
            true => *line = word.into(),
            false if columns(line) + 1 + columns(word) <= MAX_COLUMNS => {
                *line += &format!(" {word}");
            }
            false => lines.push(word.into()),
        }
    }
    lines
}

/// Units that have larger ones, each a thousand of the one before.
const LADDERS: [&[&str]; 2] = [&["ns", "us", "ms", "s"], &["kB/s", "MB/s", "GB/s"]];
/// Least number that is better said in a larger unit: three figures are enough.
const MAX_NUMBER: f64 = 999.5;

/// Formats a figure: in the unit of its column or row, or with three figures in a larger one where
/// the number would be long.
pub fn cell(row: &ReportRow, column: &ReportColumn, figure: Option<Figure>) -> String {
    let Some(Figure { value, .. }) = figure else { return "-".into() };
    let (unit, digits) = (column.unit.as_ref().unwrap_or(&row.unit), column.digits);
    let digits = digits.unwrap_or(row.digits);
    let ladder = LADDERS.iter().find_map(|ladder| {
        let at = ladder.iter().position(|step| step == unit)?;
        ladder.get(at + 1..).filter(|larger| !larger.is_empty())
    });
    match ladder {
        Some(larger) if value.abs() >= MAX_NUMBER => {
            let (mut value, mut unit) = (value / 1e3, larger[0]);
            for &next in &larger[1..] {
                if value.abs() < 999.5 {
                    break;
                }
                (value, unit) = (value / 1e3, next);
            }
            let digits = match value.abs() {
                v if v < 9.995 => 2,
                v if v < 99.95 => 1,
                _ => 0,
            };
            format!("{value:.digits$} {unit}")
        }
        _ => format!("{value:.digits$} {unit}").trim_end().into(),
    }
}

/// Formats the goals of a row; one that holds for several figures is said once.
pub fn goals(row: &ReportRow) -> String {
    let mut out = String::new();
    let mut last = None;
    for check in &row.goals {
        let verdict = if check.met { "met" } else { "missed" };
        let comma = if out.is_empty() { "" } else { ", " };
        let goal = if last == Some(&check.goal) { "" } else { &check.goal };
        let space = if goal.is_empty() { "" } else { " " };
        out += &format!("{comma}{goal}{space}{verdict}");
        last = Some(&check.goal);
    }
    out
}

/// Formats a size in a suitable unit.
pub fn bytes(size: f64) -> String {
    match size {
        n if n < 1024.0 => format!("{n:.0} B"),
        n if n < 1024.0 * 1024.0 => format!("{:.1} KiB", n / 1024.0).replace(".0 ", " "),
        n => format!("{:.1} MiB", n / (1024.0 * 1024.0)).replace(".0 ", " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::plain;

    #[test]
    fn rows_have_units_and_say_which_goals_are_met() {
        let columns = vec![
            ReportColumn::ours("clump"),
            ReportColumn::baseline("bare"),
            ReportColumn::ratio("ratio"),
        ];
        let mut table = ReportTable::new("round trips", columns);
        table.row("short", ("us", 1), plain([5.25, 7.0, 0.75])).goal("<= 0.80", true);
        table.row("long", ("ms", 0), vec![Some(3.0.into()), None, None]).goal("<= 2 ms", false);
        table.notes.push("as usual".into());
        let mut report = InstrumentReport::new("test", "a test".into(), &()).unwrap();
        report.tables.push(table);
        let said = text(&report.with("security", "aead"));
        assert!(said.starts_with("a test (security aead)\n"), "{said}");
        let short = said.lines().find(|line| line.starts_with("short")).unwrap();
        let words: Vec<&str> = short.split_whitespace().collect();
        assert_eq!(words, ["short", "5.2", "us", "7.0", "us", "0.75", "<=", "0.80", "met"]);
        assert!(said.contains("<= 2 ms missed") && said.ends_with("as usual\n"), "{said}");
    }

    #[test]
    fn long_numbers_are_said_in_a_larger_unit_with_three_figures() {
        let row = |unit: &str| ReportRow {
            name: String::new(),
            unit: unit.into(),
            digits: 1,
            figures: Vec::new(),
            goals: Vec::new(),
        };
        let say =
            |value: f64, unit: &str| cell(&row(unit), &ReportColumn::ours("c"), Some(value.into()));
        assert_eq!(say(552_245.0, "ns"), "552 us");
        assert_eq!([say(-12_345.0, "ns"), say(9_999.0, "ns")], ["-12.3 us", "10.0 us"]);
        assert_eq!([say(1_234.0, "us"), say(999.4, "ns")], ["1.23 ms", "999.4 ns"]);
        assert_eq!([say(2.5e9, "ns"), say(44_698.2, "kB/s")], ["2.50 s", "44.7 MB/s"]);
        assert_eq!([say(1e6, "s"), say(1e6, "")], ["1000000.0 s", "1000000.0"]);
    }

    #[test]
    fn a_report_survives_json() {
        let mut report = InstrumentReport::new("test", "a test".into(), &[1, 2]).unwrap();
        report.tables.push(ReportTable::new("nothing", vec![ReportColumn::ratio("r")]));
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<InstrumentReport>(&json).unwrap(), report);
    }

    #[test]
    fn long_notes_are_wrapped_and_others_left_as_they_are() {
        assert_eq!(wrapped("  a  figure of   text"), ["  a  figure of   text"]);
        let note = ["words"; 40].join(" ");
        let lines = wrapped(&note);
        assert!(lines.len() == 3 && lines.iter().all(|l| l.len() <= MAX_COLUMNS), "{lines:?}");
        assert_eq!(lines.join(" "), note);
        let path = "/".repeat(150);
        assert_eq!(wrapped(&format!("in {path}: it")), ["in", &format!("{path}:"), "it"]);
    }

    #[test]
    fn sizes_are_said_in_their_unit() {
        assert_eq!([64.0, 1536.0, 4_194_304.0].map(bytes), ["64 B", "1.5 KiB", "4 MiB"]);
    }
}
