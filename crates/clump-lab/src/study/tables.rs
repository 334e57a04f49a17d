//! Tables and figures of a study.

use crate::figure::{Curve, LabFigure, LostTime, MeasuredPoint, SlowdownChart, balance};
use crate::negative;
use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable};
use crate::study::communication;
use crate::study::findings::{collecting, findings};
use crate::study::input::{StudiedProgram, Study};
use crate::study::points::{Knob, SweepPoint, lock_notes, not_run, points, unclean};
use crate::study::replay_table::replay_table;
use crate::study::sections::sections;
use crate::sweep::RunEnd;
use crate::time_limit::FEWEST_SAMPLES;
use anyhow::Result;
use clump_boot::machine::MachineFile;
use clump_loggp::models::error_percent;
use clump_loggp::{BaseParameters, Model};

/// Most programs beside each other in a table.
const BESIDE: usize = 4;
/// Most models beside each other in a table.
const MODELS: usize = 3;

/// Captions of figures.
const MATRIX: &str = "Messages that each rank sent to each other one. \"if\" is the interface of a \
                      node, which executes one-sided operations and answers gets.";
const SLOWDOWN: &str = "Time over that of the runs at no setting beside it";
const MARKS: &str = "Dashed: predicted, by M5 where a trace is known, else by the knob's first \
                     model. Hollow: one run, no measurement. A cross: did not finish. Faded, below \
                     the line at 1: noise. A frame: ranks waited longer for processors than the \
                     prediction misses.";
const AS_ABOVE: &str = "Lines, dashes and marks as above.";

/// Returns the report of a study, and its figures.
///
/// # Errors
/// Fails if the library cannot draw a figure.
pub fn report(study: &Study) -> Result<(InstrumentReport, Vec<LabFigure>)> {
    let names: Vec<&str> = study.programs.iter().map(|program| program.name.as_str()).collect();
    let title = match names.is_empty() {
        true => "Parameters of the network".to_owned(),
        false => format!("Sensitivity to the network: {}", names.join(", ")),
    };
    let all: Vec<_> = study.programs.iter().map(|program| points(study, program)).collect();
    let measured: Vec<_> = all.iter().flatten().map(|p| (&p.text, p.slowdown)).collect();
    let mut report = InstrumentReport::new("report", title, &measured)?;
    report.findings = findings(study, &all);
    report.tables.extend(collecting(study, &all));
    report.tables.extend(calibration(study));
    for programs in study.programs.chunks(BESIDE) {
        report.tables.extend(communication::tables(programs));
    }
    report.tables.extend(replay_table(&study.programs));
    let (tables, mut figures) = sections(study);
    report.tables.extend(tables);
    for program in &study.programs {
        let Some(profile) = &program.profile else { continue };
        if let Some(svg) = balance(&format!("{}: messages", program.name), profile) {
            figures.push(LabFigure {
                name: format!("balance-{}", program.name),
                title: format!("messages of {}", program.name),
                caption: MATRIX.into(),
                svg,
            });
        }
    }
    for knob in Knob::ALL {
        for (program, points) in study.programs.iter().zip(&all) {
            report.tables.extend(predictions(program, points, knob));
        }
        let chart = chart(study, &all, knob);
        if let Some(svg) = chart.svg() {
            let (name, title) = (format!("slowdown-{}", knob.symbol()), chart.title.clone());
            let before = figures.iter().any(|known| known.caption.contains(MARKS));
            let marks = if before { AS_ABOVE } else { MARKS };
            let caption = format!("{SLOWDOWN}{}. {marks}", chart_intervals(&chart.curves));
            figures.push(LabFigure { name, title, caption, svg });
        }
    }
    let swept = all.iter().any(|points| !points.is_empty());
    if let Some(last) = report.tables.last_mut().filter(|_| swept) {
        for model in Model::ALL {
            last.notes.push(format!("{}: {}", model.name(), model.holds()));
        }
        last.notes
            .push("not delayed: loads and stores of mapped memory, barriers within a node,".into());
        last.notes.push("acknowledgements of the network's protocol (docs/lab.md)".into());
    }
    Ok((report, figures))
}

/// Returns the meaning of the intervals of a chart's points, for the middle of a sentence.
fn chart_intervals(curves: &[Curve]) -> &'static str {
    let points = curves.iter().flat_map(|curve| &curve.measured).filter(|point| !point.is_exact);
    let mut few = points.map(|point| point.slowdown.samples < FEWEST_SAMPLES);
    match (few.clone().any(|few| few), few.any(|few| !few)) {
        (false, false) => "",
        (true, false) => ", with the range of its runs, too few for an interval of 95 %",
        (false, true) => ", with the interval that covers 95 %",
        (true, true) => {
            ", with the interval that covers 95 %, or the range of all where runs are fewer than six"
        }
    }
}

