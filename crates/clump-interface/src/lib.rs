//! The network interface of a node: threads of its agent that drive stacks of their own, and the
//! engine of one-sided operations.
//!
//! Layer 4: agents start it, and link no endpoints for it. The first interface of a node executes
//! the one-sided operations of other nodes' ranks on its memory ([`Server`] over the engine; papers
//! 002, 003), and the operations that upper layers add to them ([`Service`]). Where ranks drive no
//! stacks themselves, all interfaces are *proxies* (paper 002): ranks hand them messages through
//! lanes, as to each other, and they put messages from other nodes into the lanes of the target
//! endpoints. Requests and answers are those of `clump-onesided`, ranks make them by `clump-rma`.
//!
//! ```text
//!  rank -- lane --> submission queue --> stack ==> network
//!  network ==> stack --> delivery queue -- lane --> endpoint of a rank
//!                  `---> engine (one-sided operations)
//! ```
//!
//! Main types: [`Server`] (its work, turn by turn), [`NetworkInterface`] (its thread),
//! [`DirectExecutor`] (the engine alone, where time is virtual),
//! [`NodeSegments`] (the registered memory of a node), [`Services`] (what it executes beside its
//! own operations).
//!
//! # Invariants
//! 1. Nothing that a rank of this node writes is trusted: at worst it makes the interface send
//!    nonsense in that rank's name, and keep a bounded amount for it.
//! 2. Messages that wait for an endpoint that does not read are bounded by the credit of their
//!    senders.
//! 3. Messages that an endpoint or a rank has not read when it closes or dies are returned to
//!    sender, with the reason.
//! 4. An interface never waits for one rank while it could serve another.
//! 5. Every event that an interface waits for rings its alarm or its socket: it sleeps on both at
//!    once.
//! 6. Every word of a request is checked at the node that executes it; nothing outside currently
//!    exported segments is read or written.
//! 7. Memory that an interface keeps for a requester is bounded by the requester's credit.
//! 8. Every request is executed or refused exactly once, and counted, or it is lost with its node.
//! 9. A claim on a lock is granted by its home, or by the rank of the claim before it once the home
//!    has notified that rank. The releasing rank decides which; until its report reaches the home,
//!    the home does not grant the claim.
#![forbid(unsafe_code)]

mod answer_tally;
mod delayed_sends;
mod direct_executor;
mod engine;
mod executor;
mod idle_yields;
mod interface;
mod memory;
mod node_endpoints;
mod server;
mod service;

pub use clump_transport::{Clock, MachineClock, Work};
pub use direct_executor::DirectExecutor;
pub use interface::NetworkInterface;
pub use memory::{Memory, NodeSegments};
pub use server::{Server, SleepAnnouncement, Wiring};
pub use service::{
    Service, ServiceContext, ServiceId, ServiceMessage, ServiceOutcome, ServiceRequest, Services,
    Ticket, Wakeup,
};
