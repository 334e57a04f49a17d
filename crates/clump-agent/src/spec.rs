//! What to run, as the launcher tells the agent.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// What happens to the others when a rank dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeath {
    /// The job ends.
    End,
    /// They go on, and get their messages to the dead returned.
    Continue,
}

/// Where ranks may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// Wherever the launcher may.
    None,
    /// Each on a core, in the order in which cores share least.
    Cores,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Program of every rank.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Ranks.
    pub ranks: u32,
    /// Working directory; the agent's own when absent.
    pub directory: Option<OsString>,
    /// Where ranks may run.
    pub bind: Bind,
    /// What a death means for the others.
    pub on_death: OnDeath,
    /// How long ranks may run after others have ended cleanly, in ms; no limit when absent.
    pub linger_ms: Option<u64>,
    /// Whether rank 0 reads what the launcher would read.
    pub input: bool,
    /// Whether rank 0 writes errors straight to where the launcher's go, so that it can draw on a terminal.
    pub direct_errors: bool,
    /// Whether ranks should know that a summary will be printed.
    pub stats: bool,
    /// Whether the launcher's error stream is a terminal.
    pub terminal: bool,
}

impl JobSpec {
    /// `ranks` times `program`, everything else as by default.
    pub fn new(program: impl Into<OsString>, args: Vec<OsString>, ranks: u32) -> Self {
        Self {
            program: program.into(),
            args,
            ranks,
            directory: None,
            bind: Bind::None,
            on_death: OnDeath::End,
            linger_ms: None,
            input: false,
            direct_errors: false,
            stats: false,
            terminal: false,
        }
    }

    /// The program's name without its folders, for reports.
    pub fn program_name(&self) -> String {
        let path = std::path::Path::new(&self.program);
        path.file_name().unwrap_or(&self.program).to_string_lossy().into_owned()
    }
}
