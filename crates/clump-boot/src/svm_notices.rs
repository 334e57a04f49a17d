//! The way of write notices of shared virtual memory, as users choose it.

use serde::{Deserialize, Serialize};

/// A choice of who sends notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SvmNotices {
    /// As the step of the protocol ladder has it.
    #[default]
    Auto,
    /// Releases send them to all nodes.
    Push,
    /// Acquires ask for them.
    Pull,
}

impl SvmNotices {
    /// All, by number.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Push, Self::Pull];
    /// Their names.
    pub const NAMES: [&str; 3] = ["auto", "push", "pull"];
}
