//! Plan and counts of a fault wrapper.

use std::net::SocketAddr;

/// Faults that affect datagrams, as they are sent unless stated otherwise. Chances go from 0
/// (never) to 1 (always).
#[derive(Debug, Clone, PartialEq)]
pub struct FaultPlan {
    /// Chance of being lost.
    pub loss: f64,
    /// Chance that a received datagram is lost after all. Used alone it leaves sent datagrams as
    /// they are, in runs and in place, so that a stream pays for the loss and not for this wrapper.
    pub loss_on_arrival: f64,
    /// Chance of being sent twice; each copy then has its own fate.
    pub duplication: f64,
    /// Chance of being held back until others have overtaken it.
    pub reordering: f64,
    /// Maximum number of datagrams that overtake one that is held back, at least 1.
    pub reorder_span: u32,
    /// Longest time for which one is held back, where too few follow it.
    pub reorder_hold_ns: u64,
    /// Chance that one to four bits flip.
    pub corruption: f64,
    /// Chance that a received datagram gets the congestion mark.
    pub congestion: f64,
    /// Delay of each datagram.
    pub delay_ns: u64,
    /// Maximum additional delay, different for each (they overtake each other then).
    pub jitter_ns: u64,
    /// Bytes per second that leave; the rest is queued.
    pub rate_bytes_per_s: Option<u64>,
    /// Maximum bytes that wait here. Beyond that a rate-limited link loses datagrams, as a router
    /// does; without a rate the wire takes no more.
    pub queue_bytes: usize,
}

impl Default for FaultPlan {
    /// Returns a plan without faults.
    fn default() -> Self {
        Self {
            loss: 0.0,
            loss_on_arrival: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            reorder_span: 3,
            reorder_hold_ns: 1_000_000,
            corruption: 0.0,
            congestion: 0.0,
            delay_ns: 0,
            jitter_ns: 0,
            rate_bytes_per_s: None,
            queue_bytes: 4 << 20,
        }
    }
}

impl FaultPlan {
    /// Returns true if datagrams that are sent pass unchanged and at once.
    pub(super) fn spares_sent(&self) -> bool {
        let chances = [self.loss, self.duplication, self.reordering, self.corruption];
        chances.iter().all(|chance| *chance <= 0.0)
            && self.delay_ns == 0
            && self.jitter_ns == 0
            && self.rate_bytes_per_s.is_none()
    }

    /// Returns true if datagrams that are received pass unchanged.
    pub(super) fn spares_received(&self) -> bool {
        self.loss_on_arrival <= 0.0 && self.congestion <= 0.0
    }
}

/// Counts of datagrams by their fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounts {
    /// Taken from the sender.
    pub taken: u64,
    /// Handed to the inner driver, copies included.
    pub passed: u64,
    /// Lost by chance, here or on arrival.
    pub lost: u64,
    /// Lost because the queue of a rate-limited link was full.
    pub overflowed: u64,
    /// Lost between cut addresses, both ways.
    pub cut: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// With bits flipped.
    pub corrupted: u64,
    /// Given the congestion mark.
    pub marked: u64,
    /// Lost because the inner driver refused them after they had been taken here.
    pub refused: u64,
}

/// Addresses that are cut off.
#[derive(Debug, Clone, Default)]
pub(super) struct Cuts {
    pub(super) all: bool,
    pub(super) some: std::collections::BTreeSet<SocketAddr>,
}

impl Cuts {
    pub(super) fn covers(&self, address: &SocketAddr) -> bool {
        self.all || (!self.some.is_empty() && self.some.contains(address))
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.some.is_empty()
    }
}
