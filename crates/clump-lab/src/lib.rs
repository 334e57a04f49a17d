//! The LogGP performance laboratory: the cost of messages on a machine, and the figures of other
//! implementations there.
//!
//! Top layer, below the command line only: `clump lab` hands a [`Command`] to [`main`]. The
//! commands start this program again as a job (`clump run`), measure through the same interface
//! that any program uses, and estimate with `clump-loggp`.
//!
//! Types to know: [`pair::Pair`] (two ranks as the measurements see them),
//! [`plan::MeasurementPlan`] (extent of a measurement), [`report::LogpReport`] (its results),
//! [`contrast::Contrast`] (clump beside a baseline).
//!
//! # Invariants
//! 1. Every claim about speed is a ratio to something measured in turn with it, in slices of at
//!    most 100 ms, as a median of at least 21 slices; the report states the placement of the ranks.
//! 2. Measurements are written against [`pair::Pair`]; a machine with known parameters and a
//!    virtual clock tests them.
//! 3. Other programs run one at a time, within a time limit, and do not outlive the command.
#![forbid(unsafe_code)]

pub mod bare;
pub mod baseline;
pub mod columns;
pub mod compare;
pub mod contrast;
pub mod flood;
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
    /// LogP signature and table of shared memory and of the network, beside the bare machine
    Logp(logp_command::LogpArgs),
    /// Steps of a send and of a receive, with their costs
    Steps(steps_command::StepsArgs),
    /// Comparison of clump with the installed peers (UCX, MPI, libfabric, iperf3)
    Compare(compare::CompareArgs),
    /// Cost of lost packets and of many senders at once between nodes
    Loss(loss::command::LossArgs),
    /// Loss of throughput of a job between nodes under an attacker's flood of packets
    Enemy(flood::command::FloodArgs),
    /// Cost of small messages and locks between nodes during bulk transfers
    Urgent(urgent::command::UrgentArgs),
}

/// Returns a parser of numbers other than 0 on the command line: with no turns nothing is measured.
fn some() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..)
}

/// Runs a command. Returns the exit code for the program.
///
/// # Errors
/// Fails as the command does.
pub fn main(command: &Command) -> anyhow::Result<u8> {
    match command {
        Command::Logp(args) => logp_command::run(args),
        Command::Steps(args) => steps_command::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Loss(args) => loss::command::run(args),
        Command::Enemy(args) => flood::command::run(args),
        Command::Urgent(args) => urgent::command::run(args),
    }
}
