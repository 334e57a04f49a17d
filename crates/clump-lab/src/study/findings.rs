//! Results of a study in words, and the worth of collecting small operations.

use crate::columns::Column;
use crate::render;
use crate::schema::{ReportColumn, ReportTable};
use crate::study::input::Study;
use crate::study::points::{Knob, SweepPoint};
use clump_loggp::Median;
use clump_trace::Summary;

/// Least ratio of the busiest rank's messages to the average that is uneven.
const UNEVEN: f64 = 1.2;
/// Least slowdown that counts as sensitivity.
const SENSITIVE: f64 = 1.2;

/// Returns a sentence for each program: the knobs that it is sensitive to, what hurts most first.
pub fn findings(study: &Study, all: &[Vec<SweepPoint>]) -> Vec<String> {
    let paths = study.results.columns.iter().filter_map(path);
    let programs =
        study.programs.iter().zip(all).filter_map(|(program, points)| match points.is_empty() {
            false => finding(&program.name, points),
            true => communication(&program.name, &program.profile.as_ref()?.summary),
        });
    paths.chain(programs).collect()
}

/// Returns the result of a measured path: the round trip, the rate and the bandwidth.
fn path(column: &Column) -> Option<String> {
    let of = |median: &Median| (median.value > 0.0).then_some(median.value);
    let estimate = &column.estimate;
    let (rtt_ns, gap_ns) = (of(&estimate.rtt)?, of(&estimate.g)?);
    let stream = of(&estimate.big_g).map(|ns| format!(", and {:.2} GB/s", 1.0 / ns));
    Some(format!(
        "{}: a message and its answer take {}, one follows another after {}{}.",
        column.name,
        in_words(rtt_ns, "ns"),
        in_words(gap_ns, "ns"),
        stream.unwrap_or_default()
    ))
}

/// Returns the result of a profile: the messages of a rank, and their kinds.
fn communication(name: &str, summary: &Summary) -> Option<String> {
    if summary.messages_max == 0 {
        return None;
    }
    let interval = summary.message_interval_us.filter(|us| *us > 0.0);
    let interval = interval.map(|us| format!(", one every {}", in_words(us, "us")));
    let balance = summary.balance.filter(|balance| *balance >= UNEVEN);
    let balance = balance.map(|times| format!("; the busiest sent {times:.1} times the average"));
    let (all, bulk, reads) =
        (summary.messages_per_rank, summary.bulk_percent, summary.read_percent);
    Some(format!(
        "{name}: a rank sent {all:.0} messages{}; {bulk:.0} % are bulk, {reads:.0} % reads{}.",
        interval.unwrap_or_default(),
        balance.unwrap_or_default()
    ))
}

/// Returns a time with three figures in a fitting unit.
fn in_words(time: f64, unit: &str) -> String {
    let digits = match time {
        time if time < 9.995 => 2,
        time if time < 99.95 => 1,
        _ => 0,
    };
    let mut table = ReportTable::new("", vec![ReportColumn::ours("")]);
    let row = table.row("", (unit, digits), vec![Some(time.into())]);
    render::cell(row, &ReportColumn::ours(""), Some(time.into()))
}

fn finding(name: &str, points: &[SweepPoint]) -> Option<String> {
    let (mut strong, mut weak) = (Vec::new(), Vec::new());
    for knob in Knob::ALL {
        let of = points.iter().filter(|point| point.knob == knob);
        let measured: Vec<_> = of.filter_map(|point| Some((point, point.slowdown?))).collect();
        let Some((point, slowdown)) = measured.last() else { continue };
        match slowdown.value >= SENSITIVE && (point.is_exact || is_certain(slowdown)) {
            true => strong.push((slowdown.value, knob.symbol(), setting(&point.text))),
            false => weak.push(knob.symbol()),
        }
    }
    if strong.is_empty() && weak.is_empty() {
        return None;
    }
    strong.sort_by(|a, b| b.0.total_cmp(&a.0));
    let effects = strong.iter().map(|(value, symbol, text)| {
        let digits = if *value < 10.0 { 1 } else { 0 };
        format!("{symbol} ({value:.digits$} times as long at {text})")
    });
    let effects: Vec<_> = effects.collect();
    Some(match (effects.is_empty(), weak.is_empty()) {
        (true, _) => format!("{name} is sensitive to nothing that was tried ({}).", join(&weak)),
        (false, true) => format!("{name} is sensitive to {}.", join(&effects)),
        (false, false) => {
            format!("{name} is sensitive to {}, and not to {}.", join(&effects), join(&weak))
        }
    })
}

