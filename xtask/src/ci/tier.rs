//! Tiers of checks: how much is worth waiting for, and when.

use anyhow::{Error, bail};
use std::str::FromStr;

/// When a check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// While one edits: less than a minute on a tree that is built.
    Edit,
    /// Before a change is merged: what `.ci/run` calls.
    Merge,
    /// Once a night: everything, as long as it takes.
    Night,
}

/// Every tier.
pub const ALL: &[Tier] = &[Tier::Edit, Tier::Merge, Tier::Night];
/// From the merge on.
pub const FROM_MERGE: &[Tier] = &[Tier::Merge, Tier::Night];

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Merge => "merge",
            Self::Night => "night",
        }
    }
}

impl FromStr for Tier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match ALL.iter().find(|tier| tier.name() == text) {
            Some(tier) => Ok(*tier),
            None => bail!("`{text}` is no tier; there are edit, merge and night"),
        }
    }
}

/// Names of tiers, for a list.
pub fn shown(tiers: &[Tier]) -> String {
    tiers.iter().map(|tier| tier.name()).collect::<Vec<_>>().join(",")
}
