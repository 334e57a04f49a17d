//! `clump lab study`: the study of paper 001 on this machine, end to end.

use crate::command::calibrate;
use crate::command::sweep;
use crate::study::application::{APPLICATIONS, StudyApplication};
use crate::study::input::MAX_BYTES;
use crate::study::points::workload;
use crate::study::study_plan::{self, MAX_PILOTS, PlannedProgram, StudyPlan};
use crate::study::{Study, tables};
use crate::sweep::{ARMED, RunEnd};
use crate::sweep_job::SweepJob;
use crate::wrong_command::WrongCommand;
use crate::{csv, launch, page, render};
use anyhow::{Context, Result};
use clump_boot::virtual_machine::VirtualMachine;
use clump_loggp::KnobScope;
use clump_os::{clock, console, text_file};
use clump_virtual::ComputePlan;
use clump_wire::Security;
use std::path::{Path, PathBuf};

/// Messages whose knobs are turned.
const SCOPE: &str = "scope=net";

/// Options of `clump lab study`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Calibrates the machine, sweeps o, g, L and G for each application of paper 001 that there is, with small\n\
    operations collected and without, and writes\n\
    report.html, report.csv, report.json and figures. An interrupted study goes on where it ended.\n\n\
    Examples:\n  \
    clump lab study --out study                       every application: about an hour\n  \
    clump lab study --out study --hours 3 --rounds 11\n  \
    clump lab study --out quick --only radix,radix-collected --hours 0.05\n  \
    clump lab study --out now --virtual now1997 --only radix,em3d-read,connect      32 nodes of 1997"
)]
pub struct StudyArgs {
    /// The folder for everything that is measured and written
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Ranks, each on a node of its own [default: 2, or 32 with --virtual]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub ranks: Option<u32>,
    /// Applications [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Most runs of a setting
    #[arg(long, default_value = "5",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub rounds: usize,
    /// Time for all of it: fewer runs and settings then, and less of what takes longest [default:
    /// as long as it takes]
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    pub hours: Option<f64>,
    /// Time after which a run is stopped, and has not finished
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub limit: u64,
    /// Go on although the machine does other work, or its calibration contradicts itself
    #[arg(long)]
    pub force: bool,
    /// Leave the calibration out; the knobs are then absolute beside nothing
    #[arg(long)]
    pub uncalibrated: bool,
    /// Run in virtual time, on a machine that need not exist: a name, as in now1997, or the path of
    /// a machine file; each setting is run once, at the settings of paper 001
    #[arg(long = "virtual", value_name = "MACHINE", value_parser = VirtualMachine::find,
          conflicts_with_all = ["rounds", "hours", "force", "uncalibrated"])]
    pub machine: Option<VirtualMachine>,
    /// With --virtual: cost of computation, `fixed:NS` [default: recorded in a first run of each
    /// application]
    #[arg(long, value_name = "COST", requires = "machine")]
    pub cpu: Option<ComputePlan>,
    /// With --virtual: runs of each application whose computation is recorded; the least that each
    /// part has cost in them is charged
    #[arg(long, value_name = "RUNS", default_value = "1", requires = "machine",
          conflicts_with = "cpu", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub learn: u32,
    /// With --virtual: work of each application, by its least
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "machine",
          value_parser = factor)]
    pub work: f64,
}

