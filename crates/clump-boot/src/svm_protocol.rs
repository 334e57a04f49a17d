//! The step of the protocol ladder that shared virtual memory takes, as users choose it.

use serde::{Deserialize, Serialize};

/// A step of the protocol ladder (paper 003, section 2); each has all that is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SvmProtocol {
    /// Requests of other nodes wake a thread of the node.
    Base,
    /// Write notices and barriers are deposited.
    Dw,
    /// Pages and their versions are fetched.
    Rf,
    /// Diffs are stored directly.
    Dd,
    /// Locks are handed over by network interfaces: no thread is woken.
    #[default]
    Nil,
}

impl SvmProtocol {
    /// All, by number.
    pub const ALL: [Self; 5] = [Self::Base, Self::Dw, Self::Rf, Self::Dd, Self::Nil];
    /// Their names.
    pub const NAMES: [&str; 5] = ["base", "dw", "rf", "dd", "nil"];

    /// Returns its name as users write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
