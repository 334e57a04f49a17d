//! The memory that programs for pthreads share between nodes, as users choose it.

use serde::{Deserialize, Serialize};

/// A choice of shared memory: each has what is before it, too. Stacks are never shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SvmShare {
    /// The heap that programs ask clump for.
    Heap,
    /// Global and static variables of the program.
    Globals,
    /// Allocations of the program by `malloc` and its kin.
    #[default]
    Malloc,
}

impl SvmShare {
    /// All, by number.
    pub const ALL: [Self; 3] = [Self::Heap, Self::Globals, Self::Malloc];
    /// Their names.
    pub const NAMES: [&str; 3] = ["heap", "globals", "malloc"];

    /// Returns its name as users write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
