//! What a fault wrapper is to do, and what it has done.

use std::net::SocketAddr;

/// What befalls datagrams, as they are sent if nothing else is said. Chances go from 0 (never) to 1 (always).
#[derive(Debug, Clone, PartialEq)]
pub struct FaultPlan {
    /// Chance to be lost.
    pub loss: f64,
    /// Chance of a received datagram to be lost after all. Alone it leaves what is sent as it is, in runs and where it
    /// lies, so that a stream pays for what is lost and not for this wrapper.
    pub loss_on_arrival: f64,
    /// Chance to be sent twice; each copy then has its own fate.
    pub duplication: f64,
    /// Chance to be held back until others have gone past.
    pub reordering: f64,
    /// Most datagrams that go past one that is held back, at least 1.
    pub reorder_span: u32,
    /// How long one is held back at most, where too few follow it.
    pub reorder_hold_ns: u64,
    /// Chance that one to four bits flip.
    pub corruption: f64,
    /// Chance of a received datagram to bear the mark of congestion.
    pub congestion: f64,
    /// How long each is under way.
    pub delay_ns: u64,
    /// What is added to that at most, differently for each (they overtake each other then).
    pub jitter_ns: u64,
    /// Bytes per second that leave; what has to wait is queued.
    pub rate_bytes_per_s: Option<u64>,
    /// Bytes that wait here at most. Beyond that a rated link loses datagrams, as a router does; without
    /// a rate the wire takes no more.
    pub queue_bytes: usize,
}

impl Default for FaultPlan {
    /// No fault at all.
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
    /// Whether datagrams that are sent pass untouched and at once.
    pub(super) fn spares_sent(&self) -> bool {
        let chances = [self.loss, self.duplication, self.reordering, self.corruption];
        chances.iter().all(|chance| *chance <= 0.0)
            && self.delay_ns == 0
            && self.jitter_ns == 0
            && self.rate_bytes_per_s.is_none()
    }

    /// Whether datagrams that are received pass untouched.
    pub(super) fn spares_received(&self) -> bool {
        self.loss_on_arrival <= 0.0 && self.congestion <= 0.0
    }
}

/// What happened to datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounts {
    /// Taken from the sender.
    pub taken: u64,
    /// Handed to the driver inside, copies included.
    pub passed: u64,
    /// Lost by chance, here or on arrival.
    pub lost: u64,
    /// Lost because the queue of a rated link was full.
    pub overflowed: u64,
    /// Lost between cut addresses, both ways.
    pub cut: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// With bits flipped.
    pub corrupted: u64,
    /// Given the mark of congestion.
    pub marked: u64,
    /// Lost because the driver inside refused them after they had been taken here.
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
