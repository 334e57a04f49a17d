//! Table of the traced runs from which M5, M2e and M1b are.

use crate::schema::{Figure, ReportColumn, ReportTable};
use crate::study::input::StudiedProgram;
use crate::sweep::SweepJournal;

/// Returns what is known of the traced runs of programs, and why a program has none; `None` where
/// no sweep of them has left a replay.
pub fn replay_table(programs: &[StudiedProgram]) -> Option<ReportTable> {
    let columns = ["time", "of phases", "unexplained waits"].map(ReportColumn::ours);
    let counts =
        ["n within nodes", "n between"].map(|name| ReportColumn::ours(name).in_unit("", 0));
    let mut table = ReportTable::new("traced run", columns.into_iter().chain(counts).collect());
    let mut unmatched = 0;
    let all = programs.iter().flat_map(|program| program.replays.iter().map(move |r| (program, r)));
    for (program, replay) in all {
        if let Some(why) = &replay.missing {
            table.notes.push(format!("{}: neither M5 nor M1b: {why}", program.name));
            continue;
        }
        unmatched += replay.unmatched;
        let of_phases = program.sweeps.iter().find(|of| of.plan.command == replay.command);
        if replay.phases_ns.is_none() && of_phases.is_some_and(SweepJournal::is_of_phases) {
            table.notes.push(format!(
                "{}: M5 is of the whole job, its other times of phases, which no trace has",
                program.name
            ));
        }
        let times = [Some(replay.recorded_ns), replay.phases_ns, Some(replay.unexplained_ns)];
        let times = times.map(|ns| Some(float(ns?) / 1e6));
        let counts = replay.serial_messages.map(|count| Some(float(count)));
        let figures = times.into_iter().chain(counts).map(|value| value.map(Figure::from));
        table.row(program.name.clone(), ("ms", 3), figures.collect());
    }
    if unmatched > 0 {
        table.notes.push(format!("messages and meetings without their other end: {unmatched}"));
    }
    if !table.rows.is_empty() {
        table
            .notes
            .push("M5, M2e and M1b (n) are of one traced run at no setting; waits that no".into());
        table.notes.push("message of the traces ended stay as long".into());
    }
    (!table.notes.is_empty()).then_some(table)
}

#[expect(clippy::cast_precision_loss, reason = "times and counts are far below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}
