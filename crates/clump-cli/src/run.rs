//! `clump run`.

use crate::layout::{self, Layout, MEASUREMENTS};
use anyhow::Context;
use clap::{Args, ValueEnum};
use clump_agent::{Bind, Display, JobSpec, OnDeath};
use clump_lab::traces::{TracedMachine, line_file, traced_machine};
use clump_lab::wrong_command::WrongCommand;
use clump_os::console;
use clump_os::printable::printable;
use clump_os::shell_text::typed;
use clump_trace::line_state::LineWatch;
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Binding of ranks to CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BindTo {
    /// Each rank on a core of its own, that no other job has, for as long as its program has one
    /// thread
    Spread,
    /// Each rank stays on a core, and so do the threads that it starts
    Cores,
    /// Any CPU that this process may use
    None,
}

/// Policy for the other ranks when a rank dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AfterDeath {
    /// The job ends
    End,
    /// Survivors go on; their messages to the dead rank are returned
    Continue,
}

/// Headings of the help.
const RANKS: &str = "Ranks";
const OUTPUT: &str = "Output";

/// Options of `clump run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    clump run -n 4 ./program --its-option      four ranks\n  \
    clump run -n 8 --label sh -c 'echo $CLUMP_RANK of $CLUMP_NRANKS'\n  \
    clump run -n 2 --bind cores --stats ./program      on cores of their own; say how they communicated\n  \
    clump run -n 4 --output logs ./program      logs/rank-0.out, logs/rank-0.err, ...\n  \
    clump run -n 4 --nodes 2 ./program      two nodes on this machine that talk over UDP\n\n\
    Rank 0 reads standard input, also from a terminal; the others read nothing.\n\
    Ctrl-C and Ctrl-\\ end the job, Ctrl-Z suspends it on all its machines; SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU and \
    SIGWINCH reach the ranks.\n\
    When a rank dies the job ends and the report says who, how, and what the others waited for.")]
pub struct RunArgs {
    /// Number of ranks [default: 1, or as many as all machines may have]
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = layout::ranks())]
    pub ranks: Option<u32>,
    /// Nodes of the job.
    #[command(flatten)]
    pub layout: Layout,
    /// Binding of ranks to CPUs; cores that share least come first, and more ranks than cores are
    /// not spread
    #[arg(long, value_enum, default_value = "spread", help_heading = RANKS)]
    pub bind: BindTo,
    /// Put `[rank] ` in front of every line of output
    #[arg(long, conflicts_with = "output", help_heading = OUTPUT)]
    pub label: bool,
    /// Write output into files of this folder, one per rank and stream, instead of showing it
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Policy for the other ranks when a rank dies
    #[arg(long, value_enum, default_value = "end", help_heading = RANKS)]
    pub on_death: AfterDeath,
    /// Time that ranks may run on after others have ended cleanly [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = RANKS)]
    pub linger: Option<f64>,
    /// Time after which the job is ended, with exit code 124 and a report of what each rank waits
    /// for [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<f64>,
    /// Write what is known of the ranks' communication into this file, for `clump lab report`
    #[arg(long, value_name = "FILE", help_heading = MEASUREMENTS)]
    pub profile: Option<PathBuf>,
    /// Write a trace of each rank's messages, waits and barriers into this folder, for
    /// `clump lab trace`; CLUMP_TRACE_EVENTS is the number of events that each has room for
    #[arg(long, value_name = "DIR", help_heading = MEASUREMENTS)]
    pub trace: Option<PathBuf>,
    /// Offer the ranks' counters to collectors (OpenMetrics) while the job runs, at this port of
    /// this machine or of an address; each further virtual node has the next port
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics_address, help_heading = MEASUREMENTS)]
    pub metrics: Option<SocketAddr>,
    /// Say by which addresses the nodes of the job reach each other
    #[arg(short, long, help_heading = OUTPUT)]
    pub verbose: bool,
    /// Give every rank this variable, wherever it runs: with this value, or with that of this
    /// process
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = RANKS)]
    pub env: Vec<OsString>,
    /// Print the commands that would start agents on the machines, and start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the job's outcome as JSON, in the last line of standard output
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub program: Vec<OsString>,
}

