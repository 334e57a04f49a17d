//! `clump app murphi`.

use crate::murphi::checkpoint::Checkpoints;
use crate::murphi::compiled::{CompiledModel, LibraryFolder};
use crate::murphi::engine::StepEngine;
use crate::murphi::exchange::StateExchange;
use crate::murphi::explorer::{DeadlockMode, ModelSearch, SearchBounds, SearchOrder};
use crate::murphi::lexer::MAX_TEXT;
use crate::murphi::models;
use crate::murphi::packing::StatePacking;
use crate::murphi::reader::read;
use crate::murphi::search_result::SearchResult;
use crate::murphi::store::StateStore;
use crate::murphi::store::keys::{StoreBounds, fingerprint};
use crate::murphi::symmetry::{StateReduction, SymmetryMode};
use crate::murphi::tree::CheckedModel;
use crate::murphi::verdict;
use crate::run::AppRun;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use clump::Clump;
use clump_app_frame::InputSize;
use clump_app_frame::diagnostic::Diagnostic;
use clump_app_frame::size::parse_bytes;
use clump_os::{available, console, text_file};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

/// Exit code if the text of the model, or an option for it, is wrong.
const WRONG_MODEL: u8 = 2;
/// Cells of all states that the check by the serial version stays below.
const MAX_SERIAL_CELLS: u64 = 1 << 24;

/// Options of `clump app murphi`.
#[derive(Debug, Args)]
pub struct MurphiArgs {
    /// File with the model, or the name of a built-in one
    #[arg(value_name = "MODEL", default_value = "german")]
    pub model: String,
    /// Size of a built-in model: values of its constants
    #[arg(long, value_enum, default_value = "ci")]
    pub size: InputSize,
    /// Value of a constant, instead of the one in the text
    #[arg(long = "set", value_name = "NAME=NUMBER", value_parser = parse_constant)]
    pub constants: Vec<(String, i64)>,
    /// Kind of state that counts as a deadlock
    #[arg(long, value_enum, default_value = "stuttering")]
    pub deadlock: DeadlockMode,
    /// Extent to which states that differ by a permutation of scalarsets are taken for one
    #[arg(long, value_enum, default_value = "off")]
    pub symmetry: SymmetryMode,
    /// Keep a key of so many bits instead of each state: states can be omitted by chance
    #[arg(long, value_name = "BITS", num_args = 0..=1, default_missing_value = "64",
          value_parser = clap::value_parser!(u32).range(8..=64))]
    pub compact: Option<u32>,
    /// Largest probability that a state was omitted with which "no error" still ends well
    #[arg(long, value_name = "P", default_value = "0.000001")]
    pub max_omission: f64,
    /// Memory of all ranks of a node for states: 256M, 4G; else three quarters of what is free
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// End when there are more states
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub max_states: u64,
    /// Seconds between lines of progress; 0: none
    #[arg(long, value_name = "S", default_value = "10")]
    pub progress: u64,
    /// Order in which states are expanded
    #[arg(long, value_enum, default_value = "levels")]
    pub order: SearchOrder,
    /// Compile the model to machine code, by `cc`, where there is one
    #[arg(long)]
    pub compiled: bool,
    /// Folder for what memory has no room for: the search goes on there, slower
    #[arg(long, value_name = "DIR")]
    pub spill: Option<PathBuf>,
    /// Keep no parents of states with --compact: less memory, and no path to an error
    #[arg(long, requires = "compact")]
    pub no_trace: bool,
    /// Folder for checkpoints, which the ranks write at ends of levels
    #[arg(long, value_name = "DIR")]
    pub checkpoint: Option<PathBuf>,
    /// Seconds between checkpoints, at least; 0: at the end of each level
    #[arg(long, value_name = "S", default_value = "600")]
    pub checkpoint_every: u64,
    /// Go on from the last checkpoint in the folder, on any number of ranks
    #[arg(long, requires = "checkpoint")]
    pub resume: bool,
    /// Search again with the serial version, which interprets the model, and compare the counts;
    /// built-in models of size ci always do
    #[arg(long)]
    pub check: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_constant(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=NUMBER")?;
    let value = value.trim().parse().map_err(|_| format!("'{value}' is no number"))?;
    Ok((name.trim().to_owned(), value))
}

