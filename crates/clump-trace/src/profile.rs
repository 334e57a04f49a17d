//! The profile of a run: the record of a program's communication, in a file that the laboratory
//! reads.

use crate::histogram::Histogram;
use crate::line_state::LineTimes;
use crate::monitor::Monitor;
use crate::snapshot::Snapshot;
use crate::summary::Summary;
use crate::text::grouped;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the file.
pub const FORMAT: u32 = 1;
/// Most pairs of ranks in a profile. A job with more has none: at 1,024 ranks that all talk to each
/// other there are a million.
pub const MAX_PAIRS: usize = 1 << 20;
/// Most ranks whose matrix is printed in columns.
const MAX_PRINTED: usize = 10;

/// Messages of a rank to another, and their payload bytes, by size. In JSON an array: sender,
/// receiver, then messages and bytes of short, medium and long ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "[u64; 8]", into = "[u64; 8]")]
pub struct PairTraffic {
    /// The sender; a number beyond the last rank is that of a node's network interface, which
    /// executes one-sided operations and answers them.
    pub from: u32,
    /// The receiver, a rank or an interface.
    pub to: u32,
    /// Short messages, and bytes of their words.
    pub short: [u64; 2],
    /// Medium messages, and bytes of their payloads.
    pub medium: [u64; 2],
    /// Long messages, and bytes of their payloads.
    pub long: [u64; 2],
}

impl From<[u64; 8]> for PairTraffic {
    fn from([from, to, a, b, c, d, e, f]: [u64; 8]) -> Self {
        let rank = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self { from: rank(from), to: rank(to), short: [a, b], medium: [c, d], long: [e, f] }
    }
}

impl From<PairTraffic> for [u64; 8] {
    fn from(pair: PairTraffic) -> Self {
        let PairTraffic { from, to, short: [a, b], medium: [c, d], long: [e, f] } = pair;
        [from.into(), to.into(), a, b, c, d, e, f]
    }
}

impl PairTraffic {
    /// Returns the messages of every size.
    pub fn messages(&self) -> u64 {
        self.short[0].saturating_add(self.medium[0]).saturating_add(self.long[0])
    }

    /// Returns the payload bytes of every size.
    pub fn bytes(&self) -> u64 {
        self.short[1].saturating_add(self.medium[1]).saturating_add(self.long[1])
    }
}

/// Times between two sends and two barriers of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Intervals {
    /// Between two messages that one of its endpoints sent, of a sample of them.
    pub sends: Histogram,
    /// Between two barriers, of all.
    pub barriers: Histogram,
}

impl Intervals {
    /// Returns those of several ranks together.
    pub fn sum(all: &[Self]) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.sends.add(&one.sends);
            sum.barriers.add(&one.barriers);
        }
        sum
    }
}

/// The profile of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`FORMAT`].
    pub clump_profile: u32,
    /// The program and its arguments.
    pub program: String,
    /// The node of each rank.
    pub node_of: Vec<u32>,
    /// From starting the first rank to the end of the last, in ms.
    pub wall_ms: f64,
    /// Round trips between the launcher's processors before and after; `None` unless ranks run on
    /// its machine alone, and its user has asked for a profile or a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineTimes>,
    /// The communication of all ranks.
    pub summary: Summary,
    /// Counters of each rank.
    pub counters: Vec<Snapshot>,
    /// Times between sends and barriers, of each rank.
    pub intervals: Vec<Intervals>,
    /// Traffic of each pair of ranks that had any, ascending by sender and receiver; `None` where
    /// more than [`MAX_PAIRS`] had.
    pub matrix: Option<Vec<PairTraffic>>,
    /// Monitors of the network interfaces of all nodes; none in files of older builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Monitor>,
    /// Monitors of the stacks that ranks drive themselves; none in files of older builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Monitor>,
}

impl Profile {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.counters.len()
    }

    /// Returns a profile that was read from a file, if this build understands it.
    ///
    /// # Errors
    /// It has another version, or its parts do not fit together.
    pub fn checked(self) -> Result<Self, String> {
        let profile = self;
        if profile.clump_profile != FORMAT {
            let found = profile.clump_profile;
            return Err(format!("it has version {found}, this build reads version {FORMAT}"));
        }
        let ranks = profile.ranks();
        if ranks == 0 || profile.node_of.len() != ranks || profile.intervals.len() != ranks {
            return Err("its lists are not of one length".into());
        }
        let (mut pairs, senders) =
            (profile.matrix.iter().flatten(), ranks + profile.interfaces.len());
        if pairs.any(|pair| pair.from as usize >= senders) {
            return Err("its matrix names senders that are no ranks".into());
        }
        Ok(profile)
    }

    /// Returns the messages of the pair that exchanged most.
    pub fn most_messages(&self) -> u64 {
        self.matrix.iter().flatten().map(PairTraffic::messages).max().unwrap_or(0)
    }
}

