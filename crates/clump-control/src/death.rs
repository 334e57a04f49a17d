//! Deaths of ranks, and what the others do then.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// SIGKILL, which has this number on every system.
pub(crate) const KILL: u8 = 9;
/// First exit code that means a signal, as shells have it.
pub(crate) const SIGNAL_CODE: u8 = 128;

/// Policy for the other ranks when a rank dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeath {
    /// The job ends.
    End,
    /// They go on; their messages to the dead rank are returned to sender.
    Continue,
}

/// The end of a rank's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEnd {
    /// With this code.
    Exit(u8),
    /// By this signal.
    Signal(u8),
    /// By the kernel's out-of-memory killer.
    OutOfMemory,
    /// Not at all: it could not be killed.
    Unknown,
}

/// The cause of a rank's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeathManner {
    /// Killed by this signal.
    Signal(u8),
    /// Killed by the kernel's out-of-memory killer.
    OutOfMemory,
    /// Exited with this code.
    Exit(u8),
    /// Left without finalizing.
    NoFinalize,
    /// Ended without joining although others joined.
    NeverJoined,
    /// Stopped while all others had ended.
    Stopped,
    /// Still running when its time was over.
    Lingered,
    /// Its node was lost.
    NodeLost,
    /// Its process runs another program.
    Replaced,
}

impl DeathManner {
    /// Returns the exit code of a job whose first failing rank died like this.
    pub fn exit_code(self) -> u8 {
        let code = match self {
            DeathManner::Signal(n) => SIGNAL_CODE.saturating_add(n),
            DeathManner::Exit(code) => code,
            DeathManner::NoFinalize | DeathManner::NeverJoined | DeathManner::Replaced => 1,
            DeathManner::Stopped | DeathManner::OutOfMemory => SIGNAL_CODE + KILL,
            // As timeout(1) says it.
            DeathManner::Lingered => 124,
            // As when clump itself fails: no rank did anything wrong.
            DeathManner::NodeLost => 125,
        };
        debug_assert_ne!(code, 0, "a death is never a success");
        code
    }
}

/// A rank that died, and the manner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankDeath {
    /// The rank.
    pub rank: u32,
    /// The manner of its death.
    pub manner: DeathManner,
}

impl RankDeath {
    /// Returns the rank as a range of one.
    pub(crate) fn ranks(self) -> Range<u32> {
        self.rank..self.rank.saturating_add(1)
    }
}
