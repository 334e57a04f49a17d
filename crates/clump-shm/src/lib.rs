//! Queue blocks, lanes, parking and barriers in memory that the ranks of a node share.
//!
//! Layer 1: `clump-am` sends and receives through it, the agent creates and watches it; below it is
//! only `clump-os`. The protocol follows paper 000, section 3, with one change: a sender has a ring
//! of its own at each receiver (a *lane*) where lanes are left, and uses the paper's shared queue
//! where they are not (docs/adr/0002).
//!
//! Main types: [`node::NodeMemory`] (the sealed file), [`inbox::Inbox`] (receiving side of an
//! endpoint), [`path::Path`] (a sender's path to one), [`park::Park`] (sleeping),
//! [`waiter::Waiter`] (how long to spin, yield and sleep), [`barrier::Barrier`].
//!
//! # Invariants
//! 1. Shared memory is reached through atomics ([`shared::Shared`]) and raw copies only; every
//!    value read from it is checked as if an attacker wrote it.
//! 2. A lane has one sender and one receiver. Between `head` and `head + slots` only the sender
//!    writes, and the receiver reads only what a header of the right lap published.
//! 3. A slot of a shared queue is written only by the rank whose name its state carries.
//! 4. A publisher checks for sleepers after a light fence; a sleeper checks for messages after a
//!    heavy one. So no wake-up is lost, and publishing costs no fence.
//! 5. An offset is computed from the geometry, never read from shared memory (those of ranks'
//!    registered memory excepted, which are checked against their rank's space).
//!
//! ```
//! use clump_shm::node::{NodeConfig, NodeMemory};
//! # fn main() -> clump_shm::Result<()> {
//! let node = NodeMemory::create(&NodeConfig::new(2))?;
//! let inbox = clump_shm::inbox::Inbox::<()>::open(&node, 0, 0x5eed)?;
//! assert_eq!(inbox.name().rank(), 0);
//! # Ok(()) }
//! ```

#[cfg_attr(loom, allow(dead_code, reason = "models only open an endpoint and ask for its state"))]
pub mod access;
pub mod barrier;
pub mod bulk;
mod control;
pub mod doorbell;
mod error;
pub mod export;
pub mod geometry;
pub mod job;
pub mod lane;
pub mod name;
pub mod park;
pub mod queue;
pub mod queue_lock;
pub mod rank;
pub mod rank_map;
pub mod region;
pub mod shared;
pub mod slot;
mod wait_reason;
mod wait_table;

#[cfg(not(loom))]
pub mod backoff;
#[cfg(not(loom))]
pub mod block;
#[cfg(not(loom))]
pub mod cells;
#[cfg(not(loom))]
mod endpoint_parts;
#[cfg(not(loom))]
mod in_lane;
#[cfg(not(loom))]
pub mod inbox;
#[cfg(not(loom))]
pub mod node;
#[cfg(not(loom))]
pub mod path;
#[cfg(not(loom))]
pub mod peer;
#[cfg(not(loom))]
pub mod polled_lanes;
#[cfg(not(loom))]
mod port_entry;
#[cfg(not(loom))]
pub mod ports;
#[cfg(not(loom))]
mod process_address;
#[cfg(not(loom))]
mod reuse;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
pub mod supply;
#[cfg(not(loom))]
pub mod traffic;
#[cfg(not(loom))]
pub mod virtual_time;
#[cfg(not(loom))]
pub mod waiter;
#[cfg(not(loom))]
pub mod yielding;

pub use error::{Error, Result};
