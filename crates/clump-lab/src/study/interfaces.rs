//! Network interfaces of programs: their load with Little's law as a test of the monitor itself
//! (paper 002, table 2), and the cost of contention by stage (paper 003, tables 3 and 4).

use crate::schema::{Figure, ReportColumn, ReportTable};
use crate::study::input::StudiedProgram;
use clump_trace::{Monitor, Profile, Stage};

/// Most interfaces of a table.
const MAX_ROWS: usize = 32;
/// Share by which the queue may miss what Little's law says: one in eight messages is timed.
const PRECISION: f64 = 0.1;

/// Monitors of one kind in a profile.
type MonitorsOf = fn(&Profile) -> &[Monitor];

/// Returns the tables of stages for programs side by side.
pub fn stages(programs: &[StudiedProgram]) -> Vec<ReportTable> {
    let all: [(&str, MonitorsOf); 2] = [
        ("interfaces: mean time / least time", |profile| &profile.interfaces),
        ("stacks of ranks: mean time / least time", |profile| &profile.stacks),
    ];
    all.into_iter().filter_map(|(title, of)| stage_table(title, programs, of)).collect()
}

fn stage_table(title: &str, programs: &[StudiedProgram], of: MonitorsOf) -> Option<ReportTable> {
    let known: Vec<_> = programs
        .iter()
        .filter_map(|program| Some((&program.name, of(program.profile.as_ref()?))))
        .filter(|(_, monitors)| monitors.iter().any(|one| !one.stages.is_empty()))
        .collect();
    let columns = known.iter().map(|(name, _)| ReportColumn::ours(name.as_str())).collect();
    let mut table = ReportTable::new(title, columns);
    for (size, large) in [("small", false), ("large", true)] {
        for stage in Stage::ALL {
            let ratio = |(_, monitors): &(&String, &[Monitor])| {
                let times = Monitor::stage(monitors, stage, large)?;
                times.ratio.map(Figure::from)
            };
            let figures: Vec<_> = known.iter().map(ratio).collect();
            if figures.iter().any(Option::is_some) {
                // Channels time all their messages alike on the wire.
                let size = if stage == Stage::Wire { "all" } else { size };
                table.row(format!("{size}: {}", stage.name()), ("", 2), figures);
            }
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    let small = clump_trace::SMALL;
    table.notes.push(format!("1: no contention; small messages have at most {small} bytes"));
    Some(table)
}

/// Returns the load of a program's interfaces.
pub fn load(program: &StudiedProgram) -> Option<ReportTable> {
    let monitors = &program.profile.as_ref()?.interfaces;
    let worked = |one: &&Monitor| one.taken + one.brought + one.executed > 0;
    let busy: Vec<&Monitor> = monitors.iter().filter(worked).collect();
    if busy.is_empty() {
        return None;
    }
    let columns = [
        ("busy", "%", 1),
        ("taken", "", 0),
        ("executed", "", 0),
        ("stay", "us", 1),
        ("queue", "", 3),
        ("most", "", 0),
        ("Little", "", 2),
    ];
    let columns =
        columns.map(|(name, unit, digits)| ReportColumn::ours(name).in_unit(unit, digits));
    let title = format!("{}: interfaces", program.name);
    let mut table = ReportTable::new(title, columns.into());
    for one in busy.iter().take(MAX_ROWS) {
        let figures = vec![
            Some((one.utilisation * 100.0).into()),
            Some((one.taken as f64).into()),
            Some((one.executed as f64).into()),
            one.stay_us().map(Into::into),
            Some(one.queue_mean.into()),
            Some((one.queue_max as f64).into()),
            one.little.map(Into::into),
        ];
        let row = table.row(one.name(), ("", 0), figures);
        if let Some(little) = one.little {
            row.goal("", holds(little));
        }
    }
    if busy.len() > MAX_ROWS {
        table.notes.push(format!("and {} more interfaces", busy.len() - MAX_ROWS));
    }
    let tested: Vec<f64> = busy.iter().filter_map(|one| one.little).collect();
    let met = tested.iter().filter(|&&little| holds(little)).count();
    table.notes.push(match tested.len() {
        0 => "Little's law (queue = rate x stay): too few messages were timed to test it".into(),
        all => format!(
            "Little's law (queue = rate x stay) holds within {:.0} % for {met} of {all} interfaces",
            PRECISION * 100.0
        ),
    });
    Some(table)
}

fn holds(little: f64) -> bool {
    (little - 1.0).abs() <= PRECISION
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::InstrumentReport;
    use crate::study::fake::profile;
    use clump_trace::Snapshot;

    /// An interface as its monitor writes it into a profile.
    fn monitor(which: u32, little: f64) -> Monitor {
        let stage = |stage: &str, large: bool, mean: f64| {
            serde_json::json!({ "stage": stage, "large": large, "timed": 100, "mean_us": mean,
                "min_us": 2.0, "ratio": mean / 2.0 })
        };
        let value = serde_json::json!({
            "node": 1, "which": which, "carries": true, "elapsed_ms": 10.0, "utilisation": 0.25,
            "taken": 900, "brought": 800, "executed": 7, "queue_mean": 0.5, "queue_max": 9,
            "little": little,
            "stages": [stage("source", false, 5.0), stage("to_wire", false, 8.0),
                stage("to_wire", true, 3.0), stage("wire", false, 6.0)],
        });
        serde_json::from_value(value).unwrap()
    }

    fn program(interfaces: Vec<Monitor>, stacks: Vec<Monitor>) -> StudiedProgram {
        let mut profile = profile(vec![Snapshot::ZERO]);
        (profile.interfaces, profile.stacks) = (interfaces, stacks);
        StudiedProgram { name: "p".into(), profile: Some(profile), ..StudiedProgram::default() }
    }

    #[test]
    fn the_load_of_interfaces_is_tested_by_littles_law() {
        let load = load(&program(vec![monitor(0, 1.03), monitor(1, 1.5)], Vec::new())).unwrap();
        let values: Vec<_> = load.rows[0].figures.iter().map(|f| f.unwrap().value).collect();
        assert_eq!(values, [25.0, 900.0, 7.0, 5.5, 0.5, 9.0, 1.03]);
        assert_eq!(load.rows[0].name, "1.0");
        assert!(load.rows[0].goals[0].met && !load.rows[1].goals[0].met);
        assert!(load.notes[0].contains("1 of 2"), "{:?}", load.notes);
        let large = Monitor {
            taken: 2_000_000_000,
            executed: 2_000_000_000,
            queue_mean: 10_000.0,
            queue_max: 100_000,
            ..monitor(0, 1.0)
        };
        let name = "water-spatial".to_owned();
        let large = StudiedProgram { name, ..program(vec![large], Vec::new()) };
        let mut report = InstrumentReport::new("report", "t".into(), &()).unwrap();
        report.tables.extend(super::load(&large));
        let text = crate::render::text(&report);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let idle = Monitor { taken: 0, brought: 0, executed: 0, ..monitor(0, 1.0) };
        assert_eq!(super::load(&program(vec![idle], Vec::new())), None);
        let few = Monitor { little: None, ..monitor(0, 1.0) };
        let few = super::load(&program(vec![few], Vec::new())).unwrap();
        assert!(few.rows[0].goals.is_empty() && few.notes[0].contains("too few"));
    }

    #[test]
    fn contention_is_told_by_stage_and_size() {
        let tables =
            stages(&[program(Vec::new(), vec![monitor(0, 1.0)]), program(Vec::new(), Vec::new())]);
        let [table] = &tables[..] else { panic!("{tables:?}") };
        assert!(table.title.starts_with("stacks") && table.columns.len() == 1);
        let rows: Vec<_> =
            table.rows.iter().map(|row| (&row.name[..], row.figures[0].unwrap().value)).collect();
        let expected = [
            ("small: source", 2.5),
            ("small: to wire", 4.0),
            ("all: wire", 3.0),
            ("large: to wire", 1.5),
        ];
        assert_eq!(rows, expected);
        assert!(stages(&[]).is_empty());
    }
}