/// Name, unit and digits of a parameter, and where it is.
type ParameterRow = (&'static str, &'static str, usize, fn(&BaseParameters) -> Option<f64>);

/// Returns the parameters that the settings of sweeps are beside, and a note about them: those of
/// this machine, or of the one in whose time programs ran.
fn parameters(study: &Study) -> Option<(MachineFile, String)> {
    let mut sweeps = study.programs.iter().flat_map(|program| &program.sweeps);
    if let Some(time) = sweeps.find_map(|sweep| sweep.plan.virtual_time.as_ref()) {
        let [shm, net] = time.machine.bases().ok()?;
        let note = format!("as the machine file says: {}, in virtual time", time.machine.name);
        return Some((MachineFile { shm, net, ..MachineFile::default() }, note));
    }
    let machine = study.machine.clone()?;
    let note = match &machine.calibration {
        Some(how) => format!(
            "calibrated on {}, {}, {:.1} processors busy with other work",
            machine.processor, how.date, how.load
        ),
        None => format!("calibrated on {}, at an unknown time and load", machine.processor),
    };
    Some((machine, note))
}

fn calibration(study: &Study) -> Option<ReportTable> {
    let (machine, note) = parameters(study)?;
    let columns = vec![ReportColumn::ours("within a node"), ReportColumn::ours("between nodes")];
    let mut table = ReportTable::new("parameters", columns);
    let rows: [ParameterRow; 5] = [
        ("o_s", "ns", 0, |base| base.o_s_ns),
        ("o_r", "ns", 0, |base| base.o_r_ns),
        ("g", "ns", 0, |base| base.g_ns),
        ("L", "ns", 0, |base| base.l_ns),
        ("G", "ns/B", 3, |base| base.big_g_ns_per_byte),
    ];
    for (name, unit, digits, pick) in rows {
        let how = machine.calibration.as_ref();
        let paths = [
            (&machine.shm, how.and_then(|how| how.shm.as_ref())),
            (&machine.net, how.and_then(|how| how.net.as_ref())),
        ];
        let values = paths.map(|(base, precision)| {
            let interval = precision.and_then(|known| known.intervals.get(name)).copied();
            pick(base).map(|value| Figure { interval, ..value.into() })
        });
        table.row(name, (unit, digits), values.into());
    }
    negative::explain(&mut table);
    table.notes.push(note);
    Some(table)
}

/// Returns the points of one knob: measured, predicted by each model, and the errors. Models that
/// find no room have a table of their own.
fn predictions(program: &StudiedProgram, points: &[SweepPoint], knob: Knob) -> Vec<ReportTable> {
    let points: Vec<_> = points.iter().filter(|point| point.knob == knob).collect();
    let models = models(&points, knob);
    if points.is_empty() {
        return Vec::new();
    }
    let mut tables: Vec<_> =
        models.chunks(MODELS).map(|models| prediction(program, &points, models)).collect();
    if tables.is_empty() {
        tables.push(prediction(program, &points, &[]));
    }
    if let Some(table) = tables.last_mut() {
        add_notes(table, program);
        table.notes.extend(points.iter().filter_map(|point| lost_time_note(point)));
    }
    tables
}

/// Returns the models of a knob that predict something.
fn models(points: &[&SweepPoint], knob: Knob) -> Vec<Model> {
    let known = |&model: &Model| points.iter().any(|point| predicted(point, model).is_some());
    knob.models().iter().copied().filter(known).collect()
}

/// Returns the table of some models; there is a point.
fn prediction(program: &StudiedProgram, points: &[&SweepPoint], models: &[Model]) -> ReportTable {
    let mut columns =
        vec![ReportColumn::ours("time").in_unit("s", 3), ReportColumn::ratio("slowdown")];
    for model in models {
        columns.push(ReportColumn::baseline(model.name()).in_unit("", 2));
        columns.push(ReportColumn::baseline(format!("error {}", model.name())).in_unit("%", 1));
    }
    let of = points.first().map(|first| (first.knob.symbol(), first.base_s));
    let (symbol, base_s) = of.unwrap_or_default();
    let title = format!("{}: {symbol}, {base_s:.3} s without", program.name);
    let mut table = ReportTable::new(title, columns);
    for point in points {
        let mut figures = vec![point.time_s.map(Into::into), point.slowdown.map(Into::into)];
        for &model in models {
            let predicted = predicted(point, model);
            let error = predicted.zip(point.slowdown).map(|(p, m)| error_percent(p, m.value));
            figures.extend([predicted.map(Into::into), error.map(Into::into)]);
        }
        table.row(point.text.clone(), ("", 2), figures);
    }
    table
}

