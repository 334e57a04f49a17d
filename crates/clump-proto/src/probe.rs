//! The wait before a probe: after so long without an acknowledgement one of the last units is sent
//! again.
//!
//! Two round trips are enough where the peer always polls (RFC 8985, 7.2). On a busy machine its
//! process waits for a processor now and then, for milliseconds, and then each such probe is for
//! nothing. So what they come to decides: the wait grows with each one in vain, and shrinks again
//! while there are none.

use crate::Nanos;

/// Longest wait: some time slices of a scheduler.
const MAX_WAIT: Nanos = 16_000_000;
/// After so many transmissions without a probe in vain the wait is halved: about one in so many is
/// accepted.
const CALM: u64 = 4096;
/// Growth after a probe in vain that follows another within [`CALM`]. The first one, which may be a
/// pause of the program, adds a quarter.
const GROWTH: Nanos = 4;

/// The wait, and what became of the last probe.
#[derive(Debug)]
pub(crate) struct Probe {
    floor: Nanos,
    wait: Nanos,
    /// Time for which nothing had come before the last one.
    waited: Nanos,
    /// Time at which the last one was sent, if nothing has come since.
    sent: Option<Nanos>,
    /// Order of the transmissions at the last change of the wait.
    changed: u64,
}

impl Probe {
    pub(crate) const fn new(floor: Nanos) -> Self {
        Self { floor, wait: floor, waited: 0, sent: None, changed: 0 }
    }

    /// Returns the shortest wait.
    #[inline]
    pub(crate) fn wait(&self) -> Nanos {
        self.wait
    }

    /// Nothing has come for `waited`: a probe follows.
    pub(crate) fn on_silence(&mut self, waited: Nanos) {
        debug_assert!(waited >= self.wait.min(MAX_WAIT), "a silence is as long as the wait");
        (self.waited, self.sent) = (waited, None);
    }

    /// A unit was sent again after the first silence.
    pub(crate) fn on_sent(&mut self, now: Nanos) {
        debug_assert!(self.sent.is_none(), "one probe in a silence");
        self.sent = Some(now);
    }

    /// Units were acknowledged after a silence. The probe was `in_vain` if a unit is known to have
    /// arrived before, or the answer came sooner after it than the `least` round trip; and most
    /// likely if it came later than `late`, since then the probe had to wait for the peer like all
    /// before it.
    pub(crate) fn on_news(
        &mut self,
        now: Nanos,
        order: u64,
        in_vain: bool,
        (least, late): (Nanos, Nanos),
    ) {
        let Some(sent) = self.sent.take() else { return };
        debug_assert!(order >= self.changed, "the order of arrivals grows");
        debug_assert!(least <= late, "no answer is both too soon and too late");
        let calm = order.saturating_sub(self.changed) / CALM;
        if calm > 0 {
            self.wait = (self.wait >> calm.min(63)).max(self.floor);
            self.changed = order;
        }
        let took = now.saturating_sub(sent);
        let in_vain = in_vain || took < least;
        if in_vain || took > late {
            let first = calm > 0 || self.wait == self.floor;
            let wait = self.waited.max(self.wait).min(MAX_WAIT);
            let longer = if first { wait + wait / 4 } else { GROWTH * wait };
            // What would have been enough, and as much again. Where a queue may have held the
            // answer up, no more than that accounts for.
            let enough = if in_vain {
                self.waited.saturating_add(took).saturating_mul(2)
            } else {
                took.saturating_mul(4)
            };
            self.wait = longer.min(enough).clamp(wait, MAX_WAIT).max(self.floor);
        } else {
            self.wait = (self.wait / 2).max(self.floor);
        }
        self.changed = order;
        debug_assert!(self.wait >= self.floor, "a probe never comes sooner");
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(self.wait >= self.floor, "a probe never comes sooner");
        assert!(self.wait <= MAX_WAIT.max(self.floor), "nor later");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Nanos = 1_000;
    const MS: Nanos = 1_000_000;

    /// A silence of `waited`, a probe, and an answer that came so long after it.
    fn probed(probe: &mut Probe, order: u64, in_vain: bool, took: Nanos) {
        probe.on_silence(probe.wait().max(65 * US));
        probe.on_sent(MS);
        probe.on_news(MS + took, order, in_vain, (20 * US, 100 * US));
    }

    #[test]
    fn probes_in_vain_make_the_next_ones_rare_and_calm_makes_them_soon_again() {
        let mut probe = Probe::new(50 * US);
        probed(&mut probe, 1, true, 30 * US);
        assert_eq!(probe.wait(), 81_250, "one pause costs little");
        for order in 2..10 {
            probed(&mut probe, order, order % 2 == 0, MS);
        }
        assert_eq!(probe.wait(), MAX_WAIT);
        probed(&mut probe, 10 + 3 * CALM, false, 30 * US);
        assert_eq!(probe.wait(), MAX_WAIT / 16, "calm, and a probe that was needed");
        probed(&mut probe, 11 + 90 * CALM, false, 30 * US);
        assert_eq!(probe.wait(), 50 * US);
    }

    #[test]
    fn probes_that_were_needed_do_not_make_the_next_ones_rare() {
        let mut probe = Probe::new(50 * US);
        for order in 0..100 {
            probed(&mut probe, order, false, 30 * US);
        }
        assert_eq!(probe.wait(), 50 * US);
        // An acknowledgement without a probe says nothing.
        probe.on_news(MS, 100, true, (20 * US, 100 * US));
        assert_eq!(probe.wait(), 50 * US);
    }
}
