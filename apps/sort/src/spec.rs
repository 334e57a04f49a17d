//! The parameters of a sort.

use std::path::PathBuf;

/// The parameters of a sort.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Files of records, taken as one sequence.
    pub inputs: Vec<PathBuf>,
    /// Folder of the output.
    pub output: PathBuf,
    /// Folder of the runs; the output's if not given.
    pub scratch: Option<PathBuf>,
    /// Number of records that are made as the input, in place of files.
    pub made: Option<u64>,
    /// Memory of all ranks together, in bytes.
    pub memory: u64,
    /// True if the ranks may have more memory where they cannot sort in that much.
    pub memory_grows: bool,
    /// True if an older output is replaced.
    pub force: bool,
    /// True if runs are written even if everything fits in memory.
    pub two_pass: bool,
    /// True if transfers bypass the page cache, if the file system can.
    pub direct: bool,
    /// True if the bare disk is measured afterwards.
    pub measure_disk: bool,
}
