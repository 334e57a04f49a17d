//! Paper 002's experiment in virtual time: ranks whose messages proxies carry. What message time, queues, utilisation
//! and the slowdown of programs are with so many ranks and proxies a node, and with each way to spread messages.
//!
//! Proxies are the real ones ([`clump_ni::Server`]: inlet, channels, gathering, outlets, monitor), and so are the
//! ranks' portals (room, dispatch), their inboxes, and the lanes between them. Only the network and time are
//! simulated: what a step costs is a parameter ([`Costs`]), taken from measurements. A core for each rank and proxy
//! is assumed. A rank sees what a proxy's turn has brought when the turn ends.

mod cell;
mod station;
mod tables;
mod world;

pub use crate::time::Costs;
pub use cell::{Bounds, Cell, StageTime};
pub use clump_am::Dispatch;
pub use tables::{Options, Report, Scaled, Scaling, report};

use crate::switch::Time;

/// What programs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Each rank computes, asks another rank, and waits for its answer, again and again.
    Asks,
    /// Each rank of the first node sends to one of the second, at random times, and waits for nothing.
    Streams,
}

/// Whom ranks ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destinations {
    /// All others alike.
    Uniform,
    /// Neighbours in a grid of two dimensions, cut into square nodes: with `n` ranks a node, one in the square root of
    /// `n` messages leaves it.
    Neighbours,
}

/// What is measured.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Setting {
    /// Nodes.
    pub nodes: u32,
    /// Ranks of each.
    pub ranks: u32,
    /// Proxies of each.
    pub proxies: u32,
    /// How ranks spread messages over them.
    #[serde(serialize_with = "dispatch_name")]
    pub dispatch: Dispatch,
    /// What programs do.
    pub load: Load,
    /// Whom ranks ask.
    pub destinations: Destinations,
    /// Time between the end of one operation of a rank and its next, on average, in ns (exponential).
    pub think: Time,
    /// Bytes of payload of each message.
    pub payload: usize,
    /// Bytes of the payload of one message in two, at random, where it differs.
    pub other_payload: usize,
    /// Operations of each rank.
    pub operations: u64,
    /// What steps cost.
    pub costs: Costs,
    /// What a rank needs to notice and handle a message, in ns.
    pub handle: Time,
    /// For how long ranks that only receive do not look what has come, at first, in ns.
    pub deaf: Time,
    /// How long a proxy that finds nothing goes on looking before it acknowledges and sleeps, in ns.
    pub spin: Time,
    /// From one card to another, in ns.
    pub delay: Time,
    /// Bytes per second of a card.
    pub rate: u64,
    /// Where think times and destinations come from.
    pub seed: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn dispatch_name<S: serde::Serializer>(dispatch: &Dispatch, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(name_of(*dispatch))
}

/// A way to spread messages, as people write it.
pub fn name_of(dispatch: Dispatch) -> &'static str {
    match dispatch {
        Dispatch::Fixed => "fixed",
        Dispatch::RoundRobin => "round-robin",
        Dispatch::LeastLoaded => "least-loaded",
    }
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            nodes: 2,
            ranks: 2,
            proxies: 1,
            dispatch: Dispatch::RoundRobin,
            load: Load::Asks,
            destinations: Destinations::Uniform,
            think: 10_000,
            payload: 100,
            other_payload: 100,
            operations: 4_000,
            costs: Costs::measured(),
            handle: 120,
            deaf: 0,
            spin: 20_000,
            delay: 5_000,
            rate: 1_250_000_000,
            seed: 1,
        }
    }
}

/// Measures one cell.
///
/// # Errors
/// There is no memory, or something never ends.
pub fn measure(setting: &Setting) -> anyhow::Result<Cell> {
    world::World::new(setting)?.run()
}
