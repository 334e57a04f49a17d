//! Path MTU discovery: a search for the longest datagram by probes, and a fallback when long ones
//! vanish.

use crate::time::{Ticks, ticks};
use crate::{Config, Nanos};

/// Number of candidates considered.
pub(crate) const MAX_CANDIDATES: usize = 12;
/// Probes of one length before it is given up, RFC 8899, 5.1.2: MAX_PROBES.
const MAX_TRIES: u32 = 3;
/// Time before a failed length is tried again: RFC 8899, 5.1.1 (PMTU_RAISE_TIMER) asks for 600 s;
/// paths inside a cluster change when an administrator changes them and watches the effect.
const RAISE: Nanos = 60_000_000_000;
/// Number of losses of long units, with no arrival in between, after which a short one is probed:
/// if it passes, there is a black hole (RFC 8899, 4.3).
const BLACK_HOLE: u32 = 4;
/// Number of losses for which a silence counts: where a queue overflows, other packets overtake the
/// lost ones.
const OF_SILENCE: u32 = 2;
/// Time after which a probe that newer packets overtook counts as lost.
const OVERTAKEN: Nanos = 1_000_000;
/// Time within which the search that follows a black hole is over where anything is sent.
const SETTLED_AFTER: Nanos = 100_000_000;

/// A probe in flight.
#[derive(Debug, Clone, Copy)]
struct Probe {
    bytes: usize,
    sent: Ticks,
    /// Time at which it counts as lost; unset until a newer packet has arrived.
    lost_at: Option<Nanos>,
}

/// The search: RFC 8899 with a list of lengths that networks really have.
#[derive(Debug)]
pub(crate) struct Mtu {
    /// Length that every path carries: the fallback.
    base: usize,
    candidates: [usize; MAX_CANDIDATES],
    current: usize,
    /// Index of the candidate that is tried.
    index: usize,
    tries: u32,
    probe: Option<Probe>,
    /// Time before which no probe is sent.
    at: Nanos,
    /// Number of losses of long units since one as long arrived, and the length that such a one
    /// must have.
    vanished: u32,
    vanished_bytes: usize,
    black_holes: u64,
    /// Length in use before the last fallback to the base, and the time of that.
    fell: Option<(usize, Nanos)>,
}

impl Mtu {
    pub(crate) fn new(config: &Config) -> Self {
        debug_assert!(config.datagram_candidates.is_sorted(), "longer ones are tried later");
        debug_assert!(config.base_datagram_bytes > 0, "every path carries something");
        let mut candidates = [0; MAX_CANDIDATES];
        for (place, bytes) in candidates.iter_mut().zip(&config.datagram_candidates) {
            *place = *bytes;
        }
        let base = config.base_datagram_bytes;
        Self {
            base,
            candidates,
            // RFC 8899, 5.2, begins with the base. A length that nearly every path carries is used
            // at once instead: where it does not pass, units vanish, which is noticed as at any
            // other time.
            current: config.first_datagram_bytes.max(base),
            index: 0,
            tries: 0,
            probe: None,
            // No probe is sent to a peer before its first packet (RFC 8899, 5.2: the base is
            // confirmed first).
            at: Nanos::MAX,
            vanished: 0,
            vanished_bytes: usize::MAX,
            black_holes: 0,
            fell: None,
        }
    }

    pub(crate) fn current(&self) -> usize {
        self.current
    }

    pub(crate) fn base(&self) -> usize {
        self.base
    }

    pub(crate) fn black_holes(&self) -> u64 {
        self.black_holes
    }

    /// Returns the length that the path carries, once the search after a black hole is over, if
    /// that is less than it carried before.
    pub(crate) fn narrowed(&self, now: Nanos) -> Option<usize> {
        let (before, since) = self.fell?;
        debug_assert!(self.black_holes > 0, "each fall was counted");
        let settled = self.at > now || now.saturating_sub(since) >= SETTLED_AFTER;
        (settled && self.current < before).then_some(self.current)
    }

    /// Begins the search when the peer's first packet arrives.
    pub(crate) fn on_first_arrival(&mut self, now: Nanos) {
        if self.candidates.iter().any(|bytes| *bytes > self.current) {
            self.at = now;
        }
    }

