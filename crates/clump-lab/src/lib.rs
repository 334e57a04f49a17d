//! The LogGP performance laboratory: what a machine's messages cost, and what others reach on it.
//!
//! Top layer, below the command line only: `clump lab` hands a [`Command`] to [`main`]. The commands
//! start this program again as a job (`clump run`), measure through the same interface that any
//! program uses, and estimate with `clump-loggp`.
//!
//! Types to know: [`pair::Pair`] (two ranks as the measurements see them), [`plan::Plan`] (what to
//! measure), [`report::Report`] (what came out), [`contrast::Contrast`] (ours beside a baseline).
//!
//! # Invariants
//! 1. Every claim about speed is a ratio to something measured in turn with it, in slices of at most
//!    100 ms, as a median of at least 21 slices; the report says where the ranks sat.
//! 2. Measurements are written against [`pair::Pair`]; a machine with known parameters and a virtual
//!    clock tests them.
//! 3. Other programs run one at a time, within a time limit, and do not outlive the command.
#![forbid(unsafe_code)]

pub mod bare;
pub mod baseline;
pub mod columns;
pub mod compare;
pub mod contrast;
pub mod enemy;
pub mod goals;
pub mod launch;
pub mod logp;
pub mod logp_command;
pub mod loss;
pub mod measure;
pub mod pair;
pub mod plan;
pub mod plot;
pub mod report;
pub mod steps;
pub mod steps_command;
pub mod svg;
pub mod text;
pub mod urgent;
pub mod wire;

/// The commands of the laboratory, for `clump lab` to mount.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Command {
    /// LogP signature and table of shared memory and of the network, beside what is bare
    Logp(logp_command::Args),
    /// What a send and a receive consist of, step by step
    Steps(steps_command::Args),
    /// The same games on clump and on the peers that are installed (UCX, MPI, libfabric, iperf3)
    Compare(compare::Args),
    /// What lost packets and many senders at once cost between nodes
    Loss(loss::command::Args),
    /// What a job between nodes loses to somebody who sends it packets of his own
    Enemy(enemy::command::Args),
    /// What small messages and locks cost between nodes while bulk goes too
    Urgent(urgent::command::Args),
}

/// A number on the command line that is not 0: as of turns, for none measure nothing.
fn some() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..)
}

/// Runs a command; the exit code for the program.
pub fn main(command: &Command) -> anyhow::Result<u8> {
    match command {
        Command::Logp(args) => logp_command::run(args),
        Command::Steps(args) => steps_command::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Loss(args) => loss::command::run(args),
        Command::Enemy(args) => enemy::command::run(args),
        Command::Urgent(args) => urgent::command::run(args),
    }
}
