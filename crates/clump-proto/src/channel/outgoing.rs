//! Outgoing packets: new units, retransmitted units, acknowledgements.

use super::Channel;
use crate::judged::describes;
use crate::receive::Description;
use crate::send::Transmission;
use crate::time::ticks;
use crate::{Nanos, SackBuf};
use clump_wire::{Flags, Header, PacketKind};

/// Bytes that may be in flight beside control messages on a path without length (ADR 20).
const BESIDE_CONTROL: usize = 128 << 10;

impl<U> Channel<U> {
    /// Returns the bytes of new units that may be sent now; 0: none. Bytes in flight are deducted,
    /// and lost units go first. With nothing in flight and the peer's window open it is enough for
    /// any one unit.
    #[inline]
    pub fn room(&self, now: Nanos) -> usize {
        self.window.room(now, &self.send, &self.rtt)
    }

    /// Returns the room beside control messages, which wait for the data before them in the peer's
    /// socket: so little that it is soon handled, and still 1.3 GB/s over the shortest round trip
    /// that was seen.
    pub(super) fn room_beside_control(&self, now: Nanos) -> usize {
        let (_, _, least) = self.rtt.estimates();
        let path = usize::try_from(least.saturating_mul(13) / 10).unwrap_or(usize::MAX);
        let most = BESIDE_CONTROL.max(path) + self.window.control.beyond_ends();
        self.room(now).min(most.saturating_sub(self.send.bytes_in_flight()))
    }

    /// Notes the first transmission of the next unit, `bytes` long with its header, and keeps its
    /// body; returns its number.
    ///
    /// Call it only while there is [`room`](Self::room): with 262,144 units in flight none is
    /// taken, and the number is `u64::MAX`, which every receiver refuses.
    #[inline]
    pub fn launch(&mut self, now: Nanos, bytes: usize, body: U) -> u64 {
        let unit = self.send.push(ticks(now), bytes, body);
        self.retransmit.on_sent(now);
        self.ask |= self.window.on_sent(now, bytes, &self.send, &self.rtt);
        self.counts.units_sent += 1;
        debug_assert!(unit < self.send.next_unit() && !self.is_quiet(), "it is in flight");
        unit
    }

    /// Returns a unit to send again: call [`resend_unit`](Self::resend_unit) before asking for the
    /// next.
    #[inline]
    pub fn poll_lost(&mut self, now: Nanos) -> Option<u64> {
        self.poll_lost_unit(now).map(|transmission| transmission.unit)
    }

    #[inline]
    pub(super) fn poll_lost_unit(&self, now: Nanos) -> Option<Transmission> {
        let again = self.send.first_again();
        if self.retransmit.must_probe() {
            return again.or_else(|| self.send.oldest());
        }
        // What the driver has not taken was admitted before.
        again.filter(|again| {
            again.refused || self.window.admits(now, again.bytes, &self.send, &self.rtt)
        })
    }

    /// Notes that a unit is sent again, in a packet that is stamped with the same `now`.
    pub fn resend_unit(&mut self, now: Nanos, unit: u64) {
        let Some((bytes, refused)) = self.send.push_again(ticks(now), unit) else { return };
        if refused {
            // The attempt that the driver has not taken was counted, and is made now.
            self.retransmit.on_sent(now);
        } else {
            // It is late already; and after a silence nothing is learnt before the peer answers.
            self.ask = true;
            self.retransmit.on_sent_again(now);
            self.window.on_sent_again(now, bytes, &self.rtt);
            self.counts.retransmits += 1;
        }
    }

    /// Returns true if a packet without a unit is due, to acknowledge or to request something.
    #[inline]
    pub fn wants_ack(&self, now: Nanos) -> bool {
        self.ask_alone || self.ack.is_due(now)
    }

    /// Fills in number, acks, window, marks, times and flags of a packet that is sent now; kind and
    /// unit are the caller's. Units that it acknowledges count as acknowledged.
    ///
    /// Packets of kind `Data` and `Fragment` have room for their unit only: they get no words of
    /// selective acknowledgements, so while units are missing a packet of kind `Ack` stays due
    /// beside them. Of closing packets, the unit is how many of them went before in this row: the
    /// first begins to describe what has arrived.
    #[inline]
    pub fn stamp(&mut self, now: Nanos, header: &mut Header, sack: &mut SackBuf) {
        let carries = matches!(header.kind, PacketKind::Data | PacketKind::Fragment);
        let with_words = describes(header.kind);
        debug_assert!(!carries || header.unit < self.send.next_unit(), "units are counted first");
        header.number = self.number;
        self.number += 1;
        header.ack = self.receive.expected();
        sack.clear();
        header.window = self.receive_window;
        self.told_window = self.receive_window;
        header.ce = self.marks;
        self.stamped = ticks(now);
        header.sent = self.stamped as u32;
        header.flags = if self.ask || self.ask_alone { Flags::ACK_NOW } else { Flags::NONE };
        (self.ask, self.ask_alone) = (false, false);
        self.echo.stamp(now, header);
        if self.receive.has_gap() && !with_words {
            return; // an acknowledgement stays due: nothing beyond the gap is known without words
        }
        if header.kind == PacketKind::Close && header.unit == 0 {
            self.receive.restart_description();
        }
        let gap = self.receive.has_gap();
        let described = if gap { self.receive.report(sack) } else { Description::NOTHING };
        if described.whole {
            header.flags = header.flags.with(Flags::WHOLE);
        }
        if with_words {
            header.unit = described.offset;
        }
        self.ack.on_sent();
        debug_assert!(!carries || sack.words().is_empty(), "packets of units have no room");
        debug_assert!(!self.wants_ack(now), "what is acknowledged is not due");
    }

    /// Returns true if a unit that was sent is known to have arrived, in order or not.
    pub fn has_arrived(&self, unit: u64) -> bool {
        self.send.has_arrived(unit)
    }

    /// Returns a unit that has arrived, with its body, in order of their numbers, each once.
    #[inline]
    pub fn poll_acked(&mut self) -> Option<(u64, U)> {
        self.send.poll_acked()
    }
}
