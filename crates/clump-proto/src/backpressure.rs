//! Back-pressure of the driver: what it does not take is offered again, soon, and less and less
//! often while it takes nothing.
//!
//! Such a packet was not sent: it is not lost, and no window shrinks for it. What drains a card or
//! a socket buffer makes no packet arrive here, so that the end of the wait is a time.

use crate::Nanos;

/// Time until the first further attempt: a part of that in which a card, or a socket buffer, is
/// empty (208 KiB at 100 Gb/s: 17 us).
const PAUSE: Nanos = 10_000;
/// Doublings of that while the driver takes nothing: to 1.3 ms, 800 calls a second.
const MAX_DOUBLINGS: u32 = 7;
/// Time for which a unit is offered again before it counts as sent and lost: longer than a card or
/// a socket buffer stays full. Linux reports `ENOBUFS` for a full card, and also where a virtual
/// cable drops what is too long for its other end; there only losses lead to shorter packets.
const GIVE_UP: Nanos = 50_000_000;

/// State of a channel whose driver takes no more.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    /// Time of the next attempt; 0: none is waited for.
    retry_at: Nanos,
    /// Attempts in a row of which the driver took nothing.
    in_vain: u32,
    /// Time of the first packet that was not taken since all were; 0: all were.
    since: Nanos,
    /// First unit that was refused, and since when.
    first: Option<(u64, Nanos)>,
}

impl Backpressure {
    /// Notes that the driver has taken some packets (`some`), or none, and not all.
    #[cold]
    pub(crate) fn on_refused(&mut self, now: Nanos, some: bool) {
        if self.since == 0 || some {
            self.since = now.max(1);
        }
        self.in_vain = if some { 0 } else { self.in_vain.saturating_add(1) };
        let doublings = self.in_vain.saturating_sub(1).min(MAX_DOUBLINGS);
        self.retry_at = now.saturating_add(PAUSE << doublings);
        debug_assert!(self.holds(now), "not at once");
    }

    /// Notes the first unit that was refused. Returns true if it has been offered for so long that
    /// it counts as lost.
    #[cold]
    pub(crate) fn is_hopeless(&mut self, now: Nanos, unit: u64) -> bool {
        match self.first {
            Some((first, since)) if first == unit => now.saturating_sub(since) >= GIVE_UP,
            _ => {
                self.first = Some((unit, now));
                false
            }
        }
    }

    /// Notes that the driver has taken all packets of a call. Those may have been acknowledgements,
    /// and the first unit may be refused all the same.
    #[inline]
    pub(crate) fn on_taken(&mut self) {
        *self = Self { first: self.first, ..Self::default() };
    }

    /// Returns true if nothing should be offered to the driver now.
    #[inline]
    pub(crate) fn holds(&self, now: Nanos) -> bool {
        now < self.retry_at
    }

    /// Ends a wait that is over.
    #[inline]
    pub(crate) fn release(&mut self, now: Nanos) {
        if !self.holds(now) {
            self.retry_at = 0;
        }
    }

    /// Returns the time of the next attempt, while one is waited for.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        (self.retry_at != 0).then_some(self.retry_at)
    }

    /// Returns the time since which the driver takes nothing.
    pub(crate) fn since(&self) -> Option<Nanos> {
        (self.since != 0).then_some(self.since)
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(self.retry_at == 0 || self.since > 0, "a wait has a beginning");
        assert!(self.retry_at == 0 || self.retry_at > self.since, "and its end comes later");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rarer_while_nothing_is_taken_and_are_bounded() {
        let (mut pressure, mut now) = (Backpressure::default(), 1_000_000);
        assert!(!pressure.holds(now) && pressure.deadline().is_none());
        let mut pauses = Vec::new();
        for _ in 0..20 {
            pressure.on_refused(now, false);
            pressure.check_invariants();
            let at = pressure.deadline().unwrap_or(now);
            pauses.push(at - now);
            assert!(pressure.holds(at - 1) && !pressure.holds(at));
            now = at;
            pressure.release(now);
            assert_eq!(pressure.deadline(), None, "a wait ends once");
        }
        assert!(pauses.is_sorted() && pauses[0] == PAUSE);
        assert_eq!(pauses.last(), Some(&(PAUSE << MAX_DOUBLINGS)));
        assert_eq!(pressure.since(), Some(1_000_000));
        pressure.on_refused(now, true);
        assert_eq!(pressure.deadline(), Some(now + PAUSE), "there is some room now and then");
        assert_eq!(pressure.since(), Some(now));
        pressure.on_taken();
        assert!(pressure.deadline().is_none() && pressure.since().is_none());
    }
}