/// A model, ready to be searched.
#[derive(Debug)]
pub struct PreparedModel {
    model: CheckedModel,
    reduction: StateReduction,
    /// Number of the text, the constants, and the options that states depend on.
    number: u64,
    /// Built-in.
    own: bool,
}

/// Reads the model.
///
/// # Errors
/// Fails with an exit code if the model is wrong; what is wrong with it has been printed.
pub fn prepare(args: &MurphiArgs) -> Result<PreparedModel, ExitCode> {
    let wrong = |text: &str| {
        console::err(text);
        ExitCode::from(WRONG_MODEL)
    };
    let own = models::find(&args.model, args.size);
    let is_own = own.is_some();
    let (text, mut constants) = match own {
        Some((text, constants)) => (text.to_owned(), constants),
        None => match text_file::read(Path::new(&args.model), MAX_TEXT as u64) {
            Ok(text) => (text, Vec::new()),
            Err(error) => {
                let known = models::names().join(", ");
                let name = &args.model;
                let text = format!("clump: the model {name} cannot be read: {error}");
                return Err(wrong(&format!("{text}; models without a file: {known}")));
            }
        },
    };
    constants.retain(|(name, _)| args.constants.iter().all(|(given, _)| given != name));
    constants.extend(args.constants.iter().cloned());
    let checked: Result<_, Diagnostic> = read(&text, &constants);
    let model = checked.map_err(|error| wrong(&error.show(&args.model, &text)))?;
    let reduction = StateReduction::new(&model, args.symmetry)
        .map_err(|why| wrong(&format!("{}: {why}", args.model)))?;
    if args.checkpoint.is_some() && args.order == SearchOrder::Asynchronous {
        return Err(wrong("clump: checkpoints are written at ends of levels: use --order levels"));
    }
    let all = format!("{text}\0{constants:?}\0{:?}\0{:?}", args.symmetry, args.compact);
    let number = fingerprint(&all.bytes().map(u64::from).collect::<Vec<_>>());
    Ok(PreparedModel { model, reduction, number, own: is_own })
}

/// Searches the states of a model on all ranks of the job that this process belongs to.
///
/// # Errors
/// Fails if this rank cannot join the job, or if a rank is lost.
pub fn run(args: &MurphiArgs, prepared: PreparedModel) -> Result<ExitCode> {
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let node_of: Vec<usize> = (0..cl.nranks()).filter_map(|rank| cl.node_of(rank)).collect();
    let memory = memory_of_rank(args, &cl, &node_of)?;
    let mut run = AppRun::begin(&gas, "murphi", args.size, node_of.clone());
    let PreparedModel { model, reduction, number, own } = prepared;
    let model = Rc::new(model);
    let packing = StatePacking::of(&model);
    let has_symmetry = args.symmetry != SymmetryMode::Off;
    let mut engine = StepEngine::new(model.clone(), has_symmetry);
    if args.compiled {
        let steps = run.phase("compiling", || compile(&cl, &node_of, &mut engine, &packing))?;
        run.report().choice("steps by", steps);
    }
    let bounds = StoreBounds {
        words: packing.words(),
        compact: args.compact,
        max_bytes: memory,
        spill: args.spill.clone(),
        traces: !args.no_trace,
    };
    let store = StateStore::new(bounds).context("the folder of --spill")?;
    let exchange = Rc::new(StateExchange::open(&gas, store, packing.words(), run.traffic())?);
    let (bits, deadlock) = (packing.bits(), args.deadlock);
    let (progress, max_states, order) = (args.progress, args.max_states, args.order);
    let bounds = SearchBounds { deadlock, progress, max_states, order };
    let mut search = ModelSearch::new(&cl, engine, (packing, reduction), exchange, bounds);
    if let Some(folder) = &args.checkpoint {
        let checkpoints = Checkpoints::new(folder, args.checkpoint_every, number, args.resume)?;
        search.checkpoints = Some(checkpoints);
    }
    cl.barrier()?;
    let result = run.phase("search", || search.run())?;
    describe(&mut run, args, (bits, &result));
    run.report_traffic(&search.exchange.traffic())?;
    let check = args.check || (own && args.size == InputSize::Ci);
    let small = result.states.saturating_mul(u64::from(model.cells)) <= MAX_SERIAL_CELLS;
    let bounds = verdict::VerdictBounds {
        compact: args.compact,
        max_omission: args.max_omission,
        check: check && small,
    };
    let ending = verdict::reach(&mut run, &mut search, &result, &bounds)?;
    run.report().verify(ending == verdict::SearchEnding::NoError);
    let code = ending.code();
    let finished = run.finish(args.json)?;
    Ok(if code == 0 { finished } else { ExitCode::from(code) })
}