    /// Returns the length of a probe to send now.
    #[inline]
    pub(crate) fn poll_probe(&mut self, now: Nanos) -> Option<usize> {
        if now < self.at { None } else { self.poll_due(now) }
    }

    fn poll_due(&mut self, now: Nanos) -> Option<usize> {
        debug_assert!(now >= self.at, "no probe is sent before its time");
        if let Some(Probe { bytes, lost_at, .. }) = self.probe {
            if lost_at.is_none_or(|at| now < at) {
                return None;
            }
            // RFC 8899, 3: a lost probe is no sign of congestion; the window does not change.
            self.probe = None;
            if bytes > self.base && self.tries >= MAX_TRIES {
                self.give_up(now);
            }
        }
        let bytes = if self.is_doubtful() {
            self.base
        } else {
            let candidate = self.next_candidate(now)?;
            self.tries += 1;
            candidate
        };
        debug_assert!(self.probe.is_none(), "one probe at a time");
        debug_assert!(self.tries <= MAX_TRIES, "a candidate is given up after so many");
        debug_assert!(bytes > self.current || bytes == self.base, "up, or back to the base");
        self.probe = Some(Probe { bytes, sent: ticks(now), lost_at: None });
        Some(bytes)
    }

    fn next_candidate(&mut self, now: Nanos) -> Option<usize> {
        if now < self.at {
            return None;
        }
        while let Some(bytes) = self.candidates.get(self.index).copied() {
            if bytes > self.current {
                return Some(bytes);
            }
            self.index += 1;
            self.tries = 0;
        }
        self.at = Nanos::MAX;
        None
    }

    /// Gives up a candidate that does not pass; longer ones will not either.
    fn give_up(&mut self, now: Nanos) {
        debug_assert!(self.probe.is_none_or(|probe| probe.bytes > self.base), "a candidate");
        self.probe = None;
        self.index = 0;
        self.tries = 0;
        self.at = now.saturating_add(RAISE);
    }

    /// Handles the peer's acknowledgement of a probe of so many bytes; the newest packet that the
    /// peer had received by then was sent at `echo`. Returns true if units in flight are found to
    /// be too long.
    pub(crate) fn on_probe_ack(&mut self, now: Nanos, bytes: usize, echo: Option<Ticks>) -> bool {
        // A peer that was away answers old probes first, and long units wait behind those: such an
        // answer does not show that long units are lost.
        let answers = |probe: Probe| probe.bytes == bytes && echo >= Some(probe.sent);
        if !self.probe.is_some_and(answers) {
            return false;
        }
        self.probe = None;
        if bytes > self.current {
            debug_assert!(self.tries > 0, "a candidate that was tried");
            self.tries = 0;
            self.current = bytes;
        } else if bytes == self.base && self.is_doubtful() {
            self.fall_back(now);
            return true;
        }
        false
    }

    /// Falls back to the base, RFC 8899, 4.3: short datagrams pass and long ones do not. The
    /// lengths between are searched at once.
    fn fall_back(&mut self, now: Nanos) {
        debug_assert!(self.current > self.base, "there is something to fall back to");
        self.black_holes += 1;
        self.fell = Some((self.current, now));
        self.current = self.base;
        self.on_passed();
        (self.probe, self.index, self.tries, self.at) = (None, 0, 0, now);
        debug_assert!(!self.is_doubtful(), "the base is believed");
    }

    /// Notes that the peer has received a packet that was sent at `newest`.
    #[inline]
    pub(crate) fn on_echo(&mut self, now: Nanos, newest: Ticks, round_trip: Nanos) {
        if let Some(probe) = &mut self.probe
            && probe.lost_at.is_none()
            && newest > probe.sent
        {
            probe.lost_at = Some(now.saturating_add(OVERTAKEN.max(2 * round_trip)));
            debug_assert!(ticks(now) >= newest, "an echo is of a packet sent before");
        }
    }

    /// Notes units that arrived, the longest of so many bytes.
    #[inline]
    pub(crate) fn on_acked(&mut self, longest: usize) {
        if longest >= self.vanished_bytes {
            debug_assert!(self.vanished > 0, "some have vanished");
            self.on_passed();
        }
    }

    fn on_passed(&mut self) {
        (self.vanished, self.vanished_bytes) = (0, usize::MAX);
    }

