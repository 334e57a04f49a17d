//! Fields of a path to try.

use super::link::{LinkText, plain_port};
use super::span::Span;
use crate::kernel::{LinkFaults, Port, Time};
use crate::network::{PathChange, PathPlan, Pauses};
use serde::Deserialize;

/// A path as a plan has it: one for each round trip.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PathText {
    name: String,
    rate: u64,
    round_trips: Vec<Span>,
    #[serde(default = "ethernet")]
    mtu: usize,
    /// Queue before the receiver, as the time that it takes to send it.
    queue: Span,
    /// Part of it beyond which datagrams are marked.
    mark: Option<Span>,
    /// Bytes that may wait in a socket.
    socket_bytes: Option<usize>,
    #[serde(default = "one")]
    senders: u32,
    /// Round trips of the senders in turn, if they differ.
    #[serde(default)]
    unequal: Vec<Span>,
    #[serde(default)]
    long: bool,
    /// Short messages beside long ones.
    #[serde(default)]
    pings: bool,
    /// Noise of the way to the receiver and of the way back.
    #[serde(default)]
    link: LinkText,
    pauses: Option<PausesText>,
    #[serde(default)]
    change: Vec<ChangeText>,
    #[serde(default)]
    beside_cubic: bool,
    /// Least time to count.
    counted: Option<Span>,
}

fn ethernet() -> usize {
    1472
}

fn one() -> u32 {
    1
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PausesText {
    every: Span,
    least: Span,
    most: Span,
}

/// A change of the path, at a number of round trips.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ChangeText {
    at_trip: u64,
    rate: Option<u64>,
    /// Round trip, of that at first.
    longer: Option<f64>,
}

impl PathText {
    /// Returns the plans of a seed, one for each round trip.
    pub(super) fn plans(&self, seed: u64) -> impl Iterator<Item = PathPlan> + '_ {
        self.round_trips.iter().map(move |trip| self.plan(seed, trip.0))
    }

    fn plan(&self, seed: u64, trip: Time) -> PathPlan {
        let link = self.link.over(&LinkFaults::clean(trip / 2, self.mtu));
        let bytes = |span: Span| self.rate.saturating_mul(span.0) / 1_000_000_000;
        let port = plain_port(self.rate, self.mtu, bytes(self.queue));
        let socket_bytes = self.socket_bytes.unwrap_or(port.socket_bytes);
        let port = Port { mark_bytes: self.mark.map(bytes), socket_bytes, ..port };
        let change = |text: &ChangeText| PathChange {
            at: text.at_trip * trip,
            rate: text.rate,
            delay: text.longer.map(|factor| (link.delay as f64 * factor) as Time),
        };
        PathPlan {
            name: format!("{}, {} us", self.name, trip / 1000),
            changes: self.change.iter().map(change).collect(),
            link,
            port,
            seed,
            round_trip: trip,
            senders: self.senders,
            unequal: self.unequal.iter().map(|trip| trip.0 / 2).collect(),
            is_long: self.long,
            pings: self.pings,
            pauses: self.pauses.map(|text| Pauses {
                every: text.every.0,
                least: text.least.0,
                most: text.most.0,
            }),
            beside_cubic: self.beside_cubic,
            counted: self.counted.map_or(0, |span| span.0),
        }
    }
}
