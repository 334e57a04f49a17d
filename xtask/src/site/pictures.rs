//! Pictures of tables of results: the numbers of each row on a logarithmic axis.
//!
//! A table has a picture if at least [`MIN_CELLS`] cells of a column are numbers, and none of it is
//! anything else: such columns are ratios or counts of one unit, which one axis can show.

use crate::bench::results::ResultTable;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Folder of the pictures, from the site's root.
pub(super) const FOLDER: &str = "pictures";
/// Fewest numbers of a column that is drawn.
const MIN_CELLS: usize = 3;
/// Colours of columns, readable on white.
const COLOURS: [&str; 6] = ["#1b6ca8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#475569"];
/// Sizes in points: the picture, names of rows, numbers at the right end, lines of text.
const WIDTH: f64 = 760.0;
const NAMES: f64 = 330.0;
const NUMBERS: f64 = 120.0;
const LINE: f64 = 16.0;
/// Characters of a name that a line has room for.
const NAME_CHARACTERS: usize = 50;

/// Numbers of a cell: each from its least to its largest value.
type Spans = Vec<(f64, f64)>;

/// A column that is drawn.
#[derive(Debug)]
struct Series<'a> {
    name: &'a str,
    /// Its cells, by row.
    cells: Vec<Spans>,
}

/// Writes the pictures of all tables into the folder of the book's source. Returns the names of the
/// tables that have one.
///
/// # Errors
/// Fails if the results cannot be read, or a picture cannot be written.
pub(super) fn write(root: &Path, source: &Path) -> Result<BTreeSet<String>> {
    let folder = source.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut drawn = BTreeSet::new();
    for table in ResultTable::load_all(root)? {
        let Some(svg) = picture(&table) else { continue };
        let path = folder.join(format!("{}.svg", table.name));
        fs::write(&path, svg).with_context(|| path.display().to_string())?;
        drawn.insert(table.name);
    }
    Ok(drawn)
}

/// Returns the line of a page that shows the picture of a table; `place` leads to the pictures.
pub(super) fn shown(name: &str, place: &str) -> String {
    let text = name.replace('-', " ");
    format!("\n![{text}, on a logarithmic axis]({place}/{name}.svg)\n")
}

/// Draws a table; `None` if none of its columns is one of numbers.
fn picture(table: &ResultTable) -> Option<String> {
    let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row.cells()).collect();
    let of = |column: usize| -> Option<Series<'_>> {
        let cells = rows.iter().map(|row| spans(row.get(column)?)).collect::<Option<Vec<_>>>()?;
        let known = cells.iter().filter(|spans| !spans.is_empty()).count();
        let name = table.columns.get(column)?.name.as_str();
        (known >= MIN_CELLS).then_some(Series { name, cells })
    };
    let all: Vec<Series<'_>> = (1..table.columns.len()).filter_map(of).collect();
    let all = all.get(..all.len().min(COLOURS.len())).filter(|all| !all.is_empty())?;
    let names = rows.iter().map(|row| lines(row.first().map_or("", String::as_str)));
    let numbers = |at: usize| match all {
        [_] => rows[at].get(only(table, all)?).map(|cell| plain(cell)),
        _ => None,
    };
    Some(svg(&names.collect::<Vec<_>>(), all, numbers))
}

/// Returns the column of the only series.
fn only(table: &ResultTable, all: &[Series<'_>]) -> Option<usize> {
    table.columns.iter().position(|column| column.name == all[0].name)
}

/// Reads a cell: numbers between ` / ` or `; `, some of them from one `to` another. `None` if it
/// has anything else.
fn spans(cell: &str) -> Option<Spans> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    let span = |part: &str| match part.split_once(" to ") {
        Some((low, high)) => Some((number(low)?, number(high)?)),
        None => number(part).map(|one| (one, one)),
    };
    let cell = plain(cell);
    if cell.is_empty() {
        return Some(Vec::new());
    }
    cell.split(" / ").flat_map(|part| part.split("; ")).map(span).collect()
}

/// Returns text without the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace(['*', '`'], "")
}

/// Returns a name in lines of at most [`NAME_CHARACTERS`], if its words allow.
fn lines(name: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in plain(name).split_whitespace() {
        match all.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < NAME_CHARACTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => all.push(word.to_owned()),
        }
    }
    all
}

/// A logarithmic axis between two of its ticks.
#[derive(Debug, Clone)]
struct Axis {
    ticks: Vec<f64>,
}

impl Axis {
    /// Returns the axis of values, with 1 on it.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((1.0, 1.0), |(low, high), v| (v.min(low), v.max(high)));
        let steps =
            (-9..=9).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(power)));
        let all: Vec<f64> = steps.collect();
        let first = all.iter().rposition(|&tick| tick <= low).unwrap_or(0);
        let last = all.iter().position(|&tick| tick >= high).unwrap_or(all.len() - 1);
        Self { ticks: all[first..=last.max(first + 1)].to_vec() }
    }

    fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.ticks[0], self.ticks[self.ticks.len() - 1]);
        let share = (value / low).ln() / (high / low).ln();
        NAMES + share.clamp(0.0, 1.0) * (WIDTH - NAMES - NUMBERS)
    }
}