fn add_notes(table: &mut ReportTable, program: &StudiedProgram) {
    if program.profile.is_none() {
        table.notes.push("no profile of it is known, so M1 to M4 predict nothing".into());
    }
    for (text, end) in unclean(program) {
        match end {
            RunEnd::DidNotFinish(s) => table.notes.push(format!("{text}: stopped after {s:.0} s")),
            RunEnd::Failed(code) => table.notes.push(format!("{text}: ended with code {code}")),
            RunEnd::Took(_) => {}
        }
    }
    table.notes.extend(not_run(program).map(|text| format!("{text}: not run")));
    table.notes.extend(program.sweeps.first().map(|sweep| sweep.time_note()));
    table.notes.extend(program.sweeps.first().and_then(|sweep| sweep.base_note()));
    table.notes.extend(program.sweeps.first().and_then(|sweep| sweep.line_note()));
    table.notes.extend(lock_notes(program));
}

/// Returns a sentence, if ranks waited longer for processors than the best prediction misses: the
/// model may be right, and the machine has too few processors.
fn lost_time_note(point: &SweepPoint) -> Option<String> {
    let (lost, error_s) = lost_time(point)?;
    let said = lost.text();
    Some(format!("{}: {said}; the best prediction misses {error_s:.3} s", point.text))
}

/// Returns the processor time that ranks lost at a point, and the error of the best prediction in
/// s, where that is less.
fn lost_time(point: &SweepPoint) -> Option<(LostTime, f64)> {
    let measured = point.slowdown?.value;
    let errors = point.predicted.iter().map(|(_, predicted)| (predicted - measured).abs());
    let error_s = errors.min_by(f64::total_cmp)? * point.base_s;
    let &SweepPoint { waited_s, preemptions, .. } = point;
    let exceeds = waited_s > error_s && waited_s > 0.01 * point.base_s;
    exceeds.then_some((LostTime { waited_s, preemptions }, error_s))
}

fn predicted(point: &SweepPoint, model: Model) -> Option<f64> {
    point.predicted.iter().find(|(of, _)| *of == model).map(|(_, slowdown)| *slowdown)
}

