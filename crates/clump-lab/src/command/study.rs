//! `clump lab study`: the study of paper 001 on this machine, end to end.

use crate::command::calibrate;
use crate::command::sweep;
use crate::study::{Study, tables};
use crate::wrong_command::WrongCommand;
use crate::{csv, launch, page, render};
use anyhow::{Context, Result};
use clump_os::console;
use clump_wire::Security;
use std::path::{Path, PathBuf};

/// Applications of paper 001 that clump has: the name here, and the command behind `clump app`.
const APPLICATIONS: [(&str, &[&str]); 6] = [
    ("radix", &["radix", "--manner", "single"]),
    ("radb", &["radb"]),
    ("sample", &["sample"]),
    ("em3d-write", &["em3d", "--manner", "write"]),
    ("em3d-read", &["em3d", "--manner", "read"]),
    ("connect", &["connect"]),
];
/// Settings of the knobs: those of paper 001 reach to a hundred times the base, these to less,
/// because jobs are small.
const KNOBS: [&str; 4] = [
    "o=+1us,+5us,+20us,+50us",
    "g=5us,10us,25us,50us",
    "L=+5us,+20us,+50us,+100us",
    "G=1ns/B,5ns/B,20ns/B,100ns/B",
];

/// Options of `clump lab study`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Calibrates the machine, sweeps o, g, L and G for each application of paper 001 that there is, and writes\n\
    report.html, report.csv, report.json and figures. An interrupted study goes on where it ended.\n\n\
    Examples:\n  \
    clump lab study --out study                       every application, at the smallest size\n  \
    clump lab study --out study --size measure --rounds 11\n  \
    clump lab study --out quick --only radix,connect --rounds 3 --budget 60"
)]
pub struct StudyArgs {
    /// The folder for everything that is measured and written
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Size of the applications' inputs: ci, measure or paper
    #[arg(long, default_value = "ci")]
    pub size: String,
    /// Ranks, each on a node of its own
    #[arg(short = 'n', long, default_value = "2",
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub ranks: u32,
    /// Applications [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Most runs of a setting
    #[arg(long, default_value = "5",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub rounds: usize,
    /// Time for the sweeps of one application, in seconds [default: none]
    #[arg(long, value_name = "SECONDS")]
    pub budget: Option<u64>,
    /// Time after which a run is stopped, and has not finished
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub limit: u64,
    /// Go on although the machine does other work, or its calibration contradicts itself
    #[arg(long)]
    pub force: bool,
    /// Leave the calibration out; the knobs are then absolute beside nothing
    #[arg(long)]
    pub uncalibrated: bool,
}

/// Runs the command. Returns the exit code.
///
/// # Errors
/// Fails if a job cannot be run, or if the folder cannot be written.
pub fn run(args: &StudyArgs) -> Result<u8> {
    let chosen = chosen(&args.only)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("{}", args.out.display()))?;
    let machine = args.out.join("machine.json");
    if !args.uncalibrated && !machine.is_file() {
        console::err("study: calibrating");
        let (_, refused) = calibrate::save(&machine, (Security::default(), None), args.force)?;
        if let Some(why) = refused {
            return Err(WrongCommand::new(format!("the calibration was {why}")).into());
        }
    }
    let mut files: Vec<PathBuf> = machine.is_file().then_some(machine).into_iter().collect();
    for (name, words) in chosen {
        let journal = args.out.join(format!("{name}.jsonl"));
        console::err(&format!("study: {name}"));
        if sweep::fill(&sweep_of(args, &journal, words)?)?.is_none() {
            return Ok(130);
        }
        files.push(journal);
    }
    write_all(args, &files)?;
    Ok(0)
}

/// Returns the applications of these names, all if none is given.
fn chosen(only: &[String]) -> Result<Vec<(&'static str, &'static [&'static str])>> {
    for name in only {
        let known = APPLICATIONS.map(|(known, _)| known);
        if !known.contains(&name.as_str()) {
            let why = format!("no application {name} (--only); there are {}", known.join(", "));
            return Err(WrongCommand::new(why).into());
        }
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|other| other == name);
    Ok(APPLICATIONS.into_iter().filter(|(name, _)| wanted(name)).collect())
}

fn sweep_of(args: &StudyArgs, journal: &Path, words: &[&str]) -> Result<sweep::SweepArgs> {
    let program = launch::own_program()?.to_string_lossy().into_owned();
    let ranks = args.ranks.to_string();
    let run = ["-n", &ranks, "--nodes", &ranks, "--", &program, "app"];
    let size = ["--size", args.size.as_str()];
    let command = run.iter().chain(words).chain(&size);
    Ok(sweep::SweepArgs {
        knob: KNOBS.map(String::from).to_vec(),
        with: Some("scope=net".into()),
        out: journal.to_owned(),
        rounds: args.rounds,
        precision: 2.0,
        budget: args.budget,
        limit: args.limit,
        seed: 1,
        json: false,
        command: command.map(|word| (*word).to_owned()).collect(),
    })
}

fn write_all(args: &StudyArgs, files: &[PathBuf]) -> Result<()> {
    let (mut report, figures) = tables::report(&Study::read(files)?)?;
    report.title = format!(
        "Sensitivity to overhead, gap, latency and bandwidth: {} ranks on as many nodes, size {}",
        args.ranks, args.size
    );
    let cores = clump_os::topology::usable_cores();
    if args.ranks as usize > cores
        && let Some(table) = report.tables.last_mut()
    {
        table.notes.push(format!(
            "{} ranks share {cores} cores: this shows that everything works, and no slowdown \
             of it is one of the network",
            args.ranks
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
        let names: Vec<_> = chosen(&args.only).unwrap().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["radb", "em3d-read"]);
        let sweep = sweep_of(&args, Path::new("o/radb.jsonl"), &["radb"]).unwrap();
        let command = sweep.command.join(" ");
        assert!(command.starts_with("-n 4 --nodes 4 -- "), "{command}");
        assert!(command.ends_with(" app radb --size ci"), "{command}");
        assert!(chosen(&["barnes".into()]).unwrap_err().to_string().contains("radix, radb"));
    }
}
