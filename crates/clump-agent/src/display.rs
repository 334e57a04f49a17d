//! How the launcher shows a job.

use std::path::PathBuf;

/// What the user wants to see, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Display {
    /// Put `[rank] ` in front of every line.
    pub label: bool,
    /// Write what ranks write into files of this folder instead, one per rank and stream.
    pub folder: Option<PathBuf>,
    /// Ranks say themselves what is wrong: explain their end only when one was killed.
    pub brief: bool,
    /// Print the outcome as JSON, as the last line of standard output.
    pub json: bool,
    /// Print the communication summary at the end.
    pub stats: bool,
}