    /// Notes long units that vanished, the longest of so many bytes. After some, a short probe
    /// finds out if anything passes.
    pub(crate) fn on_vanished(&mut self, now: Nanos, longest: usize) {
        self.count_vanished(now, longest, 1);
    }

    fn count_vanished(&mut self, now: Nanos, longest: usize, times: u32) {
        debug_assert!(longest > self.base, "units that every path carries prove nothing");
        self.vanished = self.vanished.saturating_add(times);
        self.vanished_bytes = self.vanished_bytes.min(longest);
        if self.is_doubtful() {
            self.at = self.at.min(now);
            // A probe of a longer candidate has to wait, and does not count as tried.
            if self.probe.is_some_and(|probe| probe.bytes > self.base) {
                debug_assert!(self.tries > 0, "the probe was counted");
                self.probe = None;
                self.tries = self.tries.saturating_sub(1);
            }
        }
        debug_assert!(self.vanished >= times, "a loss is counted until one as long passes");
    }

    /// Notes that the oldest unit, a long one of so many bytes, has not been acknowledged for long.
    pub(crate) fn on_silence(&mut self, now: Nanos, bytes: usize) {
        self.count_vanished(now, bytes, OF_SILENCE);
        if self.is_doubtful() {
            // The short probe may be lost too. Silences are noted less and less often, and so are
            // these probes sent.
            self.probe = None;
        }
    }

    fn is_doubtful(&self) -> bool {
        self.vanished >= BLACK_HOLE && self.current > self.base
    }

    /// Handles datagrams of so many bytes that the system refuses; it takes those of `carried`, if
    /// that is known. Returns true if units in flight are found to be too long.
    pub(crate) fn on_too_big(&mut self, now: Nanos, bytes: usize, carried: Option<usize>) -> bool {
        if bytes <= self.current {
            // An interface of this machine that carries less than every path should: only its own
            // statement is enough.
            let carried = carried.filter(|carried| (1..bytes).contains(carried));
            self.base = carried.map_or(self.base, |carried| self.base.min(carried));
            debug_assert!(self.base > 0 && self.base <= self.current, "the base is carried");
            if bytes > self.base && self.current > self.base {
                self.fall_back(now);
                return true;
            }
        } else if self.probe.is_some_and(|probe| probe.bytes == bytes) {
            self.give_up(now);
        }
        false
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(0 < self.base && self.base <= self.current, "the base is the fallback");
        assert!(self.index <= MAX_CANDIDATES && self.tries <= MAX_TRIES, "the search ends");
        let some = self.vanished_bytes != usize::MAX;
        assert_eq!(self.vanished > 0, some, "losses are of units of some length");
        assert_eq!(self.fell.is_some(), self.black_holes > 0, "each fall is counted");
        if let Some(Probe { bytes, .. }) = self.probe {
            assert!(self.at != Nanos::MAX, "probes follow the peer's first packet");
            let tried = bytes <= self.current || self.tries > 0;
            assert!(bytes > 0 && tried, "a candidate in flight counts as tried");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_the_newest_short_probe_says_that_long_units_vanish() {
        let config = Config {
            base_datagram_bytes: 1472,
            first_datagram_bytes: 1472,
            datagram_candidates: vec![65_507],
            ..Config::default()
        };
        let mut mtu = Mtu::new(&config);
        mtu.on_first_arrival(0);
        assert_eq!(mtu.poll_probe(64), Some(65_507));
        mtu.on_probe_ack(128, 65_507, Some(ticks(64)));
        let silences = |mtu: &mut Mtu, now| {
            (0..BLACK_HOLE).for_each(|_| mtu.on_silence(now, 65_000));
            assert_eq!(mtu.poll_probe(now), Some(1472));
        };
        // The peer is away, takes in the packets that it finds, and is away again before it comes
        // to the probe.
        silences(&mut mtu, 1_000_000);
        mtu.on_acked(65_000);
        silences(&mut mtu, 9_000_000);
        mtu.on_probe_ack(17_000_000, 1472, Some(ticks(1_000_000)));
        assert_eq!((mtu.current(), mtu.black_holes()), (65_507, 0));
        mtu.on_probe_ack(17_100_000, 1472, Some(ticks(9_000_000)));
        assert_eq!((mtu.current(), mtu.black_holes()), (1472, 1));
    }
}