fn chart(study: &Study, all: &[Vec<SweepPoint>], knob: Knob) -> SlowdownChart {
    let net = parameters(study).map(|(machine, _)| machine.net);
    let base = net.and_then(|net| net.big_g_ns_per_byte);
    let across = |point: &SweepPoint| match knob {
        Knob::ByteGap => point.bandwidth_mb_s(base),
        _ => point.setting(),
    };
    let (title, name) = match knob {
        Knob::Overhead => ("Slowdown by overhead", "added to o, us"),
        Knob::Gap => ("Slowdown by gap", "g, us"),
        Knob::Latency => ("Slowdown by latency", "added to L, us"),
        Knob::ByteGap => ("Slowdown by bandwidth", "most bandwidth, MB/s"),
    };
    let mut curves = Vec::new();
    for (program, points) in study.programs.iter().zip(all) {
        let points: Vec<_> = points.iter().filter(|point| point.knob == knob).collect();
        let measured = points.iter().filter_map(|point| {
            let slowdown = point.slowdown?;
            let lost = lost_time(point).map(|(lost, _)| lost);
            let (across, is_exact) = (across(point), point.is_exact);
            Some(MeasuredPoint { across, slowdown, is_exact, lost })
        });
        // The critical path, where there is a trace.
        let models = models(&points, knob);
        let drawn = models.iter().find(|model| **model == Model::M5).or(models.first()).copied();
        let model = |point: &&SweepPoint| Some((across(point), predicted(point, drawn?)?));
        let unfinished = points.iter().filter(|point| point.was_run && point.time_s.is_none());
        let curve = Curve {
            name: program.name.clone(),
            model: drawn.map(|model| model.name().to_owned()).unwrap_or_default(),
            measured: measured.collect(),
            predicted: points.iter().filter_map(model).collect(),
            unfinished: unfinished.map(|point| across(point)).collect(),
        };
        if !points.is_empty() {
            curves.push(curve);
        }
    }
    let logarithmic = knob == Knob::ByteGap;
    SlowdownChart { title: title.into(), across: name.into(), logarithmic, curves }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::fake::profile;
    use crate::study::replays::{PlayedSetting, SweepReplay};
    use crate::sweep::{SweepJournal, SweepPlan, SweepRun};
    use clump_trace::{Counter, PairTraffic, Snapshot};

    /// A program of 2 s whose busiest rank sends 1,000,000 messages; at +1 us it takes as long as
    /// M1 says, at +5 us 10 % longer.
    fn study(ranks: usize) -> Study {
        let mut counters = vec![Snapshot::ZERO; ranks];
        counters[0][Counter::NetRequestShortSent] = 1_000_000;
        let mut profile = profile(counters);
        let pairs = (0..ranks as u32).flat_map(|from| (0..ranks as u32).map(move |to| (from, to)));
        let pair = |(from, to)| PairTraffic { from, to, short: [1, 8], ..PairTraffic::default() };
        profile.matrix = Some(pairs.map(pair).collect());
        let settings =
            ["o=+1us,scope=net", "o=+5us,scope=net", "o=+9us,scope=net", "g=5us,scope=net"];
        let settings = settings.map(String::from).to_vec();
        let plan = SweepPlan::new(vec!["./p".into()], settings, 1, 3);
        let mut journal = SweepJournal::new(plan, 0.01);
        for (turn, (setting, s)) in
            [(0, 2.0), (1, 4.0), (2, 13.2), (3, 0.0), (0, 2.0)].iter().enumerate()
        {
            let end = if *s > 0.0 { RunEnd::Took(*s) } else { RunEnd::DidNotFinish(60.0) };
            journal.add(SweepRun::of((turn, *setting), end));
        }
        let name = "p".to_owned();
        let sweeps = vec![journal];
        let program = StudiedProgram { name, profile: Some(profile), sweeps, replays: Vec::new() };
        Study { programs: vec![program], ..Study::default() }
    }

    #[test]
    fn predictions_stand_beside_measurements_with_their_errors() {
        let (report, figures) = report(&study(2)).unwrap();
        let text = crate::render::text(&report);
        let table = report.tables.iter().find(|t| t.title.starts_with("p: o")).unwrap();
        let figure = |row: usize, column: usize| table.rows[row].figures[column].unwrap().value;
        assert_eq!((figure(0, 1), figure(0, 2)), (2.0, 2.0), "{text}");
        assert!(figure(0, 3).abs() < 1e-9, "{text}");
        assert_eq!((figure(1, 1), figure(1, 2)), (6.6, 6.0), "{text}");
        assert!((figure(1, 3) + 9.09).abs() < 0.01, "{text}");
        assert!(text.contains("stopped after 60 s"), "{text}");
        assert!(text.contains("g=5us,scope=net: not run"), "{text}");
        let drawn = |name: &str| &*figures.iter().find(|figure| figure.name == name).unwrap().svg;
        assert_eq!([drawn("slowdown-o"), drawn("slowdown-g")].map(crosses), [1, 0]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let names: Vec<_> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["balance-p", "slowdown-o", "slowdown-g"]);
        let caption = &figures.iter().find(|figure| figure.name == "slowdown-o").unwrap().caption;
        assert!(caption.contains("too few for an interval of 95 %"), "three runs: {caption}");
        let csv = crate::csv::csv(&report);
        assert!(csv.contains("error M1"), "{csv}");
    }

    /// Returns the number of settings at which a figure says that a program did not finish.
    fn crosses(svg: &str) -> usize {
        svg.matches("did not finish").count()
    }

    #[test]
    fn slowdown_and_prediction_divide_by_the_same_runs() {
        // The machine is twice as slow while the second setting is measured: 1 s, then 2 s without.
        let mut study = study(2);
        let plan = study.programs[0].sweeps[0].plan.clone();
        let mut journal = SweepJournal::new(plan, 0.01);
        for (turn, (setting, s)) in
            [(0, 1.0), (1, 3.0), (0, 1.0), (0, 2.0), (2, 12.0), (0, 2.0)].iter().enumerate()
        {
            let run = SweepRun::of((turn, *setting), RunEnd::Took(*s));
            let waited_s = Some(if *setting == 2 { 0.5 } else { 0.1 });
            let preemptions = Some(if *setting == 2 { 40 } else { 9 });
            journal.add(SweepRun { waited_s, preemptions, ..run });
        }
        study.programs[0].sweeps = vec![journal];
        let (report, drawn) = report(&study).unwrap();
        let table = report.tables.iter().find(|t| t.title.starts_with("p: o")).unwrap();
        // M1 adds 2 s and 10 s: exactly what was measured.
        let figures = |row: usize| [1, 2, 3].map(|at| table.rows[row].figures[at].unwrap().value);
        assert_eq!((figures(0), figures(1)), ([3.0, 3.0, 0.0], [6.0, 6.0, 0.0]));
        let note = "o=+5us,scope=net: a rank waited 0.400 s more for a processor, which was taken \
                    from it 31 times more; the best";
        let drawn = &drawn.iter().find(|figure| figure.name == "slowdown-o").unwrap().svg;
        assert_eq!(drawn.matches("taken from it 31 times more").count(), 1, "a frame: {drawn}");
        assert!(table.notes.iter().any(|line| line.starts_with(note)), "{:?}", table.notes);
    }

    #[test]
    fn what_a_trace_predicts_stands_beside_and_is_drawn() {
        let mut study = study(2);
        let program = &mut study.programs[0];
        let played = |m5_s: f64, m2e_s: Option<f64>| PlayedSetting {
            m5_ns: m5_s * 1e9,
            m5_phases_ns: None,
            m2e_ns: m2e_s.map(|s| s * 1e9),
        };
        let settings = [
            ("o=+1us,scope=net", played(2.0, None)),
            ("o=+5us,scope=net", played(11.0, None)),
            ("g=5us,scope=net", played(1.0, Some(0.5))),
        ];
        let settings = settings.map(|(text, played)| (text.to_owned(), played)).into();
        program.replays.push(SweepReplay {
            command: vec!["./p".into()],
            serial_messages: [7, 200_000],
            recorded_ns: 1_900_000_000,
            settings,
            ..SweepReplay::default()
        });
        let (report, figures) = report(&study).unwrap();
        let text = crate::render::text(&report);
        let find = |row: &str, column: &str| {
            let mut tables = report.tables.iter();
            tables.find_map(|table| {
                let at = table.columns.iter().position(|c| c.name == column)?;
                table.rows.iter().find(|r| r.name == row)?.figures[at].map(|f| f.value)
            })
        };
        // r + (2 m + n) do: 2 s, and 2.2 million times 5 us.
        assert_eq!(find("o=+5us,scope=net", "M1b"), Some(6.5), "{text}");
        assert_eq!(find("o=+5us,scope=net", "M5"), Some(6.5), "{text}");
        assert!((find("o=+5us,scope=net", "error M5").unwrap() + 1.515).abs() < 1e-2, "{text}");
        assert_eq!(find("g=5us,scope=net", "M5"), Some(1.5), "{text}");
        assert_eq!(find("g=5us,scope=net", "M2e"), Some(1.25), "{text}");
        assert_eq!(find("p", "n between"), Some(200_000.0), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let drawn = figures.iter().find(|figure| figure.name == "slowdown-o").unwrap();
        assert!(drawn.svg.contains("; M5 predicts 6.50"), "{}", drawn.svg);
        study.programs[0].replays[0].command = vec!["./another".into()];
        let (report, _) = super::report(&study).unwrap();
        let headings = report.tables.iter().flat_map(|table| &table.columns);
        assert!(headings.into_iter().all(|column| column.name != "M5"), "of another command");
    }

    #[test]
    fn a_program_without_a_trace_has_the_reason() {
        let mut study = study(2);
        let plan = study.programs[0].sweeps[0].plan.clone();
        study.programs[0].replays.push(SweepReplay::missing(&plan, "5 events had no room"));
        let (report, figures) = report(&study).unwrap();
        let text = crate::render::text(&report);
        assert!(text.contains("p: neither M5 nor M1b: 5 events had no room"), "{text}");
        assert!(!text.contains("M5  ") && !text.contains("M1b  "), "no columns: {text}");
        let drawn = figures.iter().find(|figure| figure.name == "slowdown-o").unwrap();
        assert!(drawn.svg.contains("; M1 predicts"), "{}", drawn.svg);
    }

    #[test]
    fn the_page_of_a_large_job_is_small_and_needs_no_network() {
        let (report, figures) = report(&study(1024)).unwrap();
        let page = crate::page::page(&report, &figures).unwrap();
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
        for outside in ["http://", "https://", "src=", "<script", "@import", "url("] {
            let found = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(outside), "{outside}");
        }
        assert!(page.contains("class=\"error-small\"") && page.contains("0-15 to 0-15"));
        assert!(page.contains("viewport") && page.contains("prefers-color-scheme: dark"));
        crate::study::browser::open(&page);
    }
}
