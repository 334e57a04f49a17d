//! Fields of links.

use super::span::{Chance, Span};
use crate::kernel::{LinkFaults, Policer, Port};
use serde::Deserialize;

/// Properties of a link.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LinkText {
    delay: Option<Span>,
    jitter: Option<Span>,
    ordered: Option<bool>,
    loss: Option<Chance>,
    burst: Option<Chance>,
    burst_length: Option<u32>,
    duplicate: Option<Chance>,
    reorder: Option<Chance>,
    held: Option<Span>,
    corrupt: Option<Chance>,
    stale: Option<Chance>,
    policer: Option<PolicerText>,
    mtu: Option<usize>,
}

impl LinkText {
    /// Returns a link like `base` with the properties that are given.
    pub(super) fn over(&self, base: &LinkFaults) -> LinkFaults {
        let span = |given: Option<Span>, base| given.map_or(base, |span| span.0);
        let chance = |given: Option<Chance>, base| given.map_or(base, |chance| chance.0);
        LinkFaults {
            delay: span(self.delay, base.delay),
            jitter: span(self.jitter, base.jitter),
            ordered: self.ordered.unwrap_or(base.ordered),
            loss: chance(self.loss, base.loss),
            burst: chance(self.burst, base.burst),
            burst_length: self.burst_length.unwrap_or(base.burst_length),
            duplicate: chance(self.duplicate, base.duplicate),
            reorder: chance(self.reorder, base.reorder),
            held: span(self.held, base.held),
            corrupt: chance(self.corrupt, base.corrupt),
            stale: chance(self.stale, base.stale),
            policer: self.policer.map(PolicerText::policer).or(base.policer),
            mtu: self.mtu.unwrap_or(base.mtu),
            cut: base.cut,
        }
    }
}

/// A limit of a rate without a queue.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PolicerText {
    rate: u64,
    burst: u64,
}

impl PolicerText {
    fn policer(self) -> Policer {
        Policer { rate: self.rate, burst: self.burst }
    }
}

/// Returns the port of a network without a limit other than its rate and queue.
pub(super) fn plain_port(rate: u64, mtu: usize, queue_bytes: u64) -> Port {
    Port {
        rate,
        queue_bytes,
        mark_bytes: None,
        socket_bytes: 4 << 20,
        card_bytes: 256 << 10,
        refuse: 0,
        mtu,
    }
}
