//! Two results of one instrument beside each other: which figures became worse.

use crate::schema::{Figure, FigureRole, InstrumentReport, ReportColumn, ReportTable};
use anyhow::{Result, ensure};
use clump_trace::line_state::alike;

/// Columns that measure clump, by table, row and column.
fn measured(report: &InstrumentReport) -> Vec<(String, String, Figure)> {
    let mut all = Vec::new();
    for table in &report.tables {
        for row in &table.rows {
            for (column, figure) in table.columns.iter().zip(&row.figures) {
                if let (FigureRole::Ours, Some(figure)) = (column.role, figure) {
                    let unit = column.unit.as_ref().unwrap_or(&row.unit).clone();
                    all.push((
                        format!("{}: {}, {}", table.title, row.name, column.name),
                        unit,
                        *figure,
                    ));
                }
            }
        }
    }
    all
}

/// Returns the shortest and the longest round trip between the processors in a result, in ns, if it
/// has any: at its begin and end, and of each turn of a comparison.
fn line_range(report: &InstrumentReport) -> Option<(f64, f64)> {
    let ends = report.lines.into_iter().flat_map(|lines| [lines.before_ns, lines.after_ns]);
    let rounds = report.data.get("lines_ns").and_then(|rounds| rounds.as_array());
    let turns = rounds.into_iter().flatten().filter_map(|round| round.as_array()).flatten();
    let all: Vec<f64> = ends.chain(turns.filter_map(|turn| turn.as_f64())).collect();
    let least = all.iter().copied().reduce(f64::min)?;
    Some((least, all.iter().copied().fold(least, f64::max)))
}

/// Returns a sentence, if the processors of two results were not equally far from each other.
fn line_note(before: &InstrumentReport, after: &InstrumentReport) -> Option<String> {
    let (then, now) = (line_range(before)?, line_range(after)?);
    (!alike(then.0.min(now.0), then.1.max(now.1))).then(|| {
        format!(
            "round trip between the processors: {:.0} to {:.0} ns before, {:.0} to {:.0} ns after: \
             the machine was in another state, which alone may be the change",
            then.0, then.1, now.0, now.1
        )
    })
}

/// Returns what a larger figure of a unit is: `Some(true)` better, `Some(false)` worse, `None`
/// neither.
fn larger_is_better(unit: &str) -> Option<bool> {
    match unit {
        "ns" | "us" | "ms" | "s" | "ns/B" => Some(false),
        _ if unit.ends_with("/s") => Some(true),
        _ => None,
    }
}

/// Compares `after` with `before`; `percent`: the change that is not one. Returns the report, and
/// how many figures became worse. A figure did if it changed by more, in the bad direction, and the
/// intervals of both do not overlap.
///
/// # Errors
/// The two are of different instruments, or have no figure in common.
pub fn compare(
    before: &InstrumentReport,
    after: &InstrumentReport,
    percent: f64,
) -> Result<(InstrumentReport, usize)> {
    let instruments = (&before.instrument, &after.instrument);
    ensure!(
        instruments.0 == instruments.1,
        "one is of `clump lab {}`, the other of `clump lab {}`",
        instruments.0,
        instruments.1
    );
    let title = format!("{}: before and after", before.title);
    let mut report =
        InstrumentReport::new("compare", title, &())?.with("tolerance", format!("{percent} %"));
    let columns = vec![
        ReportColumn::baseline("before"),
        ReportColumn::ours("after"),
        ReportColumn::ratio("after / before"),
    ];
    let mut table = ReportTable::new("figure", columns);
    let (earlier, mut worse) = (measured(before), 0);
    for (name, unit, now) in measured(after) {
        let Some(then) = earlier.iter().find(|(other, ..)| *other == name).map(|found| found.2)
        else {
            continue;
        };
        let ratio = now.value / then.value;
        let row = table.row(name, (&unit, 3), [then, now, ratio.into()].map(Some).into());
        if let Some(larger_is_better) = larger_is_better(&unit) {
            let is_worse = is_worse((then, now), larger_is_better, percent / 100.0);
            worse += usize::from(is_worse);
            row.goal("not worse", !is_worse);
        }
    }
    ensure!(!table.rows.is_empty(), "they have no figure in common");
    if before.machine != after.machine {
        table.notes.push("they are not of one machine".into());
    }
    table.notes.extend(line_note(before, after));
    table.notes.push(format!("{worse} of {} figures became worse", table.rows.len()));
    report.tables.push(table);
    Ok((report, worse))
}

