//! The report: a row for each operation and size, with the algorithms and the peers beside it.

use super::cell::MeasuredCell;
use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable};
use anyhow::Result;

/// Builds the report of measured cells; `failures` are turns of peers that did not end.
///
/// # Errors
/// Fails if the data have no JSON form.
pub fn report(cells: &[MeasuredCell], failures: &[String]) -> Result<InstrumentReport> {
    let mut peers: Vec<&str> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.implementation != "clump") {
        if !peers.contains(&cell.implementation.as_str()) {
            peers.push(&cell.implementation);
        }
    }
    let mut columns = vec![ReportColumn::ours("clump")];
    for peer in &peers {
        columns.push(ReportColumn::baseline(*peer));
        columns.push(ReportColumn::ratio("ratio"));
    }
    let mut table = ReportTable::new("collective, bytes, algorithm", columns);
    let mut behind = Vec::new();
    for cell in cells.iter().filter(|cell| cell.implementation == "clump") {
        let name = format!("{} {} {}", cell.operation, cell.bytes, cell.algorithm);
        let mark = if cell.chosen { "" } else { "  " };
        let mut figures: Vec<Option<Figure>> = vec![Some((cell.ns() / 1e3).into())];
        for peer in &peers {
            let theirs = cells.iter().find(|it| {
                it.implementation == *peer
                    && (&it.operation, it.bytes) == (&cell.operation, cell.bytes)
            });
            let theirs = theirs.filter(|_| cell.chosen).map(MeasuredCell::ns);
            figures.push(theirs.map(|ns| (ns / 1e3).into()));
            figures.push(theirs.map(|ns| (cell.ns() / ns).into()));
            if theirs.is_some_and(|ns| cell.ns() > ns) {
                behind.push(format!("{} {} ({peer})", cell.operation, cell.bytes));
            }
        }
        table.row(format!("{mark}{name}"), ("us", 1), figures);
    }
    if !peers.is_empty() {
        let named = if behind.is_empty() { "none".to_owned() } else { behind.join(", ") };
        table.notes.push(format!("behind a peer: {named}"));
    }
    table.notes.extend(failures.iter().cloned());
    table.notes.push("indented: an algorithm that clump has, but does not choose here".into());
    let title = "time of a call, root going around; ratios: clump to the peer".into();
    let mut report = InstrumentReport::new("collectives", title, &cells)?;
    report.tables = vec![table];
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_behind_is_named() {
        let cell = |implementation: &str, algorithm: &str, chosen, ns| MeasuredCell {
            implementation: implementation.into(),
            operation: "scan".into(),
            bytes: 8,
            algorithm: algorithm.into(),
            chosen,
            rounds_ns: vec![ns],
        };
        let cells = [
            cell("clump", "staged", true, 2000.0),
            cell("clump", "rounds", false, 9000.0),
            cell("MPICH", "", true, 4000.0),
            cell("Open MPI", "", true, 1000.0),
        ];
        let report = report(&cells, &["left out: nobody".into()]).unwrap();
        let text = crate::render::text(&report);
        for part in ["behind a peer: scan 8 (Open MPI)", "left out: nobody", "  scan 8 rounds"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let ratios = &report.tables[0].rows[0].figures;
        assert_eq!(ratios[2].map(|it| it.value), Some(0.5));
        assert_eq!(ratios[4].map(|it| it.value), Some(2.0));
    }
}
