//! The launcher's display options.

use std::path::PathBuf;

/// Display options of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Display {
    /// Put `[rank] ` in front of every line.
    pub label: bool,
    /// Write what ranks write into files of this folder instead, one per rank and stream.
    pub folder: Option<PathBuf>,
    /// Explain the end only when a rank was killed: ranks report their own errors.
    pub brief: bool,
    /// Print the outcome as JSON, as the last line of standard output.
    pub json: bool,
    /// Print the communication summary at the end.
    pub stats: bool,
    /// Write the profile into this file.
    pub profile: Option<PathBuf>,
}