fn is_worse((then, now): (Figure, Figure), larger_is_better: bool, tolerance: f64) -> bool {
    let [(then_low, then_high), (now_low, now_high)] =
        [then, now].map(|figure| figure.interval.unwrap_or((figure.value, figure.value)));
    let bound = tolerance * then.value.abs();
    if larger_is_better {
        then.value - now.value > bound && now_high < then_low
    } else {
        now.value - then.value > bound && now_low > then_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_trace::line_state::LineTimes;

    fn report(figures: &[(&str, f64, (f64, f64))]) -> InstrumentReport {
        let mut report = InstrumentReport::new("logp", "LogP".into(), &()).unwrap();
        let mut table = ReportTable::new("path", vec![ReportColumn::ours("clump")]);
        for (unit, value, interval) in figures {
            let figure = Figure { interval: Some(*interval), ..(*value).into() };
            table.row(format!("in {unit}"), (unit, 1), vec![Some(figure)]);
        }
        report.tables.push(table);
        report
    }

    #[test]
    fn only_what_is_surely_worse_counts() {
        let before = report(&[("ns", 100.0, (95.0, 105.0)), ("GB/s", 4.0, (3.9, 4.1))]);
        let counted =
            |after: &[(&str, f64, (f64, f64))]| compare(&before, &report(after), 5.0).unwrap().1;
        assert_eq!(counted(&[("ns", 120.0, (118.0, 122.0)), ("GB/s", 4.0, (3.9, 4.1))]), 1);
        assert_eq!(counted(&[("ns", 120.0, (101.0, 130.0)), ("GB/s", 2.0, (1.9, 2.1))]), 1);
        assert_eq!(counted(&[("ns", 80.0, (79.0, 81.0)), ("GB/s", 8.0, (7.9, 8.1))]), 0);
        assert_eq!(counted(&[("ns", 104.0, (103.9, 104.1))]), 0, "within the tolerance");
    }

    #[test]
    fn unlike_distances_of_the_processors_are_said() {
        let of = |before_ns: f64, after_ns: f64| InstrumentReport {
            lines: Some(LineTimes { before_ns, after_ns }),
            ..report(&[("ns", 100.0, (95.0, 105.0))])
        };
        let notes = |before: &InstrumentReport, after: &InstrumentReport| {
            compare(before, after, 5.0).unwrap().0.tables[0].notes.join("\n")
        };
        let (near, far) = (of(95.0, 100.0), of(480.0, 500.0));
        let said = notes(&near, &far);
        assert!(said.contains("95 to 100 ns before, 480 to 500 ns after"), "{said}");
        assert!(!notes(&near, &of(100.0, 105.0)).contains("round trip"), "alike");
        let turns = serde_json::json!({ "lines_ns": [[95.0, 97.0], [470.0, 96.0]] });
        let comparison = InstrumentReport { lines: None, data: turns, ..near.clone() };
        assert!(notes(&comparison, &near).contains("95 to 470 ns before"), "of a turn");
    }

    #[test]
    fn results_that_have_nothing_in_common_are_refused() {
        let (before, other) =
            (report(&[("ns", 1.0, (1.0, 1.0))]), report(&[("us", 1.0, (1.0, 1.0))]));
        assert!(compare(&before, &other, 5.0).unwrap_err().to_string().contains("no figure"));
        let steps = InstrumentReport { instrument: "steps".into(), ..before.clone() };
        assert!(compare(&before, &steps, 5.0).unwrap_err().to_string().contains("lab steps"));
    }
}
