//! Options of all built-in applications but the sort: their ranks.

use crate::job::in_job;
use crate::layout::{self, Layout};
use clap::Args;
use std::process::ExitCode;

/// Ranks of an application, and their layout.
#[derive(Debug, Args)]
pub struct Ranks {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", value_name = "N", default_value = "2",
          value_parser = layout::ranks())]
    ranks: u32,
    #[command(flatten)]
    layout: Layout,
}

impl Ranks {
    /// Starts the ranks, or, in one of them, runs `work`.
    ///
    /// # Errors
    /// Fails if the application does.
    pub fn job(&self, work: impl FnOnce() -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
        in_job(self.ranks, &self.layout, work)
    }
}
