//! The answer of a home that is behind, as users of shared virtual memory choose it.

use serde::{Deserialize, Serialize};

/// A choice of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SvmFetch {
    /// As the step of the protocol ladder has it.
    #[default]
    Auto,
    /// The home answers once it has what is asked for.
    Wait,
    /// The home answers at once, and the requester asks again.
    Retry,
}

impl SvmFetch {
    /// All, by number.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Wait, Self::Retry];
    /// Their names.
    pub const NAMES: [&str; 3] = ["auto", "wait", "retry"];
}
