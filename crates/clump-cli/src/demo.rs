//! `clump demo`: one sort from records to a checked result, and what this machine's messages cost.

use crate::job::launch_self;
use crate::layout::Layout;
use anyhow::{Context, Result, bail};
use clap::Args;
use clump_agent::Display;
use clump_lab::wrong_command::WrongCommand;
use clump_os::bound_child::BoundChild;
use clump_os::console;
use clump_os::printable::counted;
use clump_os::scratch::Scratch;
use clump_os::signal;
use clump_sort::gensort::{self, GensortArgs};
use clump_sort::valsort::{self, ValsortArgs};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Options of `clump demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  clump demo --records 10000000 --folder /var/tmp")]
pub struct DemoArgs {
    /// Records to sort, of 100 bytes each
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    records: u64,
    /// Ranks that sort
    #[arg(short = 'n', long = "ranks", default_value = "4", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: u32,
    /// Virtual nodes that they are spread over
    #[arg(long, default_value = "2", value_name = "K",
          value_parser = clap::value_parser!(u32).range(1..=16))]
    nodes: u32,
    /// Parent of the temporary folder, which needs three times the size of the records [default:
    /// the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Makes records, sorts them on several ranks, checks the result, measures messages.
///
/// # Errors
/// Fails if any step fails; the temporary folder is removed all the same.
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    let base = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    if !base.is_dir() {
        let why =
            format!("there is no folder {} (--folder); make it, or name another", base.display());
        return Err(WrongCommand::new(why).into());
    }
    // Between the jobs, which receive signals themselves, signals wait for the next check.
    let folder = Scratch::new(&base, "demo")?;
    let steps = [make, sort, check, measure];
    for step in steps {
        let code = step(args, folder.path())?;
        if let Some(signal) = folder.interrupted() {
            let name = signal::name(signal);
            console::err(&format!("clump: the demonstration was interrupted ({name})"));
            return Ok(ExitCode::from(128_u8.saturating_add(signal)));
        }
        if code != 0 {
            return Ok(ExitCode::from(code));
        }
    }
    drop(folder);
    console::out(&format!("{NEXT}\n"))?;
    Ok(ExitCode::SUCCESS)
}

const NEXT: &str = "\
what to try next
  clump doctor                                what this machine offers, and what is missing
  clump run -n 4 --stats ./your-program       your own program on four ranks
  clump app gensort 10000000 records          a gigabyte of records; then
  clump app sort -n 2 -i records -o sorted    sort them, and
  clump app valsort sorted --input records    check the result
  clump run -n 4 --nodes 2 ./your-program     the same ranks on two nodes, as on two machines
  clump lab logp --scope both                 what a message costs, step by step
  clump lab compare                           the same messages on other systems installed here";

fn heading(text: &str) -> Result<()> {
    Ok(console::out(&format!("== {text}\n"))?)
}

fn make(args: &DemoArgs, folder: &Path) -> Result<u8> {
    heading(&format!("1. make {} records of 100 bytes", args.records))?;
    gensort::run(&GensortArgs {
        records: args.records,
        output: folder.join("records"),
        begin: 0,
        skew: false,
        distinct: None,
        threads: None,
        force: false,
        buffered: false,
        json: false,
    })?;
    Ok(0)
}

fn sort(args: &DemoArgs, folder: &Path) -> Result<u8> {
    let (ranks, nodes) = (args.ranks, args.nodes.min(args.ranks));
    let (on, of) = (counted(ranks, "rank"), counted(nodes, "node"));
    heading(&format!(
        "2. sort them on {on} of {of}: clump app sort -n {ranks} --nodes {nodes} \
         -i records -o sorted"
    ))?;
    let path = |name: &str| folder.join(name).into_os_string();
    let mut words: Vec<OsString> =
        ["app", "sort", "-n", &ranks.to_string(), "--nodes", &nodes.to_string(), "-i"]
            .map(OsString::from)
            .into();
    words.extend([path("records"), "-o".into(), path("sorted")]);
    let display = Display { stats: true, brief: true, ..Display::default() };
    Ok(launch_self((ranks, &Layout::nodes(nodes)), words, &display)?.code)
}

fn check(args: &DemoArgs, folder: &Path) -> Result<u8> {
    heading("3. check the result against the input: clump app valsort sorted --input records")?;
    let verdict = valsort::validate(&ValsortArgs {
        outputs: vec![folder.join("sorted")],
        input: vec![folder.join("records")],
        checksum: None,
        records: Some(args.records),
        json: false,
    })?;
    console::out(&format!("{verdict}\n"))?;
    if !verdict.valid {
        bail!("the sorted output is wrong; please report that");
    }
    Ok(0)
}

fn measure(_: &DemoArgs, _: &Path) -> Result<u8> {
    heading("4. what messages cost here, on a node and between two: clump lab logp --brief")?;
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let words = ["lab", "logp", "--brief"];
    // In a group of its own, which may not read from the terminal.
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    let mut measurement = BoundChild::start(&mut command).context("starting the measurement")?;
    let status = measurement.wait_while(|| signal::pending(&signal::ENDS).is_none())?;
    Ok(status.and_then(|status| u8::try_from(status.code()?).ok()).unwrap_or(1))
}
