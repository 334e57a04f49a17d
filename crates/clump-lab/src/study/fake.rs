//! Profiles for tests.

use clump_trace::profile::FORMAT;
use clump_trace::{Intervals, Profile, Snapshot, Summary};

/// Returns a profile of ranks with these counters, each on a node of its own, of 1 s.
pub(crate) fn profile(counters: Vec<Snapshot>) -> Profile {
    let ranks = counters.len();
    Profile {
        clump_profile: FORMAT,
        program: "program".into(),
        node_of: (0..ranks as u32).collect(),
        wall_ms: 1e3,
        lines: None,
        summary: Summary::of(&counters, &[], 1_000_000_000),
        counters,
        intervals: vec![Intervals::default(); ranks],
        matrix: Some(Vec::new()),
        interfaces: Vec::new(),
        stacks: Vec::new(),
    }
}
