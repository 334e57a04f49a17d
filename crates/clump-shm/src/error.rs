//! Errors of a node's memory.

use crate::geometry::{MAX_NODES, NODE_REGIONS, REGION_SPACE};
use crate::region::RegionShape;
use clump_os::OsError;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{0}")]
    Os(#[from] OsError),
    /// The descriptor is not a clump node's memory.
    #[error("the descriptor passed to this rank is not a clump job's memory: {0}")]
    NotANode(&'static str),
    /// Another build of clump made the memory.
    #[error(
        "this program was built with another clump (memory layout {ours}, the job has {found}); \
         build program and launcher from one version"
    )]
    OtherVersion {
        /// Layout version of the job.
        found: u64,
        /// Layout version of this process.
        ours: u64,
    },
    /// Too many ranks, or none.
    #[error("a job holds 1 to {most} ranks, not {asked}; start fewer ranks (-n)")]
    RankCount {
        /// Requested number.
        asked: usize,
        /// The limit.
        most: usize,
    },
    /// Too many ranks on one node.
    #[error(
        "a node of this job holds 1 to {most} ranks, not {asked}; start fewer ranks (-n), or spread \
         them over more nodes (--nodes)"
    )]
    LocalRankCount {
        /// Requested number.
        asked: u32,
        /// The limit.
        most: usize,
    },
    /// Too many network interfaces.
    #[error("a node has up to {most} network interfaces, not {asked}; use fewer proxies (--ni)")]
    InterfaceCount {
        /// Requested number, of each node.
        asked: u32,
        /// The limit.
        most: usize,
    },
    /// The ranks of a node do not follow each other.
    #[error(
        "the ranks of each node must have consecutive numbers, and every node must have ranks; a job \
         has up to {MAX_NODES} nodes"
    )]
    NodeMap,
    /// All endpoints of the rank are open, or were, and peers may still send to them.
    #[error(
        "this rank can have {most} endpoints: {open} are open, and peers have yet to let go of the others, which are \
         closed; close some, or let the peers poll"
    )]
    NoFreeEndpoint {
        /// The limit.
        most: usize,
        /// Endpoints that are open.
        open: usize,
    },
    /// A segment does not fit.
    #[error("a segment of {asked} bytes does not fit: {free} bytes of this rank's space are left")]
    SegmentSpace {
        /// Requested bytes.
        asked: u64,
        /// Bytes left.
        free: u64,
    },
    /// The machine has not so much memory, or a limit of the process's memory group is in the way.
    #[error(
        "{asked} bytes of memory cannot be had: {available} bytes may still be taken of what this \
         machine has free, or the limit of its memory group (cgroup) leaves to it; ask for less, or \
         spread it over more machines"
    )]
    NoMemory {
        /// Requested bytes.
        asked: u64,
        /// Bytes that are available.
        available: u64,
    },
    /// A region of the node cannot be made or become that long.
    #[error(
        "region {number} of this node cannot have {reserved} bytes: {}",
        region_limit(found.as_ref())
    )]
    Region {
        /// Number of the region.
        number: u8,
        /// Requested bytes.
        reserved: u64,
        /// The region of that number, if there is one.
        found: Option<RegionShape>,
    },
}

fn region_limit(found: Option<&RegionShape>) -> String {
    match found {
        Some(shape) => {
            let RegionShape { reserved, pages } = shape;
            format!("it is there, with {reserved} bytes of address space and {pages:?} pages")
        }
        None => format!(
            "a node has regions 0 to {}, of 1 to {REGION_SPACE} bytes, which must be opened before \
             they grow",
            NODE_REGIONS - 1
        ),
    }
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
