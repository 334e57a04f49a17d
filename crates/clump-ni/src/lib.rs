//! The network interface of a node: threads of its agent that drive stacks of their own.
//!
//! Layer 6: agents start it. The first interface of a node executes the one-sided operations of
//! other nodes' ranks on its memory ([`clump_rma::engine`]; papers 002, 003). Where ranks drive no
//! stacks themselves, all interfaces are *proxies* (paper 002): ranks hand them messages through
//! lanes, as to each other, and they put messages from other nodes into the lanes of the target
//! endpoints.
//!
//! ```text
//!  rank -- lane --> submission queue --> stack ==> network
//!  network ==> stack --> delivery queue -- lane --> endpoint of a rank
//!                  `---> engine (one-sided operations)
//! ```
//!
//! Main types: [`Server`] (its work, turn by turn), [`NetworkInterface`] (its thread).
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
#![forbid(unsafe_code)]

mod delayed_sends;
mod executor;
mod idle_yields;
mod interface;
mod node_endpoints;
mod server;

pub use clump_rma::service::Services;
pub use clump_transport::{Clock, MachineClock, Work};
pub use interface::NetworkInterface;
pub use server::{Server, SleepAnnouncement, Wiring};
