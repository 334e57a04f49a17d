//! Events that agents report to the process that decides about the job, and the commands it
//! returns.
//!
//! On one node the agent itself decides; on several nodes the launcher does, so that all nodes
//! agree.

use crate::death::{DeathManner, ProcessEnd, RankDeath};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Something that happened on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A rank joined.
    Joined(u32),
    /// A rank only waits until other nodes have taken what it sent.
    Leaving(u32),
    /// A rank finalized after this barrier; its process may run on.
    Finalized(u32, u64),
    /// The process of a rank runs another program, though the rank has joined and not finalized.
    Replaced(u32),
    /// The process of a rank ended.
    Ended {
        /// The rank.
        rank: u32,
        /// The manner of its end.
        end: ProcessEnd,
        /// The state in its block at that time.
        standing: RankStatus,
    },
    /// A signal stopped the process of a rank.
    Stopped(u32),
    /// A signal continued the process of a rank.
    Continued(u32),
    /// The agent received this signal: the job is to end.
    Interrupted(u8),
    /// Nothing has been heard of this node for too long.
    Silent(u32),
    /// This node, which was silent, is heard again.
    Heard(u32),
}

impl Event {
    /// Returns the rank that this is about.
    pub fn rank(self) -> Option<u32> {
        match self {
            Event::Joined(rank)
            | Event::Leaving(rank)
            | Event::Finalized(rank, _)
            | Event::Replaced(rank)
            | Event::Ended { rank, .. }
            | Event::Stopped(rank)
            | Event::Continued(rank) => Some(rank),
            Event::Interrupted(_) | Event::Silent(_) | Event::Heard(_) => None,
        }
    }
}

/// Consecutive ranks that finalized after the same barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalizedRanks {
    /// The ranks.
    pub ranks: Range<u32>,
    /// The last barrier that each arrived at.
    pub barrier: u64,
}

/// A command to all agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentCommand {
    /// Mirror the end of those of these ranks that are of other nodes into their records.
    Mirror(Vec<FinalizedRanks>),
    /// Record the activity of every rank, then declare these ranks dead, in this order.
    Declare(Vec<Range<u32>>, DeathManner),
    /// Send this signal to every rank of the node.
    Signal(u8),
    /// Kill all ranks of the node, and all that they started.
    Kill,
    /// The job is over: end what is left, report, and leave.
    Conclude,
}

impl From<RankDeath> for AgentCommand {
    fn from(death: RankDeath) -> Self {
        AgentCommand::Declare(vec![death.ranks()], death.manner)
    }
}

/// State of a rank, as its block in the node's memory has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankStatus {
    /// Has not joined.
    Absent,
    /// Joined, not finalized.
    Joined,
    /// Finalized; the last barrier that it arrived at.
    Finalized(u64),
    /// Declared dead.
    Dead,
}