/// Runs the job and returns the code of its first failing rank.
///
/// # Errors
/// Fails if the launcher does.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let Some((program, rest)) = args.program.split_first() else {
        anyhow::bail!("no program given; see clump run --help");
    };
    let slots =
        args.layout.machines.read(args.layout.is_virtual())?.map_or(1, |hosts| hosts.slots());
    let mut spec = JobSpec::new(program, rest.to_vec(), args.ranks.unwrap_or(slots));
    reject_option_as_program(program)?;
    args.layout.apply(&mut spec)?;
    spec.variables = variables(&args.env)?;
    if let Some(folder) = &args.trace {
        spec.variables.push(("CLUMP_TRACE".into(), prepared(folder)?.into()));
    }
    spec.verbose = args.verbose;
    spec.keyboard = true;
    spec.metrics = args.metrics;
    if args.dry_run {
        return show_commands(&spec);
    }
    spec.bind = match args.bind {
        BindTo::Spread => Bind::Spread,
        BindTo::Cores => Bind::Cores,
        BindTo::None => Bind::None,
    };
    spec.on_death = match args.on_death {
        AfterDeath::End => OnDeath::End,
        AfterDeath::Continue if spec.virtual_time.is_some() => {
            return Err(WrongCommand::new(
                "--virtual and --on-death continue: a death ends virtual time, and with it the job",
            )
            .into());
        }
        AfterDeath::Continue => OnDeath::Continue,
    };
    // The parser admits only finite, not negative values of less than a year.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked by seconds()"
    )]
    let milliseconds = |s: f64| (s * 1e3).ceil() as u64;
    spec.linger_ms = args.linger.map(milliseconds);
    spec.time_limit_ms = args.time_limit.map(milliseconds);
    let display = Display {
        label: args.label,
        brief: false,
        folder: args.output.clone(),
        json: args.json,
        stats: args.layout.stats || clump_boot::Config::load()?.stats,
        profile: args.profile.clone(),
    };
    // The distance of the processors decides the times of a trace.
    let here = spec.machines.is_empty();
    let traced = args.trace.as_deref().filter(|_| here).map(|to| (to, LineWatch::begin()));
    if let (Some(folder), Some(time)) = (&args.trace, &spec.virtual_time) {
        let (machine, knobs) = (time.machine.clone(), time.knobs.clone());
        TracedMachine { machine, knobs }.save(folder)?;
    }
    let outcome = crate::job::launch_here(spec, &display)?;
    if let Some((folder, watch)) = traced
        && let Some(lines) = watch.end()
    {
        line_file::save(&lines, folder)?;
    }
    Ok(ExitCode::from(outcome.code))
}

/// Creates the folder for traces, and removes those of an earlier job. Returns its path from the
/// root.
fn prepared(folder: &Path) -> anyhow::Result<PathBuf> {
    let of = |what: &str| format!("{what} the folder for traces, {}", folder.display());
    std::fs::create_dir_all(folder).with_context(|| of("creating"))?;
    for entry in std::fs::read_dir(folder).with_context(|| of("reading"))? {
        let path = entry.with_context(|| of("reading"))?.path();
        let of_run = [line_file::FILE, traced_machine::FILE].map(OsStr::new);
        let of_run = path.file_name().is_some_and(|name| of_run.contains(&name));
        if of_run || clump_trace::trace_file::is_trace(&path) {
            std::fs::remove_file(&path).with_context(|| of("clearing"))?;
        }
    }
    std::path::absolute(folder).with_context(|| of("finding"))
}

/// Reads a port of this machine, or an address with a port.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let at = port.ok().or_else(|| text.parse().ok());
    at.filter(|at| at.port() != 0).ok_or_else(|| "a port, or ADDRESS:PORT".into())
}

/// Prints the commands that start the agents of a job.
fn show_commands(spec: &JobSpec) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    for clump_agent::StartCommand { words, ranks, on } in clump_agent::commands(spec)? {
        let (first, last) = (ranks.start, ranks.end.saturating_sub(1));
        let on = on.map_or(String::new(), |machine| format!(", on {machine}"));
        text += &format!("{} # ranks {first} to {last}{on}\n", typed(&words));
    }
    console::out(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the variables that `--env` names. One without a value that this process does not have
/// is an error: a misspelt one would silently be missing.
fn variables(all: &[OsString]) -> Result<Vec<(OsString, OsString)>, WrongCommand> {
    let one = |word: &OsString| {
        let bytes = word.as_bytes();
        let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
            Some(at) => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
            None => (bytes, None),
        };
        let name = OsStr::from_bytes(name);
        let shown = printable(name);
        if name.is_empty() {
            return Err(WrongCommand::new("--env takes NAME or NAME=VALUE"));
        }
        let value =
            value.or_else(|| clump_boot::config::inherited_variable(name)).ok_or_else(|| {
                WrongCommand::new(format!(
                    "this process has no variable `{shown}`; `--env {shown}=VALUE` gives it a value"
                ))
            })?;
        Ok((name.to_owned(), value))
    };
    all.iter().map(one).collect()
}

/// Rejects a program name that looks like an option: everything from the first word that is no
/// known option on belongs to the program.
fn reject_option_as_program(program: &OsStr) -> Result<(), WrongCommand> {
    let name = printable(program);
    if program.as_bytes().starts_with(b"-") {
        let run = RunArgs::augment_args(clap::Command::new("run"));
        let options = run.get_arguments().flat_map(|option| option.get_long_and_visible_aliases());
        let options: Vec<&str> = options.flatten().collect();
        let word = name.to_string();
        let word = word.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned();
        let meant = clump_boot::nearest(&word, options.iter().copied());
        let meant = meant.map_or(";".to_owned(), |meant| format!("; did you mean `--{meant}`?"));
        return Err(WrongCommand::new(format!(
            "unknown option `{name}`{meant} `clump run --help` lists them all (a program of that \
             name would be `./{name}`)"
        )));
    }
    Ok(())
}

fn seconds(text: &str) -> Result<f64, String> {
    const YEAR: f64 = 31_536_000.0;
    match text.parse::<f64>() {
        Ok(s) if (0.0..=YEAR).contains(&s) => Ok(s),
        _ => Err("a number of seconds from 0 to 31536000 (a year)".into()),
    }
}