impl StudyArgs {
    fn ranks(&self) -> u32 {
        self.ranks.unwrap_or(if self.machine.is_some() { 32 } else { 2 })
    }
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a job cannot be run, or if the folder cannot be written.
pub fn run(args: &StudyArgs) -> Result<u8> {
    let chosen = chosen(&args.only)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("{}", args.out.display()))?;
    let machine = machine_file(args);
    if args.machine.is_none() && !args.uncalibrated && !machine.is_file() {
        console::err("study: calibrating");
        let (_, refused) = calibrate::save(&machine, (Security::default(), None), args.force)?;
        if let Some(why) = refused {
            return Err(WrongCommand::new(format!("the calibration was {why}")).into());
        }
    }
    let begun = clock::now_ns();
    let planned = args.out.join("plan.json");
    let Some(plan) = plan(args, &planned, &chosen)? else { return Ok(130) };
    let mut files: Vec<PathBuf> = machine.is_file().then_some(machine).into_iter().collect();
    files.push(planned);
    for (at, program) in plan.programs.iter().enumerate() {
        let journal = args.out.join(format!("{}.jsonl", program.name));
        console::err(&format!("study: {}, {} of {}", program.name, at + 1, plan.programs.len()));
        let passed_s = seconds_since(begun);
        let budget_s = plan.limit_s.and_then(|limit_s| plan.budget_s(at, limit_s - passed_s));
        if sweep::fill(&sweep_of(args, &plan, program, (&journal, budget_s))?)?.is_none() {
            return Ok(130);
        }
        files.push(journal);
    }
    write_all(args, &files)?;
    Ok(0)
}

/// Returns the file of the study's calibration.
fn machine_file(args: &StudyArgs) -> PathBuf {
    args.out.join("machine.json")
}

/// Reads a factor of the work.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.001..=1e6).contains(factor));
    factor.ok_or_else(|| "a number from 0.001 to 1000000".into())
}

/// Reads a time in hours.
fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().ok().filter(|hours| (0.01..=1000.0).contains(hours));
    hours.ok_or_else(|| "a number of hours, from 0.01 to 1000".into())
}

fn seconds_since(begun_ns: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a study is far below 2^53 ns")]
    let ns = (clock::now_ns() - begun_ns) as f64;
    ns / 1e9
}

/// Returns the applications of these names, all if none is given.
fn chosen(only: &[String]) -> Result<Vec<StudyApplication>> {
    for name in only {
        let known = APPLICATIONS.map(|known| known.name);
        if !known.contains(&name.as_str()) {
            let why = format!("no application {name} (--only); there are {}", known.join(", "));
            return Err(WrongCommand::new(why).into());
        }
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|other| other == name);
    Ok(APPLICATIONS.into_iter().filter(|one| wanted(one.name)).collect())
}

/// Reads the plan in `file`, or makes one from a few runs of each application; `None` if the user
/// interrupts.
fn plan(args: &StudyArgs, file: &Path, chosen: &[StudyApplication]) -> Result<Option<StudyPlan>> {
    if file.is_file() {
        let text = text_file::read(file, MAX_BYTES)?;
        let plan: StudyPlan = serde_json::from_str(&text).context("the plan is damaged")?;
        let programs = plan.programs.iter().map(|one| one.name.as_str());
        let same = (plan.ranks, plan.rounds <= args.rounds) == (args.ranks(), true)
            && plan.virtual_machine == args.machine
            && programs.eq(chosen.iter().map(|one| one.name));
        if !same || plan.clump_study != study_plan::FORMAT {
            let why = format!("{} has another study; name another folder", args.out.display());
            return Err(WrongCommand::new(why).into());
        }
        return Ok(Some(plan));
    }
    let limit_s = args.hours.map(|hours| hours * 3600.0);
    let (ranks, rounds) = (args.ranks(), args.rounds.max(3));
    let mut plan = StudyPlan {
        clump_study: study_plan::FORMAT,
        ranks,
        rounds,
        limit_s,
        virtual_machine: args.machine.clone(),
        ..StudyPlan::default()
    };
    for (at, application) in chosen.iter().enumerate() {
        console::err(&format!(
            "study: planning {}, {} of {}",
            application.name,
            at + 1,
            chosen.len()
        ));
        let planned = match &args.machine {
            None => pilot(args, application)?,
            Some(_) => {
                let amount = application.scaled(application.first, args.work);
                Some(PlannedProgram::in_virtual_time(application.name, amount))
            }
        };
        let Some(planned) = planned else { return Ok(None) };
        plan.programs.push(planned);
    }
    if !plan.fit() {
        console::err("study: the time is too short for all of it; the report has what is done");
    }
    for line in plan.lines() {
        console::err(&format!("study: {line}"));
    }
    std::fs::write(file, serde_json::to_string(&plan)? + "\n")
        .with_context(|| format!("{}", file.display()))?;
    Ok(Some(plan))
}

