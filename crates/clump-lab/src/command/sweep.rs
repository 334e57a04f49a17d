//! `clump lab sweep`: options, runs, journal.

use crate::command::recording::{self, INTERRUPTED};
use crate::knob_base::KnobBase;
use crate::progress::JobProgress;
use crate::study::input::{MAX_BYTES, profile_beside};
use crate::study::replays::{SweepReplay, replay_beside};
use crate::sweep::{
    ARMED, LockCounts, RunEnd, SweepJournal, SweepPlan, SweepRun, VirtualRun, VirtualSweep,
};
use crate::sweep_job::SweepJob;
use crate::virtual_sweep::RECORDED;
use crate::wrong_command::WrongCommand;
use anyhow::{Context, Error, Result, bail};
use clump_boot::virtual_machine::VirtualMachine;
use clump_loggp::KnobTable;
use clump_loggp::knobs::settings;
use clump_os::scratch::Scratch;
use clump_os::{clock, console, text_file};
use clump_trace::line_state::LineWatch;
use clump_trace::{Counter, Profile};
use clump_virtual::ComputePlan;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `clump lab sweep`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Runs a program, unchanged, at every setting of every knob, in random order and with runs at none\n\
    between them. The journal is written after each run: the same command goes on where it ended. A further\n\
    run is traced, for what the critical path predicts.\n\n\
    Examples:\n  \
    clump lab sweep --knob L=+5us..+80us/5 --out l.jsonl -- -n 4 --nodes 2 ./program its-args\n  \
    clump lab sweep --knob o=+1us,+5us,+20us --knob g=5us,20us --with scope=net --out s.jsonl -- -n 2 ./program\n  \
    clump lab sweep --virtual now1997 --knob o=+1us..+100us/7 --out v.jsonl -- -n 32 --nodes 32 clump app radix --json"
)]
pub struct SweepArgs {
    /// A knob and its settings: a list (L=+5us,+10us) or a range (L=+5us..+80us/5)
    #[arg(long, value_name = "KNOB=SETTINGS", required = true)]
    pub knob: Vec<String>,
    /// Scope and class of all settings, as in scope=net
    #[arg(long, value_name = "SCOPE")]
    pub with: Option<String>,
    /// The journal of the sweep; one that is there is gone on with
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Most runs of a setting
    #[arg(long, default_value = "7",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub rounds: usize,
    /// Precision at which a setting needs no further run, in percent of its time
    #[arg(long, value_name = "PERCENT", default_value = "1")]
    pub precision: f64,
    /// Time for the whole sweep, in seconds [default: none]
    #[arg(long, value_name = "SECONDS")]
    pub budget: Option<u64>,
    /// Time after which a run is stopped, and has not finished
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    pub limit: u64,
    /// Number from which the order of runs follows
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Run in virtual time, on a machine that need not exist: a name, as in now1997, or the path of
    /// a machine file; each setting is run once, since each run is the same
    #[arg(long = "virtual", value_name = "MACHINE", value_parser = VirtualMachine::find)]
    pub machine: Option<VirtualMachine>,
    /// With --virtual: cost of computation, `fixed:NS` or `replay:FOLDER` [default: recorded in a
    /// first run, beside the journal]
    #[arg(long, value_name = "COST", requires = "machine")]
    pub cpu: Option<ComputePlan>,
    /// With --virtual: runs whose computation is recorded; the least that each part of the program
    /// has cost in them is charged
    #[arg(long, value_name = "RUNS", default_value = "1", requires = "machine",
          conflicts_with = "cpu", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub learn: u32,
    /// File beside whose parameters knobs are set; `None`: the machine's own.
    #[arg(skip)]
    pub base: Option<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Options of `clump run`, the program, and its arguments
    #[arg(required = true, last = true, value_name = "RUN OPTIONS AND PROGRAM")]
    pub command: Vec<String>,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a setting is none, or if the journal cannot be used.
pub fn run(args: &SweepArgs) -> Result<u8> {
    let Some(journal) = fill(args)? else { return Ok(130) };
    crate::render::show(&journal.report()?, args.json)?;
    Ok(0)
}

/// Makes the runs that are left; returns `None` if the user interrupts.
///
/// # Errors
/// As for [`run`].
pub fn fill(args: &SweepArgs) -> Result<Option<SweepJournal>> {
    let plan = plan(args)?;
    let base = plan.base.clone();
    let (mut journal, mut file) = open(&args.out, plan, args.precision / 100.0)
        .with_context(|| format!("the journal {}", args.out.display()))?;
    console::err(&format!("sweep: {}", basis(&journal.plan)?));
    let Some(cpu) = recording::ready(&args.out, &journal, args.limit)? else { return Ok(None) };
    let job = SweepJob {
        command: &args.command,
        limit_s: args.limit,
        machine_file: base.as_ref().map(|base| &*base.file),
        virtual_time: args.machine.as_ref().map(|machine| (&*machine.name, &*cpu)),
        ..SweepJob::default()
    };
    let (begun, before) = (clock::now_ns(), journal.len());
    let mut progress = JobProgress::new("sweep", journal.len() + journal.left());
    while let Some((turn, setting)) = journal.next() {
        let passed_s = (clock::now_ns() - begun) / 1_000_000_000;
        if args.budget.is_some_and(|budget| passed_s >= budget) {
            break;
        }
        let left_s = left_s(begun, journal.len() - before, journal.left());
        let text = &journal.plan.settings[setting];
        let text = if text.is_empty() { "no setting" } else { text };
        let what = format!("{text}, {left_s} left at most");
        progress.update(journal.len() + 1, journal.len() + journal.left().max(1), &what);
        let job = SweepJob { knobs: journal.plan.knobs(setting), ..job };
        let Some(run) = one(job, &args.out, (turn, setting))? else {
            console::err(INTERRUPTED);
            return Ok(None);
        };
        write_line(&mut file, &serde_json::to_string(&run)?)?;
        journal.add(run);
    }
    drop(progress);
    // Only a program that ends by itself is traced.
    if journal.time(0).is_some() && replay(job, args, &journal.plan)?.is_none() {
        console::err(INTERRUPTED);
        return Ok(None);
    }
    Ok(Some(journal))
}

/// Returns the time that `left` runs take in words, as `done` have since `begun_ns`.
fn left_s(begun_ns: u64, done: usize, left: usize) -> String {
    match done {
        0 => "an unknown time".into(),
        _ => {
            let took_s = (clock::now_ns() - begun_ns) / 1_000_000_000;
            format!("{} s", took_s * left as u64 / done as u64)
        }
    }
}

/// Makes a run of a setting; `None` if the user interrupts. The profile of a run at no setting
/// stays beside the journal.
fn one(
    job: SweepJob<'_>,
    journal: &Path,
    (turn, setting): (usize, usize),
) -> Result<Option<SweepRun>> {
    let kept = profile_beside(journal);
    let watch = job.virtual_time.is_none().then(LineWatch::begin);
    let Some((run, profile)) = measured(job, &kept)? else { return Ok(None) };
    let lines = watch.and_then(LineWatch::end);
    // Only a run that ended cleanly leaves its profile: others say too little.
    if setting == 0 && matches!(run.end, RunEnd::Took(_)) {
        let profile = profile.context("a run has left no profile")?;
        std::fs::write(&kept, serde_json::to_string(&profile)?)
            .with_context(|| format!("the profile {}", kept.display()))?;
    }
    Ok(Some(SweepRun { turn, setting, lines, ..run }))
}

/// Makes a run of a job, and returns it with its profile; `None` if the user interrupts. Files that
/// are there meanwhile have names that begin like `beside`.
///
/// # Errors
/// It cannot be started.
pub fn measured(job: SweepJob<'_>, beside: &Path) -> Result<Option<(SweepRun, Option<Profile>)>> {
    let (part, output) = (beside.with_extension("part"), beside.with_extension("out"));
    let job = SweepJob { profile: Some(&part), output: Some(&output), ..job };
    let end = job.run()?;
    let text = text_file::read(&part, MAX_BYTES).ok();
    let profile = text.and_then(|text| serde_json::from_str::<Profile>(&text).ok());
    let printed = text_file::read(&output, MAX_BYTES).unwrap_or_default();
    let _ = (std::fs::remove_file(&output), std::fs::remove_file(&part));
    let Some(end) = end else { return Ok(None) };
    let locks = profile.as_ref().map(LockCounts::of);
    let run = SweepRun { locks, phases_s: phases_s(&printed), ..SweepRun::of((0, 0), end) };
    if job.virtual_time.is_none() {
        let waited_s = profile.as_ref().and_then(waited_s);
        let preemptions = profile.as_ref().and_then(|of| most(of, Counter::Preemptions));
        return Ok(Some((SweepRun { waited_s, preemptions, ..run }, profile)));
    }
    let (end, virtual_time) = match (end, VirtualRun::of_printed(&printed)) {
        (RunEnd::Took(_), None) => bail!("a run has reported no virtual time"),
        (RunEnd::Took(_), Some((seconds, time))) => (RunEnd::Took(seconds), Some(time)),
        (end, _) => (end, None),
    };
    Ok(Some((SweepRun { end, virtual_time, ..run }, profile)))
}

/// Phase of clump's applications that is no part of the parallel program, and sends nothing.
const SERIAL: &str = "serial version";

/// Returns the sum of the phases that a program has printed last, as applications of clump do with
/// `--json`: an object with `phases`, a list of names and seconds. The serial version is left out.
fn phases_s(printed: &str) -> Option<f64> {
    let mut objects = printed.lines().rev().filter(|line| line.starts_with('{'));
    let report = objects.find_map(|line| {
        let object = serde_json::from_str::<Value>(line).ok()?;
        object.get("phases").is_some().then_some(object)
    })?;
    let phases = report.get("phases")?.as_array()?.iter();
    let phases = phases.filter(|phase| phase.get(0).and_then(Value::as_str) != Some(SERIAL));
    phases.map(|phase| phase.get(1)?.as_f64()).sum()
}

/// Returns the time in s for which a rank waited for a processor, of the rank that waited most.
fn waited_s(profile: &Profile) -> Option<f64> {
    let most = most(profile, Counter::ProcessorWait)?;
    #[expect(clippy::cast_precision_loss, reason = "times of runs are below 2^53 ns")]
    Some(most as f64 / 1e9)
}

/// Returns a counter of the rank that has most.
fn most(profile: &Profile, counter: Counter) -> Option<u64> {
    profile.counters.iter().map(|rank| rank[counter]).max()
}

/// Traces a run at no setting, plays it at every setting of the plan, and leaves what that predicts
/// beside the journal, unless it is there; `None` if the user interrupts.
fn replay(job: SweepJob<'_>, args: &SweepArgs, plan: &SweepPlan) -> Result<Option<()>> {
    let file = replay_beside(&args.out);
    let known = text_file::read(&file, MAX_BYTES).ok();
    let known = known.and_then(|text| serde_json::from_str::<SweepReplay>(&text).ok());
    if known.is_some_and(|known| known.is_of(plan)) {
        return Ok(Some(()));
    }
    let remote = |word: &String| word.starts_with("--hosts") || word == "--hostfile";
    let made = if args.command.iter().any(remote) {
        SweepReplay::missing(plan, "ranks of other machines write their traces there")
    } else {
        let Some(made) = traced(job, args, plan)? else { return Ok(None) };
        made
    };
    std::fs::write(&file, serde_json::to_string(&made)? + "\n")
        .with_context(|| format!("the predictions {}", file.display()))?;
    Ok(Some(()))
}

/// Traces a run, and plays it.
fn traced(job: SweepJob<'_>, args: &SweepArgs, plan: &SweepPlan) -> Result<Option<SweepReplay>> {
    // Beside the journal: traces are large, and many folders for temporary files are memory.
    let beside = args.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let scratch = Scratch::new(beside.unwrap_or(Path::new(".")), "sweep")?;
    console::err("sweep: a traced run, for M5");
    let folder = scratch.path().join("traces");
    let job = SweepJob { trace: Some(&folder), ..job };
    Ok(match job.run()? {
        None => None,
        Some(RunEnd::Took(_)) => {
            let knobs =
                plan.settings.iter().skip(1).map(|text| knobs(args, plan.base.as_ref(), text));
            let knobs = knobs.collect::<Result<Vec<_>>>()?;
            Some(SweepReplay::of_traces(plan, &folder, &knobs))
        }
        Some(RunEnd::Failed(code)) => {
            Some(SweepReplay::missing(plan, format!("the traced run ended with code {code}")))
        }
        Some(RunEnd::DidNotFinish(s)) => {
            Some(SweepReplay::missing(plan, format!("the traced run took more than {s:.0} s")))
        }
    })
}

/// Returns the plan of a sweep.
fn plan(args: &SweepArgs) -> Result<SweepPlan> {
    let base = match &args.machine {
        Some(_) => None,
        None => Some(KnobBase::read(args.base.as_deref())?),
    };
    let texts = texts(args, base.as_ref())?;
    let plan = SweepPlan::new(args.command.clone(), texts, args.seed, args.rounds).beside(base);
    let Some(machine) = &args.machine else {
        let with = args.with.as_ref().map(|with| format!(",{with}")).unwrap_or_default();
        return Ok(plan.with_baseline(format!("{ARMED}{with}")));
    };
    let cpu = match &args.cpu {
        None => RECORDED.to_owned(),
        Some(cpu) if cpu.compute.is_measured() => {
            let why = "--cpu: what is measured differs from run to run; `fixed:NS` and \
                       `replay:FOLDER` do not, nor does what the sweep records (the default)";
            return Err(WrongCommand::new(why).into());
        }
        Some(cpu) => cpu.to_string(),
    };
    Ok(plan.in_virtual_time(VirtualSweep { machine: machine.clone(), cpu, learn: args.learn }))
}

/// Returns a sentence that says what values of knobs are set beside.
fn basis(plan: &SweepPlan) -> Result<String> {
    match &plan.virtual_time {
        Some(time) => time.machine.basis().map_err(Error::msg),
        None => Ok(plan.base.as_ref().map(|base| base.basis.clone()).unwrap_or_default()),
    }
}

/// Reads the knobs of a setting.
fn knobs(args: &SweepArgs, base: Option<&KnobBase>, text: &str) -> Result<KnobTable> {
    match (&args.machine, base) {
        (Some(machine), _) => {
            Ok(machine.knobs(text).map_err(|why| WrongCommand::new(format!("--knob: {why}")))?)
        }
        (None, Some(base)) => base.knobs(text),
        (None, None) => KnobBase::default().knobs(text),
    }
}

/// Returns the texts of all settings.
fn texts(args: &SweepArgs, base: Option<&KnobBase>) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for knob in &args.knob {
        for setting in settings(knob).with_context(|| format!("--knob {knob}"))? {
            let with = args.with.as_ref().map(|with| format!(",{with}")).unwrap_or_default();
            let text = setting + &with;
            knobs(args, base, &text)?;
            texts.push(text);
        }
    }
    Ok(texts)
}

