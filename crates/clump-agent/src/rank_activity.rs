//! The activity of a rank, in words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The activity of a rank when a death, or the user, ended the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankActivity {
    /// The rank.
    pub rank: u32,
    /// In words, as follows "was ": `in barrier 3, for rank 2 to arrive`, `computing`, `stopped`.
    pub what: String,
    /// Duration in ms; zero when unknown.
    pub for_ms: u64,
}
