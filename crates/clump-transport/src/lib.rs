//! Transports of messages to ranks of other nodes: a stack of the rank's own, or the proxies of its
//! node.
//!
//! Layer 3: endpoints (`clump-am`) send and poll through [`Network`], and do not know which
//! transport it has; `clump-interface` drives stacks for the ranks of a node by the other side of
//! [`ProxyClient`]. Below are the stacks of `clump-net` and the lanes of `clump-shm`.
//!
//! Types to know: [`Transport`] (the interface of a way of messages), [`Network`] (a rank's
//! transport, and its endpoints), [`NetworkResources`] (what a stack is built from), [`Forward`] (a
//! message as ranks and proxies hand it to each other).
//!
//! # Invariants
//! 1. A transport accepts a message, has no room for it, or says why it can never arrive. What it
//!    accepts is delivered once, or returned once.
//! 2. A child by `fork` of a rank sends nothing.
//! 3. Nothing that a rank of this node writes is trusted by a proxy: at worst it sends nonsense in
//!    that rank's name, and keeps a bounded amount for it.
//! 4. The lock of a stack is never held while a handler runs.
#![forbid(unsafe_code)]

mod credit;
mod error;
mod locked_stack;
mod network;
mod peers;
mod proxy;
mod registry;
mod report;
mod requesters;
mod resources;
mod timing;
mod transport;

pub use clump_boot::Dispatch;
pub use clump_driver::FaultPlan;
pub use credit::{credit_bytes, credit_of, pool_of};
pub use error::{Error, Result};
pub use network::Network;
pub use peers::{NodeDirectory, gone, gone_peers};
pub use proxy::{
    Clock, CloseHandshakes, DeliveryQueue, Forward, MachineClock, ProxyClient, ProxyClientClock,
    Routes, Spill, SubmissionQueue, Taking, Watcher, Wire, Work, control_endpoint_name, proxy_name,
    stamped,
};
pub use registry::fits;
pub use report::{count_stack, note_narrowed, note_receive_failure, note_unanswered};
pub use requesters::{Arrival, ReplyOutlet, Requester, Requesters, SharedPool};
pub use resources::{NetworkResources, NetworkTuning, faults};
pub use transport::{Accept, ReplyRoom, Snapshot, Transport, Urgency};
