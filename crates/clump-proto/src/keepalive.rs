//! Keepalive: the time for which the peer has been silent, and probes of a silent peer.

use crate::Nanos;

/// Times of the last arrival and the last probe.
#[derive(Debug)]
pub(crate) struct Keepalive {
    interval: Option<Nanos>,
    heard: Nanos,
    /// Time of the last probe.
    asked: Nanos,
}

impl Keepalive {
    pub(crate) const fn new(interval: Option<Nanos>, now: Nanos) -> Self {
        Self { interval, heard: now, asked: now }
    }

    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Nanos) {
        self.heard = now;
    }

    pub(crate) fn silent_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.heard)
    }

    /// Returns the time at which the peer is to be probed, if it stays silent.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.interval.map(|interval| self.heard.max(self.asked).saturating_add(interval))
    }

    /// Returns true if the peer is to be probed now; then it counts as probed.
    pub(crate) fn is_due(&mut self, now: Nanos) -> bool {
        let due = self.deadline().is_some_and(|at| at <= now);
        if due {
            self.asked = now;
            let waits = |interval| interval == 0 || self.deadline() > Some(now);
            debug_assert!(self.interval.is_some_and(waits), "the next probe is later");
        }
        due
    }
}
