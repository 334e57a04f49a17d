//! The messages in which shared virtual memory sends diffs, as users choose them.

use serde::{Deserialize, Serialize};

/// A choice of what shares a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SvmDiffs {
    /// One message for each run of changed bytes (direct diffs of paper 003, section 2).
    Runs,
    /// One message for each page.
    Pages,
    /// One message for all pages of a home.
    #[default]
    Home,
}

impl SvmDiffs {
    /// All, by number.
    pub const ALL: [Self; 3] = [Self::Runs, Self::Pages, Self::Home];
    /// Their names.
    pub const NAMES: [&str; 3] = ["runs", "pages", "home"];
}
