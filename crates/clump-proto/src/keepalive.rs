//! How long the peer has been silent, and when to ask it something.

use crate::Nanos;

/// When packets last went each way.
#[derive(Debug)]
pub(crate) struct Keepalive {
    interval: Option<Nanos>,
    heard: Nanos,
    /// When it was last asked, if it has not answered since.
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

    /// When the peer is to be asked, if it stays silent.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.interval.map(|interval| self.heard.max(self.asked).saturating_add(interval))
    }

    /// Returns true if it is to be asked now; then it counts as asked.
    pub(crate) fn is_due(&mut self, now: Nanos) -> bool {
        let due = self.deadline().is_some_and(|at| at <= now);
        if due {
            self.asked = now;
        }
        due
    }
}
