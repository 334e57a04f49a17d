//! The guarantee of shared virtual memory for data published without a lock, as users choose it.

use serde::{Deserialize, Serialize};

/// A choice of consistency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SvmConsistency {
    /// None: data is published by locks, barriers and flags.
    Plain,
    /// A rank that faults on a page sees what its writers had seen.
    #[default]
    Fetch,
}

impl SvmConsistency {
    /// All, by number.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Fetch];
    /// Their names.
    pub const NAMES: [&str; 2] = ["plain", "fetch"];
}
