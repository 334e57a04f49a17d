//! Parameters of a measurement.

use crate::kernel::Time;
use crate::time::Costs;
use clump_transport::Dispatch;

/// Behaviour of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyWorkload {
    /// Each rank computes, sends a request to another rank, and waits for its answer, again and
    /// again.
    Asks,
    /// Each rank of the first node sends to one of the second, at random times, without waiting.
    Streams,
}

/// Targets of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destinations {
    /// All other ranks with equal probability.
    Uniform,
    /// Neighbours in a two-dimensional grid, cut into square nodes: with `n` ranks a node, one in
    /// the square root of `n` messages leaves it.
    Neighbours,
}

/// Parameters of a measurement.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all(deserialize = "kebab-case"))]
pub struct Setting {
    /// Nodes.
    pub nodes: u32,
    /// Ranks of each node.
    pub ranks: u32,
    /// Proxies of each node.
    pub proxies: u32,
    /// Policy by which ranks spread messages over the proxies.
    #[serde(serialize_with = "dispatch_name", deserialize_with = "dispatch_of")]
    pub dispatch: Dispatch,
    /// Behaviour of programs.
    pub load: ProxyWorkload,
    /// Targets of requests.
    pub destinations: Destinations,
    /// Mean time between the end of one operation of a rank and its next, in ns (exponential).
    pub think: Time,
    /// Bytes of payload of each message.
    pub payload: usize,
    /// Bytes of the payload of one message in two, at random, where it differs.
    pub other_payload: usize,
    /// Operations of each rank.
    pub operations: u64,
    /// Costs of steps.
    pub costs: Costs,
    /// Time that a rank needs to notice and handle a message, in ns.
    pub handle: Time,
    /// Initial time in which ranks that only receive do not poll, in ns.
    pub deaf: Time,
    /// Time for which a proxy that finds nothing keeps polling before it acknowledges and sleeps,
    /// in ns.
    pub spin: Time,
    /// Delay from one card to another, in ns.
    pub delay: Time,
    /// Bytes per second of a card.
    pub rate: u64,
    /// Seed of think times and destinations.
    pub seed: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn dispatch_name<S: serde::Serializer>(dispatch: &Dispatch, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(name_of(*dispatch))
}

fn dispatch_of<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Dispatch, D::Error> {
    use serde::{Deserialize as _, de::Error as _};
    let name = String::deserialize(from)?;
    let all = [Dispatch::Fixed, Dispatch::RoundRobin, Dispatch::LeastLoaded];
    let found = all.into_iter().find(|dispatch| name_of(*dispatch) == name);
    found.ok_or_else(|| D::Error::custom(format!("no policy of dispatch is called {name:?}")))
}

/// Returns the name of a dispatch policy.
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
            load: ProxyWorkload::Asks,
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