/// Has the first rank of each node compile the model. Returns what steps are made by. Collective.
fn compile(
    cl: &Clump,
    node_of: &[usize],
    engine: &mut StepEngine,
    packing: &StatePacking,
) -> Result<String> {
    let node = node_of.get(cl.rank());
    let first = node_of.iter().position(|it| Some(it) == node).unwrap_or(0);
    let model = engine.model.clone();
    let (mut folder, mut made) = (None, Ok(()));
    if first == cl.rank() {
        made = LibraryFolder::new().and_then(|new| {
            let compiled = new.compile(&model, packing);
            folder = Some(new);
            compiled
        });
    }
    let name = |folder: &LibraryFolder| folder.number();
    let mine = if made.is_ok() { folder.as_ref().map_or([0; 2], name) } else { [0; 2] };
    let all = cl.all_gather(mine)?;
    let number = all.get(first).copied().unwrap_or_default();
    let loaded = match number {
        [0, _] => made.and(Err(anyhow!("another rank has not compiled it"))),
        number => CompiledModel::load(&LibraryFolder::library(number), &model, packing),
    };
    // The library is mapped, and its file not needed any more.
    cl.barrier()?;
    Ok(match loaded {
        Ok(compiled) => {
            engine.use_compiled(compiled);
            "machine code".into()
        }
        Err(why) => {
            console::err(&format!("clump: rank {} runs byte code: {why:#}", cl.rank()));
            "byte code".into()
        }
    })
}

/// Returns the bytes that each rank has for states: the least of all ranks' shares. Nodes can be on
/// one machine, whose free memory all of them share.
fn memory_of_rank(args: &MurphiArgs, cl: &Clump, node_of: &[usize]) -> Result<u64> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot: Vec<u64> = boot.into_iter().map(u64::from).collect();
    let machines = cl.all_gather(fingerprint(&boot))?;
    let mine = match args.memory {
        Some(bytes) => {
            let here = node_of.get(cl.rank());
            bytes / node_of.iter().filter(|node| Some(*node) == here).count().max(1) as u64
        }
        None => {
            let here = machines.get(cl.rank());
            let beside = machines.iter().filter(|machine| Some(*machine) == here).count();
            available::memory_bytes().map_or(1 << 30, |free| free / 4 * 3) / beside.max(1) as u64
        }
    };
    let least = cl.all_gather(mine)?.into_iter().min();
    least.ok_or_else(|| anyhow!("a job without ranks"))
}

/// Adds to the report what was searched and how much was found.
fn describe(run: &mut AppRun, args: &MurphiArgs, (bits, result): (u64, &SearchResult)) {
    let seconds = run.seconds().max(1e-9);
    let report = run.report();
    report.choice("model", args.model.clone());
    report.choice("deadlock", args.deadlock.name());
    report.choice("symmetry", args.symmetry.name());
    let kept = args.compact.map_or("whole".to_owned(), |bits| format!("{bits}-bit keys"));
    report.choice("states kept", kept);
    report.choice("order", args.order.name());
    report.count("states", result.states);
    report.count("rules fired", result.fired);
    if args.order == SearchOrder::Levels {
        report.count("depth", result.depth);
        report.count("widest level", result.widest);
    }
    report.count("bits of a state", bits);
    report.count("bytes for states", result.bytes);
    if args.spill.is_some() {
        report.count("bytes on disk", result.disk_bytes);
    }
    if args.compact.is_some() {
        let bytes = result.key_bytes as f64 / result.states.max(1) as f64;
        report.figure("bytes of a state's key", bytes);
    }
    report.figure("thousand states a second", result.states as f64 / seconds / 1e3);
}