/// Draws names, marks and axis; `numbers` are the texts at the right end.
fn svg(
    names: &[Vec<String>],
    all: &[Series<'_>],
    numbers: impl Fn(usize) -> Option<String>,
) -> String {
    let values = all.iter().flat_map(|series| series.cells.iter().flatten());
    let axis = Axis::of(values.flat_map(|&(low, high)| [low, high]));
    let mut out = String::new();
    let mut top = LINE;
    for (series, colour) in all.iter().zip(COLOURS) {
        let _ = writeln!(
            out,
            "<circle cx=\"12\" cy=\"{top}\" r=\"4\" fill=\"{colour}\"/>{}",
            text((24.0, top + 4.0), "start", series.name)
        );
        top += LINE;
    }
    let (begin, mut marks) = (top + LINE, String::new());
    top = begin;
    for (row, name) in names.iter().enumerate() {
        let middle = top + LINE * name.len() as f64 / 2.0;
        for (at, line) in (1..).zip(name) {
            let base = top + LINE * f64::from(at) - 4.0;
            marks.push_str(&text((NAMES - 12.0, base), "end", line));
        }
        for (series, colour) in all.iter().zip(COLOURS) {
            for &(low, high) in &series.cells[row] {
                let [low, high] = [low, high].map(|value| axis.place(value));
                let _ = writeln!(
                    marks,
                    "<path d=\"M{low:.1} {middle:.1}H{high:.1}\" stroke=\"{colour}\" \
                     stroke-width=\"9\" stroke-linecap=\"round\" stroke-opacity=\"0.8\"/>"
                );
            }
        }
        if let Some(number) = numbers(row) {
            marks.push_str(&text((WIDTH - NUMBERS + 14.0, middle + 4.0), "start", &number));
        }
        top += LINE * name.len() as f64 + 6.0;
    }
    for &tick in &axis.ticks {
        let (place, width) = (axis.place(tick), if tick == 1.0 { 2 } else { 1 });
        let colour = if tick == 1.0 { "#333" } else { "#ddd" };
        let _ = writeln!(
            out,
            "<path d=\"M{place:.1} {begin}V{top}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        );
    }
    // Names of ticks that would lie over each other are left out.
    let mut free = 0.0;
    for &tick in &axis.ticks {
        let (name, place) = (tick.to_string(), axis.place(tick));
        let half = 4.0 * name.len() as f64;
        if place - half > free || tick == 1.0 {
            out.push_str(&text((place, top + LINE), "middle", &name));
            free = place + half;
        }
    }
    let height = top + 2.0 * LINE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n{out}{marks}</svg>\n"
    )
}

/// Returns an element of text.
fn text((x, y): (f64, f64), anchor: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#222\">{text}</text>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::{ResultColumn, ResultRow};

    fn table(columns: &[&str], rows: &[&[&str]]) -> ResultTable {
        let column = |name: &&str| ResultColumn { name: (*name).into(), align: "right".into() };
        let row = |cells: &&[&str]| ResultRow {
            key: "k".into(),
            cells: cells.iter().map(|cell| (*cell).into()).collect(),
            runs: Vec::new(),
        };
        ResultTable {
            name: "t".into(),
            recorded: serde_json::Value::Null,
            columns: columns.iter().map(column).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn cells_are_numbers_and_nothing_else() {
        assert_eq!(spans("**0.99** / 0.8 / 0.9"), Some(vec![(0.99, 0.99), (0.8, 0.8), (0.9, 0.9)]));
        assert_eq!(spans("1.2 to 1.5; 3"), Some(vec![(1.2, 1.5), (3.0, 3.0)]));
        assert_eq!(spans(""), Some(Vec::new()));
        for other in ["0.14 us", "met", "<= 2", "1.3 (UCX)", "-1", "0", "inf"] {
            assert_eq!(spans(other), None, "{other}");
        }
    }

    #[test]
    fn a_column_of_numbers_is_drawn_on_a_logarithmic_axis() {
        let rows: [&[&str]; 3] =
            [&["a & b", "2 us", "0.5"], &["`c`", "3 us", "1 to 2"], &["d", "", "8"]];
        let svg = picture(&table(&["what", "time", "ratio"], &rows)).unwrap();
        assert!(svg.contains(">a &amp; b<") && svg.contains(">c<") && svg.contains(">1 to 2<"));
        assert!(svg.contains(">ratio<") && !svg.contains(">time<"), "{svg}");
        let axis = Axis::of([0.5, 1.0, 2.0, 8.0].into_iter());
        assert_eq!(axis.ticks, [0.5, 1.0, 2.0, 5.0, 10.0]);
        // Twice as much is as far everywhere.
        let [half, one, two] = [0.5, 1.0, 2.0].map(|value| axis.place(value));
        assert!((two - one - (one - half)).abs() < 1e-9);
        let mark = format!("M{one:.1} ");
        assert_eq!(svg.matches(&mark).count(), 2, "the line at 1, and the mark from 1: {svg}");
        assert!(svg.contains(&format!("H{two:.1}\"")), "{svg}");
    }

    #[test]
    fn tables_of_other_things_have_no_picture() {
        let few: [&[&str]; 3] = [&["a", "1"], &["b", ""], &["c", "2"]];
        assert_eq!(picture(&table(&["what", "n"], &few)), None);
        let mixed: [&[&str]; 4] = [&["a", "1"], &["b", "2"], &["c", "3"], &["d", "not measured"]];
        assert_eq!(picture(&table(&["what", "n"], &mixed)), None);
    }

    #[test]
    fn long_names_have_several_lines() {
        let name = "medium 4 KiB / 64 KiB / 1 MiB, not written in between (*Xeon*)";
        let lines = lines(name);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.len() <= NAME_CHARACTERS && !line.contains('*')));
    }
}
