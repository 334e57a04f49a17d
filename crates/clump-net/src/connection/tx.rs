//! The sending side of a connection, beside its channel.

use crate::outbox::{Outbox, Unit};
use crate::seal::Sealer;
use clump_proto::Nanos;
use clump_wire::HEADER_BYTES;

/// Bytes that may wait to be sent to a peer before requests find no room; replies may use twice
/// that.
pub(crate) const MAX_WAITING: usize = 256 << 10;

/// Outgoing data of a connection, and when it was last sent.
#[derive(Debug)]
pub(super) struct Tx {
    pub(super) outbox: Outbox,
    /// Number of the next message that asks for order.
    next_order: u64,
    /// Length of datagrams that the outbox packs for.
    datagram_bytes: usize,
    /// Bytes of a datagram that are not the body of a unit.
    pub(super) overhead: usize,
    /// Time at which a packet last went out.
    pub(super) sent_at: Nanos,
    /// Time at which the open unit got its first frame.
    pub(super) opened_at: Nanos,
    /// Bytes that waited at the last service.
    pub(super) serviced_bytes: usize,
    /// True if something happened that [`Stack::service`](crate::Stack::service) has to handle.
    pub(super) touched: bool,
    /// True if the connection is in the list for that.
    pub(super) listed: bool,
}

impl Tx {
    pub(super) fn new(
        now: Nanos,
        datagram_bytes: usize,
        control_first: bool,
        sealer: &Sealer,
    ) -> Self {
        let overhead = HEADER_BYTES + sealer.tag_bytes();
        debug_assert!(datagram_bytes > overhead, "a datagram has room for a unit");
        let capacity = capacity(datagram_bytes, overhead);
        Self {
            outbox: Outbox::new(capacity, sealer.tag_bytes(), sealer.in_place(), control_first),
            next_order: 0,
            datagram_bytes,
            overhead,
            sent_at: 0,
            opened_at: now,
            serviced_bytes: 0,
            touched: false,
            listed: false,
        }
    }

    /// Returns true if a long message, or more of it, finds room.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.outbox.waiting() < MAX_WAITING
    }

    /// Takes the next number, for a message that asks for order.
    #[inline]
    pub(super) fn take_order(&mut self, ordered: bool) -> Option<u64> {
        let order = ordered.then_some(self.next_order);
        self.next_order += u64::from(ordered);
        debug_assert!(order.is_none_or(|order| order < self.next_order), "each number once");
        order
    }

    /// Notes that a message is about to be packed: the open unit gets its first frame if nothing
    /// waits.
    pub(super) fn note_opening(&mut self, now: Nanos) {
        if !self.outbox.has_waiting() {
            debug_assert!(!self.outbox.has_whole(), "what waits is counted");
            self.opened_at = now;
        }
    }

    /// Takes the length of datagrams from the channel; returns true if it is less than before.
    #[inline]
    pub(super) fn set_datagram_bytes(&mut self, bytes: usize) -> bool {
        if bytes == self.datagram_bytes {
            return false;
        }
        let narrower = bytes < self.datagram_bytes;
        self.datagram_bytes = bytes;
        debug_assert!(bytes > self.overhead, "a datagram has room for a unit");
        self.outbox.set_capacity(capacity(bytes, self.overhead));
        debug_assert!(self.overhead + self.outbox.capacity() <= bytes, "units fit");
        narrower
    }

    /// Asserts what always holds between calls. `in_flight` are the units that the channel keeps.
    pub(super) fn check_invariants<'a>(&'a self, in_flight: impl Iterator<Item = &'a Unit>) {
        assert!(!self.touched || self.listed, "what needs service is listed");
        assert!(self.datagram_bytes > self.overhead, "a datagram has room for a unit");
        let unit = self.overhead + self.outbox.capacity();
        assert!(unit <= self.datagram_bytes && self.datagram_bytes < unit + 8, "units fill them");
        self.outbox.check_invariants(in_flight);
    }
}

fn capacity(datagram_bytes: usize, overhead: usize) -> usize {
    datagram_bytes.saturating_sub(overhead) & !7
}
