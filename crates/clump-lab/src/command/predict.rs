//! `clump lab predict`: a traced run played again on slower networks (M5).

use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable};
use crate::traces::graph::MAX_EVENTS;
use crate::traces::{RunGraph, Timeline, TracedMachine, line_file};
use anyhow::{Context, Error, Result};
use clump_boot::Config;
use clump_loggp::knobs::settings;
use clump_loggp::replay::tolerance;
use clump_loggp::{KnobTable, Replay};
use std::path::PathBuf;

/// Largest latency that is tried for the tolerance, in ns.
const MAX_NS: u64 = 10_000_000;

/// Options of `clump lab predict`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Plays the run of the traces again with messages that are slower by each setting (M5).\n\
    Settings are beside the parameters of this machine, or of that of virtual time.\n\n\
    Examples:\n  \
    clump run -n 2 --nodes 2 --trace t ./program\n  \
    clump lab predict t --knob L=+5us..+80us/5 --knob o=+1us,+5us"
)]
pub struct PredictArgs {
    /// The folder that `clump run --trace` wrote
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// A knob and its settings: a list (L=+5us,+10us) or a range (L=+5us..+80us/5)
    #[arg(long, value_name = "KNOB=SETTINGS")]
    pub knob: Vec<String>,
    /// Most events: all of them are kept in memory, some 90 bytes each
    #[arg(long, value_name = "EVENTS", default_value_t = MAX_EVENTS)]
    pub limit: u64,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a setting is none, if a trace is missing or damaged, or if there are too many events.
pub fn run(args: &PredictArgs) -> Result<u8> {
    let mut timeline = Timeline::open(&args.folder)?;
    RunGraph::fits(&timeline, args.limit).map_err(anyhow::Error::msg)?;
    let machine = TracedMachine::of_folder(&args.folder)?;
    let slowed = machine.as_ref().map(TracedMachine::slowed).transpose()?;
    let graph = RunGraph::of(&mut timeline, slowed)?;
    let report = report(&graph, &args.knob, machine.as_ref())?;
    let lines = line_file::of_folder(&args.folder);
    crate::render::show(&InstrumentReport { lines, ..report }, args.json)?;
    Ok(0)
}

#[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ns")]
fn float(number: u64) -> f64 {
    number as f64
}

fn report(
    graph: &RunGraph,
    knobs: &[String],
    machine: Option<&TracedMachine>,
) -> Result<InstrumentReport> {
    let base = graph.play(&KnobTable::default());
    let (ns, counts) = (base.end().ns, base.end().counts);
    let title = format!("M5: a run of {:.3} ms on slower networks", float(ns) / 1e6);
    let uses = [counts.overheads, counts.gaps, counts.latencies, counts.bytes];
    let mut report = InstrumentReport::new("predict", title, &uses)?;
    report.tables = vec![table_of(graph, &base, knobs, machine)?, sensitivity(graph, uses)];
    Ok(report)
}

/// Returns a row for each setting, and what is to be known of the replay.
fn table_of(
    graph: &RunGraph,
    base: &Replay,
    knobs: &[String],
    machine: Option<&TracedMachine>,
) -> Result<ReportTable> {
    let (config, ns) = (Config::load()?, base.end().ns);
    let columns = [ReportColumn::ours("M5"), ReportColumn::ratio("slowdown").in_unit("", 3)];
    let phases = ["M5 of phases", "slowdown of phases"];
    let phases = [ReportColumn::ours(phases[0]), ReportColumn::ratio(phases[1]).in_unit("", 3)];
    let columns = columns.into_iter().chain([ReportColumn::baseline("M2e")]).chain(phases);
    let mut table = ReportTable::new("setting", columns.collect());
    let read = |text: &str| match machine {
        Some(machine) => {
            machine.machine.knobs(text).map_err(|why| Error::msg(format!("--knob: {why}")))
        }
        None => Ok(clump_boot::machine::knobs(&config, "--knob", text)?),
    };
    for knob in knobs {
        for text in settings(knob).with_context(|| format!("--knob {knob}"))? {
            let setting = read(&text)?;
            let played = graph.play(&setting);
            let row = |ns: u64, base_ns: u64| {
                [float(ns) / 1e6, float(ns) / float(base_ns.max(1))].map(Figure::from).map(Some)
            };
            let late = graph.late_by_gap(&setting);
            let by_gap = late.map(|late| Figure::from((float(ns) + late) / 1e6));
            let phases = played.of_phases_ns().zip(base.of_phases_ns());
            let phases = phases.map_or([None, None], |(ns, base_ns)| row(ns, base_ns));
            let job = row(played.end().ns, ns);
            let figures = job.into_iter().chain([by_gap]).chain(phases);
            table.row(text, ("ms", 3), figures.collect());
        }
    }
    notes(&mut table, graph, base);
    let basis = machine.map(|machine| machine.machine.basis().map_err(Error::msg));
    table.notes.push(basis.unwrap_or_else(|| Ok(clump_boot::machine::basis(&config)?))?);
    Ok(table)
}

/// Adds what is to be known of a replay.
fn notes(table: &mut ReportTable, graph: &RunGraph, base: &Replay) {
    let ns = base.end().ns;
    let residual = float(ns) - float(graph.recorded_ns);
    table.notes.push(format!(
        "residual of the replay at no setting: {:+.3} us of {:.3} ms ({:+.3} %)",
        residual / 1e3,
        float(graph.recorded_ns) / 1e6,
        100.0 * residual / float(graph.recorded_ns.max(1))
    ));
    table.notes.push(format!(
        "waits that no message of the traces ended: {:.3} ms of a rank at most; they stay as long",
        float(graph.unexplained_ns) / 1e6
    ));
    let [shm, net] = graph.serial_messages;
    table.notes.push(format!(
        "messages sent while all other ranks wait (n of M1b): {shm} within nodes, {net} between"
    ));
    if base.unmatched > 0 {
        table
            .notes
            .push(format!("messages and meetings without their other end: {}", base.unmatched));
    }
    if let Some(ns) = base.of_phases_ns() {
        let text = format!("phases that the program times: {:.3} ms", float(ns) / 1e6);
        table.notes.push(text);
    }
}

/// Returns the derivatives, and the tolerance of the latency.
fn sensitivity(graph: &RunGraph, [overheads, gaps, latencies, bytes]: [u64; 4]) -> ReportTable {
    let mut table = ReportTable::new("sensitivity", vec![ReportColumn::ours("value")]);
    let derivatives = [
        ("dT/do (o_s and o_r each)", overheads),
        ("dT/dg", gaps),
        ("dT/dL", latencies),
        ("dT/dG, bytes", bytes),
    ];
    for (name, uses) in derivatives {
        table.row(name, ("", 0), vec![Some(float(uses).into())]);
    }
    for (percent, slowdown) in [(1, 1.01), (5, 1.05)] {
        let run = |latency_ns: u64| {
            let text = format!("L=+{latency_ns}ns");
            let knobs = KnobTable::parse(&text, &Default::default()).unwrap_or_default();
            graph.play(&knobs).end().ns
        };
        let most = tolerance(slowdown, MAX_NS, run).map(|ns| Figure::from(float(ns) / 1e3));
        table.row(format!("added L for {percent} % more time"), ("us", 2), vec![most]);
    }
    table.notes.push("-: less than that with 10 ms of added latency, too".into());
    table
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, tests::parse};

    #[test]
    fn a_folder_without_traces_is_named() {
        let words = ["lab", "predict", "/nowhere/at/all", "--knob", "L=+1us"];
        let Command::Predict(args) = parse(&words) else { panic!("another command") };
        let error = format!("{:#}", super::run(&args).unwrap_err());
        assert!(error.contains("/nowhere/at/all") && error.contains("--trace"), "{error}");
    }

    #[test]
    fn a_run_of_too_many_events_is_refused_before_it_is_read() {
        let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "predict").unwrap();
        crate::traces::made::write(folder.path(), 100).unwrap();
        let path = folder.path().to_str().unwrap();
        let run = |limit: &str| {
            let words = ["lab", "predict", path, "--json", "--limit", limit];
            let Command::Predict(args) = parse(&words) else { panic!("another command") };
            super::run(&args)
        };
        let error = run("1403").unwrap_err().to_string();
        let parts = ["1404 events", "--limit", "CLUMP_TRACE_EVENTS"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(run("1404").unwrap(), 0);
    }
}
