//! The command line.

use crate::{app, demo, doctor, run, schema, stats, top};
use clap::{Args, Parser, Subcommand};
use clump_agent::AgentPlace;
use std::process::ExitCode;

/// Active messages on clusters of ordinary machines: start jobs, watch them, run what is built in.
#[derive(Debug, Parser)]
#[command(name = "clump", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Examples:\n  \
    clump run -n 4 ./program      four ranks of a program\n  \
    clump demo                    a sort from records to a checked result\n  \
    clump app                     the built-in applications\n  \
    clump doctor                  what this machine offers, and what is missing\n\n\
    Exit codes: that of the first failing rank (128 + signal), 2 for a wrong command line, 125 when \
    clump itself fails, 126 and 127 when the program cannot be started or does not exist.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a program on several ranks and watch over them
    Run(run::RunArgs),
    /// List or run the built-in applications
    App(app::AppArgs),
    /// Measure what messages cost here, and compare with other systems
    #[command(after_help = "Example:\n  clump lab logp --quick")]
    Lab(LabArgs),
    /// Print the counters of a running job
    Stats(stats::StatsArgs),
    /// Show how a running job communicates now
    Top(top::TopArgs),
    /// Say what this machine offers, what is missing, and how to get it
    #[command(
        after_help = "Example:\n  clump doctor --json | jq '.findings[] | select(.verdict != \"ok\")'"
    )]
    Doctor(doctor::DoctorArgs),
    /// Describe what commands print with --json, as JSON Schema
    Schema(schema::SchemaArgs),
    /// Make records, sort them on several ranks, check the result, measure messages
    Demo(demo::DemoArgs),
    /// The process that watches the ranks of a node; `clump run` starts it
    #[command(hide = true)]
    Agent(AgentArgs),
    /// The launcher of ranks that an engine has started; the lowest of a machine starts it
    #[command(hide = true)]
    Engine(EngineArgs),
}

#[derive(Debug, Args)]
struct EngineArgs {
    /// The inherited descriptor on which the job is described
    #[arg(long)]
    control: i32,
    /// No longer a child of the rank
    #[arg(long)]
    detached: bool,
}

#[derive(Debug, Args)]
struct AgentArgs {
    /// The inherited descriptor over which the launcher speaks [default: standard input and output]
    #[arg(long)]
    control: Option<i32>,
    /// Started by the process that cleans up after it
    #[arg(long, conflicts_with = "control")]
    kept: bool,
    /// No agent but a relay, which starts the machine's agent and reaches further machines
    #[arg(long, conflicts_with_all = ["control", "kept"])]
    relay: bool,
    /// In a folder that goes with the job
    #[arg(long, conflicts_with = "control")]
    staged: bool,
}

#[derive(Debug, Args)]
struct LabArgs {
    #[command(subcommand)]
    command: clump_lab::Command,
}

impl Cli {
    /// Executes the command, and returns the code to exit with.
    ///
    /// # Errors
    /// Fails if clump itself could not do something; the end of a job is in the code.
    pub fn act(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::App(args) => app::run(&args),
            Command::Lab(args) => clump_lab::main(&args.command).map(ExitCode::from),
            Command::Stats(args) => stats::run(&args),
            Command::Top(args) => top::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Schema(args) => schema::run(&args),
            Command::Demo(args) => demo::run(&args),
            Command::Engine(args) => {
                clump_agent::engine_main(args.control, args.detached).map(ExitCode::from)
            }
            Command::Agent(args) => {
                let place = match args.control {
                    Some(control) => AgentPlace::Here(control),
                    None if args.kept => AgentPlace::Kept,
                    None if args.relay => AgentPlace::Relay { staged: args.staged },
                    None => AgentPlace::Elsewhere { staged: args.staged },
                };
                Ok(ExitCode::from(clump_agent::agent_main(place)))
            }
        }
    }
}