/// Runs an application at no setting until its work is as much as is wanted, or as there can be;
/// `None` if the user interrupts.
fn pilot(args: &StudyArgs, application: &StudyApplication) -> Result<Option<PlannedProgram>> {
    let program = launch::own_program()?.to_string_lossy().into_owned();
    let beside = args.out.join("pilot");
    let mut amount = application.first;
    let mut tries = 1;
    loop {
        let command = application.command(&program, args.ranks(), amount);
        let knobs = format!("{ARMED},{SCOPE}");
        let (command, limit_s) = (&command[..], args.limit);
        let job = SweepJob { command, limit_s, knobs: &knobs, ..SweepJob::default() };
        let measured = sweep::measured(job, &beside)?;
        let Some((run, profile)) = measured else { return Ok(None) };
        let RunEnd::Took(wall_s) = run.end else {
            anyhow::bail!(
                "{} does not end cleanly: clump run {}",
                application.name,
                command.join(" ")
            )
        };
        let profile = profile.context("a run has left no profile")?;
        let base_ns = run.phases_s.unwrap_or(wall_s) * 1e9;
        let work = workload(&profile, KnobScope::Net, base_ns);
        let planned = PlannedProgram::new(application.name, amount, wall_s, work);
        let next = application.scaled(amount, planned.wanted().clamp(1.0 / 64.0, 64.0));
        if planned.is_right() || next == amount || tries == MAX_PILOTS {
            return Ok(Some(planned));
        }
        (amount, tries) = (next, tries + 1);
    }
}

fn sweep_of(
    args: &StudyArgs,
    plan: &StudyPlan,
    planned: &PlannedProgram,
    (journal, budget_s): (&Path, Option<f64>),
) -> Result<sweep::SweepArgs> {
    let program = launch::own_program()?.to_string_lossy().into_owned();
    let application = APPLICATIONS.into_iter().find(|one| one.name == planned.name);
    let application = application.with_context(|| format!("the plan has {}", planned.name))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "hours, as seconds"
    )]
    let budget = budget_s.map(|seconds| seconds.ceil() as u64);
    Ok(sweep::SweepArgs {
        knob: planned.knobs(),
        with: Some(SCOPE.into()),
        out: journal.to_owned(),
        rounds: plan.rounds,
        precision: 2.0,
        budget,
        limit: args.limit,
        seed: 1,
        machine: args.machine.clone(),
        cpu: args.cpu.clone(),
        learn: args.learn,
        base: args.machine.is_none().then(|| machine_file(args)),
        json: false,
        command: application.command(&program, args.ranks(), planned.amount),
    })
}