/// Opens the journal at its end, and reads what is there.
fn open(path: &Path, plan: SweepPlan, precision: f64) -> Result<(SweepJournal, File)> {
    if !(0.0..=1.0).contains(&precision) {
        return Err(WrongCommand::new("--precision is a percentage from 0 to 100").into());
    }
    let text = match text_file::read(path, MAX_BYTES) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e.into()),
    };
    let journal = SweepJournal::read(&text, plan, precision)?;
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // A line that was not written to its end is cut off, so that the next one begins a line.
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    file.set_len(whole as u64)?;
    if whole == 0 {
        write_line(&mut file, &serde_json::to_string(&journal.plan)?)?;
    }
    Ok((journal, file))
}

fn write_line(file: &mut File, line: &str) -> Result<()> {
    file.write_all(format!("{line}\n").as_bytes())?;
    Ok(file.sync_data()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, tests::parse};
    use clump_boot::machine::{FORMAT, MachineFile};
    use clump_loggp::{BaseParameters, KnobClass, KnobScope};

    #[test]
    fn phases_are_those_that_the_program_has_printed_last() {
        let phases = "[[\"sort\",0.25],[\"serial version\",9.0],[\"check\",0.5]]";
        let printed = format!("a line\n{{\"phases\":{phases},\"app\":\"x\"}}\nend\n");
        assert_eq!(super::phases_s(&printed), Some(0.75), "the serial version is no part of it");
        for other in ["", "{}", "no object", "{\"phases\": 3}", "{\"phases\": [[\"sort\"]]}"] {
            assert_eq!(super::phases_s(other), None, "{other}");
        }
    }

    #[test]
    fn options_of_a_run_follow_the_dashes() {
        let words = ["lab", "sweep", "--knob", "L=+1us", "--out", "f", "--", "-n", "2", "p", "-x"];
        let Command::Sweep(args) = parse(&words) else { panic!("another command") };
        assert_eq!(args.command, ["-n", "2", "p", "-x"]);
        assert_eq!(super::texts(&args, None).unwrap(), ["L=+1us"]);
    }

    #[test]
    fn runs_at_no_setting_take_the_way_of_delayed_messages_but_in_virtual_time() {
        let plan = |options: &str| {
            let words = format!("lab sweep --knob L=+5us --with scope=net {options} -- -n 2 p");
            let words: Vec<&str> = words.split(' ').collect();
            let Command::Sweep(args) = parse(&words) else { panic!("another command") };
            super::plan(&args).unwrap()
        };
        let real = plan("--out f");
        assert_eq!([0, 1].map(|at| real.knobs(at)), ["L=+1ns,scope=net", "L=+5us,scope=net"]);
        let knobs = KnobTable::parse(real.knobs(0), &Default::default()).unwrap();
        assert!(!knobs.is_off(), "knobs that are off change no message");
        assert_eq!(plan("--virtual now1997 --out f").knobs(0), "");
    }

    #[test]
    fn knobs_are_set_beside_the_named_file_and_the_journal_keeps_what_it_had() {
        let folder = Scratch::new(&std::env::temp_dir(), "base").unwrap();
        let [file, out] = ["machine.json", "s.jsonl"].map(|name| folder.path().join(name));
        let net = BaseParameters { l_ns: Some(3_000.0), ..BaseParameters::default() };
        let calibrate = |net| {
            let processor = "a processor".to_owned();
            let machine = MachineFile { format: FORMAT, processor, net, ..MachineFile::default() };
            machine.write(&file).unwrap();
        };
        calibrate(net);
        let words =
            ["lab", "sweep", "--knob", "L=50us", "--with", "scope=net", "--out", "f", "--", "p"];
        let Command::Sweep(args) = parse(&words) else { panic!("another command") };
        let args = SweepArgs { base: Some(file.clone()), ..args };
        let made = plan(&args).unwrap();
        let base = made.base.clone().unwrap();
        assert_eq!((&base.file, base.paths[1]), (&file, net));
        assert!(basis(&made).unwrap().contains("net o - and -, g -, L 3.000 us"), "{base:?}");
        let net_of = |table: KnobTable| table.get(KnobScope::Net, KnobClass::Short).latency_ns;
        assert_eq!(net_of(knobs(&args, made.base.as_ref(), "L=50us,scope=net").unwrap()), 47_000);
        let (journal, _) = open(&out, made.clone(), 0.01).unwrap();
        let report = journal.report().unwrap();
        assert!(report.tables[0].notes.contains(&base.basis), "{:?}", report.tables);
        assert!(open(&out, made, 0.01).is_ok(), "of the same calibration");
        calibrate(BaseParameters { l_ns: Some(9_000.0), ..net });
        let why = format!("{:#}", open(&out, plan(&args).unwrap(), 0.01).unwrap_err());
        assert!(why.contains("L 3.000 us") && why.contains("L 9.000 us"), "{why}");
    }
}