/// Returns true if a slowdown is more than its variation: of one run, which has no interval, if it
/// is more than twice the time.
fn is_certain(slowdown: &Median) -> bool {
    match slowdown.samples {
        1 => slowdown.value > 2.0,
        _ => slowdown.low > 1.0,
    }
}

fn join<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, most)) => format!("{} and {last}", most.join(", ")),
        None => String::new(),
    }
}

/// Returns a setting without its scope.
fn setting(text: &str) -> &str {
    text.split(",scope=").next().unwrap_or(text)
}

/// Returns what collecting small operations is worth: times of equal work, each operation a message
/// and collected, without a knob and at the largest setting of each that both were run at.
pub fn collecting(study: &Study, all: &[Vec<SweepPoint>]) -> Option<ReportTable> {
    let columns = vec![
        ReportColumn::baseline("each a message"),
        ReportColumn::ours("collected"),
        ReportColumn::ratio("times as long alone"),
    ];
    let mut table = ReportTable::new("small operations, same work", columns);
    let points = |name: &str| {
        let at = study.programs.iter().position(|program| program.name == name)?;
        Some((study.programs[at].sweeps.first()?.time(0)?, &all[at]))
    };
    for (one, other, work) in study.plan.as_ref()?.pairs() {
        let (Some((alone, ones)), Some((collected, others))) =
            (points(&one.name), points(&other.name))
        else {
            continue;
        };
        let mut row = |name: String, alone: Median, collected: Median| {
            let collected = collected.scaled(1.0 / work, 0.0);
            let ratio = alone.value / collected.value;
            let figures = [alone.into(), collected.into(), ratio.into()];
            table.row(name, ("s", 3), figures.map(Some).into());
        };
        row(one.name.clone(), alone, collected);
        for knob in Knob::ALL {
            let mut both = ones.iter().filter(|point| point.knob == knob).filter_map(|point| {
                let same = others.iter().find(|other| other.text == point.text)?;
                Some((setting(&point.text), point.time_s?, same.time_s?))
            });
            if let Some((text, alone, collected)) = both.next_back() {
                row(format!("{}, {text}", one.name), alone, collected);
            }
        }
    }
    table.notes.push("times of the collected runs are those of the work of the others".into());
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logp;
    use crate::pair::fake::FakePair;
    use crate::plan::MeasurementPlan;
    use crate::steps::Breakdown;
    use crate::study::fake::profile;
    use crate::study::input::StudiedProgram;
    use crate::study::points::points;
    use crate::study::study_plan::{PlannedProgram, StudyPlan};
    use crate::sweep::{RunEnd, SweepJournal, SweepPlan, SweepRun};
    use clump_loggp::Workload;
    use clump_trace::{Counter, Snapshot};

    /// A program with these times in s: without a knob, at o, at g; three runs of each.
    fn program(name: &str, times: [f64; 3]) -> StudiedProgram {
        let settings = ["o=+20us,scope=net", "g=50us,scope=net"].map(String::from).to_vec();
        let plan = SweepPlan::new(vec![name.into()], settings, 1, 3);
        let mut journal = SweepJournal::new(plan, 0.01);
        let turns = (0..9).map(|turn| (turn, turn % 3));
        for (turn, setting) in turns {
            journal.add(SweepRun::of((turn, setting), RunEnd::Took(times[setting])));
        }
        StudiedProgram { name: name.into(), sweeps: vec![journal], ..Default::default() }
    }

    fn study() -> Study {
        let programs =
            vec![program("radix", [1.0, 32.0, 9.0]), program("radix-collected", [1.0, 1.1, 0.98])];
        let planned = |name, amount| PlannedProgram::new(name, amount, 1.0, Workload::default());
        let planned = vec![planned("radix", 100), planned("radix-collected", 400)];
        let plan = StudyPlan { programs: planned, ..StudyPlan::default() };
        Study { programs, plan: Some(plan), ..Study::default() }
    }

    #[test]
    fn results_are_said_in_words_with_what_hurts_most_first() {
        let study = study();
        let all: Vec<_> = study.programs.iter().map(|program| points(&study, program)).collect();
        let expected = [
            "radix is sensitive to o (32 times as long at o=+20us) and g (9.0 times as long at \
             g=50us).",
            "radix-collected is sensitive to nothing that was tried (o and g).",
        ];
        assert_eq!(findings(&study, &all), expected);
        assert_eq!(join(&["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn profiles_and_paths_have_a_result_too() {
        let mut counters = vec![Snapshot::ZERO; 2];
        counters[0][Counter::NetRequestShortSent] = 3_000;
        counters[1][Counter::NetRequestShortSent] = 1_000;
        let profile = Some(profile(counters));
        let program = StudiedProgram { name: "radix".into(), profile, ..Default::default() };
        let mut study = Study { programs: vec![program], ..Study::default() };
        let said = findings(&study, &[Vec::new()]);
        let start = "radix: a rank sent 2000 messages, one every ";
        let end = "; 0 % are bulk, 0 % reads; the busiest sent 1.5 times the average.";
        assert!(said[0].starts_with(start) && said[0].ends_with(end), "{said:?}");
        let plan = MeasurementPlan { slices: 3, ..MeasurementPlan::quick() };
        let logp = logp::run(&mut FakePair::default(), &plan, Breakdown::unknown()).unwrap();
        let mut column = Column::of("net", &serde_json::to_value(logp).unwrap()).unwrap();
        let estimate = &mut column.estimate;
        (estimate.rtt, estimate.g) = (Median::exact(9_120.0), Median::exact(640.0));
        estimate.big_g = Median::exact(0.5);
        study.results.columns.push(column);
        let expected = "net: a message and its answer take 9.12 us, one follows another after \
                        640 ns, and 2.00 GB/s.";
        assert_eq!(findings(&study, &[Vec::new()])[0], expected);
    }

    #[test]
    fn one_run_says_little_and_an_interval_that_reaches_1_says_nothing() {
        let of = |value, low, samples| Median { value, low, high: value, samples };
        assert!(is_certain(&of(16.0, 16.0, 1)) && !is_certain(&of(1.5, 1.5, 1)));
        assert!(is_certain(&of(1.3, 1.1, 5)) && !is_certain(&of(1.3, 0.9, 5)));
    }

    #[test]
    fn collected_runs_stand_beside_the_others_with_the_same_work() {
        let study = study();
        let all: Vec<_> = study.programs.iter().map(|program| points(&study, program)).collect();
        let table = collecting(&study, &all).unwrap();
        let row = |at: usize| {
            let values = table.rows[at].figures.iter().map(|figure| figure.unwrap().value);
            (table.rows[at].name.as_str(), values.collect::<Vec<_>>())
        };
        assert_eq!(row(0), ("radix", vec![1.0, 0.25, 4.0]));
        assert_eq!(row(1).0, "radix, o=+20us");
        assert!((row(1).1[2] - 32.0 / (1.1 / 4.0)).abs() < 1e-9, "{:?}", row(1));
        assert_eq!(collecting(&Study { plan: None, ..study }, &all), None);
    }
}