impl fmt::Display for Profile {
    /// Writes the matrix of messages, and the times between sends and barriers, within 100 columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks = self.ranks();
        if let Some(matrix) = self.matrix.as_ref().filter(|all| !all.is_empty()) {
            let inside = matrix.iter().filter(|pair| (pair.from.max(pair.to) as usize) < ranks);
            if ranks <= MAX_PRINTED {
                writeln!(f, "messages, sender down, receiver across:")?;
                let head: String = (0..ranks).map(|rank| format!("{rank:>9}")).collect();
                writeln!(f, "  {:<4}{head}", "")?;
                let mut rows = vec![vec![0; ranks]; ranks];
                inside.for_each(|p| rows[p.from as usize][p.to as usize] = p.messages());
                for (rank, row) in rows.iter().enumerate() {
                    let cells: String = row.iter().map(|n| format!("{n:>9}")).collect();
                    writeln!(f, "  {rank:<4}{cells}")?;
                }
            } else {
                let (pairs, most) = (inside.count(), self.most_messages());
                let (pairs, most) = (grouped(pairs as u64), grouped(most));
                writeln!(
                    f,
                    "pairs of ranks that talked: {pairs}; messages of the busiest: {most}"
                )?;
            }
        }
        let all = Intervals::sum(&self.intervals);
        for (what, times) in [("sends", &all.sends), ("barriers", &all.barriers)] {
            let quantile = |share| times.quantile_ns(share).map(shown);
            if let (Some(half), Some(most)) = (quantile(0.5), quantile(0.9)) {
                let number = grouped(times.total());
                writeln!(
                    f,
                    "between {what}: half below {half}, nine in ten below {most} (of {number})"
                )?;
            }
        }
        self.lines.iter().try_for_each(|lines| writeln!(f, "{}", lines.note()))
    }
}

/// Formats a time with a unit.
fn shown(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{} us", ns / 1000),
        _ => format!("{} ms", ns / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let counters = vec![Snapshot::ZERO; 2];
        let pair = |from, to, n| PairTraffic { from, to, short: [n, 8 * n], ..Default::default() };
        Profile {
            clump_profile: FORMAT,
            program: "p".into(),
            node_of: vec![0, 0],
            wall_ms: 1.0,
            lines: None,
            summary: Summary::of(&counters, &[], 1_000_000),
            counters,
            intervals: vec![Intervals::default(); 2],
            matrix: Some(vec![pair(0, 1, 7), pair(1, 0, 5), pair(1, 2, 3)]),
            interfaces: Vec::new(),
            stacks: Vec::new(),
        }
    }

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let profile = profile();
        let text = serde_json::to_string(&profile).unwrap();
        assert!(text.contains("[0,1,7,56,0,0,0,0]"), "{text}");
        let again: Profile = serde_json::from_str(&text).unwrap();
        assert_eq!(again.checked().unwrap(), profile);
        assert!(!text.contains("interfaces"), "files without monitors stay as they were: {text}");
        let shown = profile.to_string();
        assert!(shown.contains("  0           0        7\n  1           5        0\n"), "{shown}");
        assert!(!text.contains("lines") && !shown.contains("processors"), "{text}: {shown}");
    }

    #[test]
    fn a_profile_has_the_distance_of_the_processors() {
        let lines = Some(LineTimes { before_ns: 95.0, after_ns: 480.0 });
        let profile = Profile { lines, ..profile() };
        let text = serde_json::to_string(&profile).unwrap();
        assert!(text.contains(r#""lines":{"before_ns":95.0,"after_ns":480.0}"#), "{text}");
        let again: Profile = serde_json::from_str(&text).unwrap();
        assert_eq!(again.lines, lines);
        let shown = profile.to_string();
        assert!(shown.contains("95 ns before, 480 ns after: the machine changed"), "{shown}");
    }

    #[test]
    fn files_of_other_programs_are_refused_in_words() {
        let with = |change: fn(&mut Profile)| {
            let mut profile = profile();
            change(&mut profile);
            profile.checked().unwrap_err()
        };
        assert!(with(|p| p.clump_profile = 9).contains("version 9"));
        assert!(with(|p| p.node_of.clear()).contains("one length"));
        assert!(with(|p| p.matrix.as_mut().unwrap()[0].from = 2).contains("no ranks"));
    }
}
