//! Tiers of checks, by the time and occasion to run them.

use anyhow::{Error, bail};
use std::str::FromStr;

/// The occasion for a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// During editing: less than a minute on a tree that is built.
    Edit,
    /// Before a change is merged: what `.ci/run` calls.
    Merge,
    /// Once a night: everything, as long as it takes.
    Night,
}

/// Every tier.
pub const ALL: &[Tier] = &[Tier::Edit, Tier::Merge, Tier::Night];
/// The merge tier and above.
pub const FROM_MERGE: &[Tier] = &[Tier::Merge, Tier::Night];

impl Tier {
    /// Returns its name, on the command line and for tests.
    pub fn name(self) -> &'static str {
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

/// Formats names of tiers, for a list.
pub fn shown(tiers: &[Tier]) -> String {
    tiers.iter().map(|tier| tier.name()).collect::<Vec<_>>().join(",")
}
