//! What a send and a receive consist of (paper 000, 4.3 and figure 4).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Instruction counts of hot paths that were stored with the source tree, or an empty object.
const STORED: &str = include_str!(concat!(env!("OUT_DIR"), "/icount.json"));

pub mod net;
mod pieces;

pub use pieces::measure;

/// One part of a send or a receive.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// What is done; the last of a side is the whole.
    pub name: &'static str,
    /// Nanoseconds, alone in a loop with everything in the first-level cache; `None` where the part
    /// cannot be run by itself.
    pub ns: Option<f64>,
    /// Instructions of one execution; `None` where they were not counted.
    pub instructions: Option<f64>,
}

/// Both sides of a short message.
#[derive(Debug, Clone, Serialize)]
pub struct Breakdown {
    /// Parts of a send, in order.
    pub send: Vec<Step>,
    /// Parts of a receive, in order.
    pub receive: Vec<Step>,
    /// Where the instruction counts come from, or why there are none.
    pub note: String,
}

impl Breakdown {
    /// For tests and for machines on which nothing could be timed.
    pub fn unknown() -> Self {
        Self { send: Vec::new(), receive: Vec::new(), note: Counts::stored().note() }
    }
}

/// Instruction counts by path (`cargo xtask icount`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Counts {
    compiler: String,
    instructions: BTreeMap<String, f64>,
}

impl Counts {
    /// Those that this program was built with; empty where the tree held none.
    pub fn stored() -> Self {
        serde_json::from_str(STORED).unwrap_or_default()
    }

    /// Instructions of `icount_<path>`.
    pub fn of(&self, path: &str) -> Option<f64> {
        self.instructions.get(&format!("icount_{path}")).copied()
    }

    /// Where they come from, as a line under the table.
    pub fn note(&self) -> String {
        if self.instructions.is_empty() {
            return "instructions: not counted in this build (`cargo xtask icount --update` counts them)"
                .into();
        }
        format!("instructions: callgrind, optimized build by {}", self.compiler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_path_and_their_absence_is_said() {
        let counts: Counts = serde_json::from_str(
            r#"{"compiler": "rustc 1.95.0", "instructions": {"icount_lane_push": 31.5}}"#,
        )
        .unwrap();
        assert_eq!((counts.of("lane_push"), counts.of("lane_pop")), (Some(31.5), None));
        assert!(counts.note().contains("rustc 1.95.0"));
        let none: Counts = serde_json::from_str("{}").unwrap();
        assert!(none.note().contains("not counted"));
        // Whatever the tree held when this was built can be read.
        assert!(!Counts::stored().note().is_empty());
    }
}
