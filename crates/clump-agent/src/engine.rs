//! Agents of ranks that an engine has started: the program that the lowest rank of a machine runs.
//!
//! It first leaves its starter, so that a program never finds a child that it has not started. Then
//! it is launcher of a job whose agent adopts ranks (`agent/adopting.rs`) instead of starting them.

use crate::display::Display;
use crate::launch;
use crate::spec::{Bind, EngineStart, JobSpec, Machine, RemoteStart};
use anyhow::Context;
use clump_engines::{EngineJob, EngineNode};
use clump_os::process::{self, Program};
use clump_os::{limit, socket, topology};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};

/// The hidden subcommand.
const COMMAND: &str = "engine";
/// The option of the process that has left its starter.
const DETACHED: &str = "--detached";
/// Longest description of a job.
const MAX_BYTES: u64 = 64 << 20;

/// Runs the job that is described on descriptor `control`. Returns the exit code.
///
/// # Errors
/// The job cannot be started.
pub fn engine_main(control: RawFd, detached: bool) -> anyhow::Result<u8> {
    let there = socket::inherited(control);
    let there = there.context("`clump engine` is started by programs of engines only")?;
    if !detached {
        let own = crate::keeper::own_path();
        let number = there.as_raw_fd().to_string();
        let words = [COMMAND, "--control", &number, DETACHED].map(OsString::from);
        let mut program = Program::new(own, words);
        program.passes = Some(there);
        process::start(&program)?;
        return Ok(0);
    }
    limit::check()?;
    let mut text = Vec::new();
    // It stays open: the rank learns by its end that there is no launcher any more.
    let there = File::from(there);
    (&there).take(MAX_BYTES).read_to_end(&mut text)?;
    if text.is_empty() {
        return Ok(0); // the rank ended before it could say anything
    }
    let job: EngineJob = serde_json::from_slice(&text).context("no job is described")?;
    // The engine may have bound the rank to a core; the agent is for all of them.
    let _ = topology::set_affinity(&job.cpus);
    let outcome = launch::launch(&spec_of(job), &Display::default())?;
    Ok(outcome.code)
}

fn spec_of(job: EngineJob) -> JobSpec {
    let ranks = job.ranks();
    let mut spec = JobSpec::new(job.program, Vec::new(), ranks);
    spec.nodes = u32::try_from(job.nodes.len()).unwrap_or(u32::MAX);
    if !job.is_virtual {
        let machine = |node: &EngineNode| Machine { name: node.host.clone(), ranks: node.ranks };
        spec.machines = job.nodes.iter().map(machine).collect();
        if let Some(allocation) = job.allocation {
            spec.remote.shell = RemoteStart::by_slurm(allocation);
        }
    }
    let listeners = job.nodes.into_iter().map(|node| node.listener).collect();
    // Engines bind ranks as their users ask them to.
    spec.bind = Bind::None;
    spec.engine = Some(EngineStart { name: job.engine, listeners });
    spec
}
