//! Acknowledgement policy: with the next packet that is sent anyway, or with one of its own.

use crate::receive::UnitDisposition;
use crate::{Config, Nanos};

/// Units behind a gap that are acknowledged one by one: enough for the sender to find the gap (RFC
/// 9002, 6.1.1). On a path that holds thousands some are always missing.
const ONE_BY_ONE: u32 = 8;
/// Arrivals for which each further one counts.
const BEHIND_GAP: u32 = 8;

/// Arrivals since the last acknowledgement.
#[derive(Debug)]
pub(crate) struct Ack {
    delay: Nanos,
    max_packets: u32,
    owed: Owed,
    /// Units behind a gap that have arrived one after the other.
    behind_gap: u32,
    /// True if the last packet bore a congestion mark.
    marked: bool,
}

/// Arrivals that are to be acknowledged.
#[derive(Debug, Clone, Copy)]
struct Owed {
    packets: u32,
    bytes: usize,
    /// Time at which the oldest of them has waited long enough.
    deadline: Nanos,
    /// True if the acknowledgement waits no longer.
    now: bool,
}

impl Owed {
    const NOTHING: Self = Self { packets: 0, bytes: 0, deadline: Nanos::MAX, now: false };
}

impl Ack {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            delay: config.ack_delay,
            max_packets: config.ack_packets.max(1),
            owed: Owed::NOTHING,
            behind_gap: 0,
            marked: false,
        }
    }

    /// Notes a packet with a unit. `window` is the number of bytes that the sender may have in
    /// flight.
    #[inline]
    pub(crate) fn on_unit(
        &mut self,
        now: Nanos,
        taken: UnitDisposition,
        bytes: usize,
        window: u32,
    ) {
        debug_assert!(self.owed.now || self.owed.packets < self.max_packets, "due after so many");
        if self.owed.packets == 0 {
            debug_assert!(
                self.owed.deadline == Nanos::MAX && self.owed.bytes == 0,
                "nothing waited"
            );
            self.owed.deadline = now.saturating_add(self.delay);
        }
        // RFC 5681, 4.2: out-of-order units should be acknowledged at once, so that gaps are
        // noticed and filled. Duplicates always (TRANSPORT: a channel that did not could stop for
        // ever): the sender retransmitted because it does not know.
        let behind_gap = taken == UnitDisposition::OutOfOrder;
        self.behind_gap = if behind_gap { self.behind_gap.saturating_add(1) } else { 0 };
        let many = self.behind_gap > ONE_BY_ONE;
        self.owed.packets += if many { BEHIND_GAP } else { 1 };
        self.owed.bytes += bytes;
        self.owed.now |= (taken != UnitDisposition::InOrder && !many)
            || self.owed.packets >= self.max_packets
            || self.owed.bytes >= window as usize / 4;
        debug_assert!(
            self.is_owed() && self.deadline() != Nanos::MAX,
            "it is acknowledged in time"
        );
    }

    /// Notes the mark of a packet. RFC 8257, 3.2: acknowledge at once when it changes, so that the
    /// sender sees which share of its packets met congestion.
    #[inline]
    pub(crate) fn on_mark(&mut self, marked: bool) {
        self.owed.now |= marked != self.marked;
        self.marked = marked;
    }

    /// Makes an acknowledgement due: the sender requests it, or there is something to report.
    #[inline]
    pub(crate) fn on_ack_requested(&mut self) {
        self.owed.now = true;
    }

    /// Notes that an acknowledgement was sent.
    #[inline]
    pub(crate) fn on_sent(&mut self) {
        self.owed = Owed::NOTHING;
        debug_assert!(!self.is_owed(), "all of it is acknowledged");
    }

    /// Returns true if an acknowledgement is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.owed.now || self.owed.deadline <= now
    }

    /// Returns true if anything has not been acknowledged yet.
    #[inline]
    pub(crate) fn is_owed(&self) -> bool {
        self.owed.now || self.owed.packets > 0
    }

    /// Returns the time at which an acknowledgement is due; `Nanos::MAX`: nothing to acknowledge.
    #[inline]
    pub(crate) fn deadline(&self) -> Nanos {
        if self.owed.now { 0 } else { self.owed.deadline }
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        let waits = self.owed.packets > 0;
        assert_eq!(waits, self.owed.deadline != Nanos::MAX, "a deadline is of packets that wait");
        assert!(waits || self.owed.bytes == 0, "bytes are of packets");
        assert!(self.owed.now || self.owed.packets < self.max_packets, "due after so many");
        assert_eq!(self.is_owed(), self.deadline() != Nanos::MAX, "what is owed is timed");
    }
}
