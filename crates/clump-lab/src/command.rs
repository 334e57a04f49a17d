//! The commands of the laboratory: options, jobs, printing. What they measure is in the other
//! modules of this crate, which know no command line.

pub mod applications;
pub mod calibrate;
pub mod collectives;
pub mod compare;
pub mod costs;
pub mod flood;
pub mod logp;
pub mod loss;
pub mod path;
pub mod predict;
mod recording;
pub mod report;
pub mod steps;
pub mod study;
pub mod sweep;
pub mod trace;
pub mod urgent;
pub mod verify;

use anyhow::Result;

/// The commands of the laboratory, for `clump lab` to mount.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Command {
    /// LogP signature and table of shared memory and of the network, beside the bare machine
    Logp(logp::LogpArgs),
    /// Parameters of this machine's paths, saved for knobs that are set beside them
    Calibrate(calibrate::CalibrateArgs),
    /// Independence of the knobs: each turned alone, all parameters measured
    Verify(verify::VerifyArgs),
    /// Costs of the instruments in messages without measurement: knobs off, counters, traces
    Costs(costs::CostsArgs),
    /// Slowdown of any program at many settings of the knobs
    Sweep(sweep::SweepArgs),
    /// Tables and figures of programs: communication, balance, slowdowns beside the models'
    Report(report::ReportArgs),
    /// Paper 001 on this machine: calibration, sweeps of its applications, report
    Study(study::StudyArgs),
    /// Times, messages and longest waits of a traced job; its events for Perfetto
    Trace(trace::TraceArgs),
    /// A traced run played again on slower networks
    Predict(predict::PredictArgs),
    /// Steps of a send and of a receive, with their costs
    Steps(steps::StepsArgs),
    /// Comparison of clump with the installed peers (UCX, MPI, libfabric, iperf3)
    Compare(compare::CompareArgs),
    /// Comparison of applications with the same work in MPI: sorts of keys, and FFTW's transform
    Applications(applications::ApplicationsArgs),
    /// Times of the collectives by size, their algorithms, and the installed MPIs beside them
    Collectives(collectives::CollectivesArgs),
    /// Cost of lost packets and of many senders at once between nodes
    Loss(loss::LossArgs),
    /// A path between nodes that has a length, a rate and a queue: any command on it, or clump
    /// beside TCP
    Path(Box<path::PathArgs>),
    /// Loss of throughput of a job between nodes under an attacker's flood of packets
    Flood(flood::FloodArgs),
    /// Cost of small messages and locks between nodes during bulk transfers
    Urgent(urgent::UrgentArgs),
}

/// Runs a command. Returns the exit code for the program.
///
/// # Errors
/// Fails as the command does.
pub fn main(command: &Command) -> Result<u8> {
    match command {
        Command::Logp(args) => logp::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Costs(args) => costs::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Report(args) => report::run(args),
        Command::Study(args) => study::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Steps(args) => steps::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Applications(args) => applications::run(args),
        Command::Collectives(args) => collectives::run(args),
        Command::Loss(args) => loss::run(args),
        Command::Path(args) => path::run(args),
        Command::Flood(args) => flood::run(args),
        Command::Urgent(args) => urgent::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::Command;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    /// Returns the command of a line that begins with `lab`.
    pub(super) fn parse(words: &[&str]) -> Command {
        try_parse(words).unwrap()
    }

    /// Returns the command of a line, or the error that the user is shown.
    pub(super) fn try_parse(words: &[&str]) -> Result<Command, clap::Error> {
        Line::try_parse_from(words).map(|line| line.command)
    }
}
