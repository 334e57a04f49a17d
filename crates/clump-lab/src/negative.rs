//! Times below zero in tables of parameters: each gets a note of its meaning.

use crate::schema::ReportTable;

/// Units of times.
const TIMES: [&str; 5] = ["ns", "us", "ms", "s", "ns/B"];

/// Returns the meaning of a time of this parameter that is below zero.
fn meaning(parameter: &str) -> &'static str {
    match parameter {
        "L" => "L below 0: sending and receiving overlap (paper 000, table 2)",
        "difference" => "difference below 0: less than the precision of what it is between",
        "o" => "o below 0: the delays of the paced burst varied by more than it",
        _ => "below 0: less than the precision of the measurement",
    }
}

/// Returns the parameter that a name of a row or column begins with, if it is one.
fn parameter(name: &str) -> Option<&str> {
    let known = ["L", "o", "o_s", "o_r", "g", "G", "difference"];
    name.split_whitespace().next().filter(|word| known.contains(word))
}

/// Marks each row that has a time below zero, and explains the mark below the table. Rows whose
/// name explains it already stay as they are.
pub fn explain(table: &mut ReportTable) {
    let mut known: Vec<&'static str> = Vec::new();
    for row in table.rows.iter_mut().filter(|row| !row.name.contains("< 0")) {
        let mut marks: Vec<usize> = Vec::new();
        for (column, figure) in table.columns.iter().zip(&row.figures) {
            let unit = column.unit.as_ref().unwrap_or(&row.unit);
            let is_time = TIMES.contains(&unit.as_str());
            if !is_time || figure.is_none_or(|figure| figure.value >= 0.0) {
                continue;
            }
            let of = parameter(&column.name).or_else(|| parameter(&row.name)).unwrap_or_default();
            let meaning = meaning(of);
            let at = known.iter().position(|one| *one == meaning).unwrap_or_else(|| {
                known.push(meaning);
                known.len() - 1
            });
            if !marks.contains(&at) {
                marks.push(at);
            }
        }
        for at in marks {
            row.name += &format!(" [{}]", at + 1);
        }
    }
    for (at, meaning) in known.into_iter().enumerate() {
        table.notes.push(format!("[{}] {meaning}", at + 1));
    }
}

/// Returns the rows with a time below zero that neither their name nor a note explains.
#[cfg(test)]
pub(crate) fn unexplained(report: &crate::schema::InstrumentReport) -> Vec<String> {
    let mut found = Vec::new();
    for table in &report.tables {
        for row in &table.rows {
            let mut cells = table.columns.iter().zip(&row.figures);
            let below = cells.any(|(column, figure)| {
                let unit = column.unit.as_ref().unwrap_or(&row.unit);
                TIMES.contains(&unit.as_str()) && figure.is_some_and(|figure| figure.value < 0.0)
            });
            let mark = row.name.rsplit_once(" [").map(|(_, mark)| format!("[{mark}"));
            let noted = |mark: String| table.notes.iter().any(|note| note.starts_with(&mark));
            if below && !row.name.contains("< 0") && !mark.is_some_and(noted) {
                found.push(format!("{}: {}", table.title, row.name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{InstrumentReport, ReportColumn, plain};

    #[test]
    fn each_row_below_zero_has_a_mark_and_each_mark_a_note() {
        let columns = vec![
            ReportColumn::ours("as it is"),
            ReportColumn::ours("difference"),
            ReportColumn::ours("share").in_unit("%", 1),
        ];
        let mut table = ReportTable::new("path", columns);
        table.row("o_s", ("ns", 0), plain([4.0, 3.0, -9.0]));
        table.row("L", ("ns", 0), plain([-4.0, -1.0, 0.0]));
        table.row("o_r", ("ns", 0), plain([-0.2, 1.0, 0.0]));
        table.row("o  < 0: said already", ("ns", 0), plain([-1.0, 0.0, 0.0]));
        let mut report = InstrumentReport::new("test", "t".into(), &()).unwrap();
        report.tables.push(table.clone());
        assert_eq!(unexplained(&report), ["path: L", "path: o_r"]);
        explain(&mut table);
        let names: Vec<_> = table.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["o_s", "L [1] [2]", "o_r [3]", "o  < 0: said already"]);
        assert!(table.notes[0].starts_with("[1] L below 0: sending and receiving overlap"));
        assert_eq!(table.notes.len(), 3);
        report.tables = vec![table];
        assert!(unexplained(&report).is_empty());
    }
}
