//! Tables of a page between the marks that name them.

use super::results::ResultTable;
use anyhow::{Context, Result};
use std::fmt::Write;

const BEGIN: &str = "<!-- bench: ";
const END: &str = "<!-- /bench -->";

/// Returns the page with its tables as they are stored, and their number.
///
/// # Errors
/// Fails if a mark names no table, or has no end.
pub fn render(page: &str, tables: &[ResultTable]) -> Result<(String, usize)> {
    let (mut out, mut rest, mut shown) = (String::new(), page, 0);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->\n").context("a mark has no end")?;
        let (_, after) = after.split_once(END).with_context(|| format!("no end of {name}"))?;
        let table = tables.iter().find(|table| table.name == name);
        let table = table.with_context(|| format!("there are no results of {name}"))?;
        let _ = write!(out, "{before}{BEGIN}{name} -->\n{}{END}", markdown(table));
        (rest, shown) = (after, shown + 1);
    }
    Ok((out + rest, shown))
}

fn markdown(table: &ResultTable) -> String {
    let headings = table.columns.iter().map(|column| column.name.clone());
    let mut out = line(headings);
    for column in &table.columns {
        out += if column.align == "right" { "|---:" } else { "|---" };
    }
    out += "|\n";
    table.rows.iter().fold(out, |out, row| out + &line(row.cells()))
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let mut out = String::from("|");
    for cell in cells {
        let space = if cell.is_empty() { "" } else { " " };
        let _ = write!(out, "{space}{cell} |");
    }
    out + "\n"
}