fn write_all(args: &StudyArgs, files: &[PathBuf]) -> Result<()> {
    let (mut report, figures) = tables::report(&Study::read(files)?)?;
    report.title = format!(
        "Sensitivity to overhead, gap, latency and bandwidth: {} ranks on as many nodes{}",
        args.ranks(),
        args.machine
            .as_ref()
            .map(|of| format!(" of {}, virtual time", of.name))
            .unwrap_or_default()
    );
    let cores = clump_os::topology::usable_cores();
    if args.machine.is_none()
        && args.ranks() as usize > cores
        && let Some(table) = report.tables.last_mut()
    {
        table.notes.push(format!(
            "{} ranks share {cores} cores: this shows that everything works, and no slowdown \
             of it is one of the network",
            args.ranks()
        ));
    }
    let write = |name: &str, text: &str| {
        let file = args.out.join(name);
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    };
    write("report.html", &page::page(&report, &figures)?)?;
    write("report.csv", &csv::csv(&report))?;
    write("report.json", &serde_json::to_string(&report)?)?;
    for figure in &figures {
        write(&format!("{}.svg", figure.name), &figure.svg)?;
    }
    console::err(&format!("study: report.html and more in {}", args.out.display()));
    render::show(&report, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, tests::parse};

    #[test]
    fn a_study_sweeps_what_it_is_told_to_between_nodes() {
        let words = ["lab", "study", "--out", "o", "--only", "radb,em3d-read", "-n", "4"];
        let Command::Study(args) = parse(&words) else { panic!("another command") };
        let names: Vec<_> = chosen(&args.only).unwrap().iter().map(|one| one.name).collect();
        assert_eq!(names, ["radb", "em3d-read"]);
        let planned = PlannedProgram::new("radb", 5000, 1.0, clump_loggp::Workload::default());
        let plan = StudyPlan { rounds: 5, ..StudyPlan::default() };
        let to = (Path::new("o/radb.jsonl"), Some(1.2));
        let sweep = sweep_of(&args, &plan, &planned, to).unwrap();
        let command = sweep.command.join(" ");
        assert!(command.starts_with("-n 4 --nodes 4 -- "), "{command}");
        assert!(command.ends_with(" app radb --keys 5000 --json"), "{command}");
        assert_eq!((sweep.rounds, sweep.budget, sweep.knob.len()), (5, Some(2), 4));
        assert_eq!(sweep.base.as_deref(), Some(Path::new("o/machine.json")), "its calibration");
        assert!(chosen(&["sort".into()]).unwrap_err().to_string().contains("radix, radix-c"));
    }

    #[test]
    fn a_study_in_virtual_time_sweeps_each_application_on_32_nodes() {
        let words = ["lab", "study", "--out", "o", "--virtual", "now1997", "--work", "0.5"];
        let Command::Study(args) = parse(&words) else { panic!("another command") };
        let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "study").unwrap();
        let file = folder.path().join("plan.json");
        let radb = chosen(&["radb".into()]).unwrap();
        let plan = plan(&args, &file, &radb).unwrap().unwrap();
        let planned = &plan.programs[0];
        let sweep = sweep_of(&args, &plan, planned, (Path::new("o/radb.jsonl"), None)).unwrap();
        assert_eq!((&sweep.machine, &sweep.base), (&args.machine, &None));
        let command = sweep.command.join(" ");
        assert!(command.starts_with("-n 32 --nodes 32 -- "), "{command}");
        assert!(command.ends_with(" app radb --keys 262144 --json"), "{command}");
        assert_eq!(sweep.knob[0], "o=+1us,+2us,+5us,+10us,+20us,+50us,+100us");
    }

    #[test]
    fn hours_are_a_number_of_some() {
        assert_eq!((hours("0.5"), hours("12")), (Ok(0.5), Ok(12.0)));
        for wrong in ["", "-1", "0", "NaN", "inf", "an hour"] {
            assert!(hours(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_folder_with_another_study_is_refused() {
        let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "study").unwrap();
        let out = folder.path().to_string_lossy().into_owned();
        let Command::Study(args) = parse(&["lab", "study", "--out", &out, "--only", "radb"]) else {
            panic!("another command")
        };
        let radb = chosen(&args.only).unwrap();
        let programs = vec![PlannedProgram::new("radb", 5, 1.0, clump_loggp::Workload::default())];
        let ranks = 2;
        let known =
            StudyPlan { clump_study: 1, ranks, rounds: 4, programs, ..StudyPlan::default() };
        let file = folder.path().join("plan.json");
        std::fs::write(&file, serde_json::to_string(&known).unwrap()).unwrap();
        assert_eq!(plan(&args, &file, &radb).unwrap().as_ref(), Some(&known));
        let all = chosen(&[]).unwrap();
        let why = plan(&args, &file, &all).unwrap_err().to_string();
        assert!(why.contains("another study"), "{why}");
    }
}
