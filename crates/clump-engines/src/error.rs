//! Errors on the way from an engine into a job.

use clump_os::OsError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{0}")]
    Os(#[from] OsError),
    /// The rank's part of the job cannot be taken.
    #[error("{0}")]
    Boot(#[from] clump_boot::Error),
    /// The engine and this program do not understand each other.
    #[error("{engine} started this process, but cannot be asked for its ranks: {why}")]
    Engine {
        /// The engine.
        engine: &'static str,
        /// The reason.
        why: String,
    },
    /// Another rank said something else than a card.
    #[error("rank {rank} is of another version of clump than this one ({why}); build all from one")]
    OtherCard {
        /// The engine's number of that rank.
        rank: u32,
        /// The reason.
        why: String,
    },
    /// No clump is there to be the agent.
    #[error(
        "{engine} started this program, and no `clump` is there to watch its ranks: install it \
         beside the program or in PATH, or name it (CLUMP_AGENT=/path/of/clump)"
    )]
    NoClump {
        /// The engine.
        engine: &'static str,
    },
    /// The agent of this machine is gone, or does not come.
    #[error(
        "the agent of this machine {how}; what it said is on the error stream of the lowest rank"
    )]
    NoAgent {
        /// Description: `is gone`, `gave no sign of itself within 8 s`.
        how: String,
    },
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
