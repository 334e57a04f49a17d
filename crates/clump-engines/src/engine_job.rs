//! The description of an engine's job, for the launcher that its lowest rank starts.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// A job of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineJob {
    /// The engine, in texts.
    pub engine: String,
    /// The program of the lowest rank.
    pub program: OsString,
    /// Processors of this machine that the engine may use, whatever it has bound ranks to.
    pub cpus: Vec<usize>,
    /// The allocation of Slurm that they are in, if they are in one.
    pub allocation: Option<u32>,
    /// True if these are parts of one machine.
    pub is_virtual: bool,
    /// The nodes, in the order of their ranks.
    pub nodes: Vec<EngineNode>,
}

/// A machine of such a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineNode {
    /// Its name.
    pub host: String,
    /// Its ranks.
    pub ranks: u32,
    /// The name under which its agent is to listen.
    pub listener: String,
}

impl EngineJob {
    /// Returns the ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.nodes.iter().map(|node| node.ranks).sum()
    }
}
