//! Incoming packets: units, acknowledgements of the peer, and samples of the path.

use super::{Channel, PacketArrival, UnitStatus};
use crate::Nanos;
use crate::congestion::{Cut, RoundEnd, Sample};
use crate::echo::SocketWait;
use crate::judged::{DescribedUnits, offset_of};
use crate::receive::UnitDisposition;
use crate::retransmit::Lost;
use crate::send::Acked;
use crate::time::{Ticks, ticks, widen};
use clump_wire::{Flags, Header, PacketKind};

impl<U> Channel<U> {
    /// Returns true if a packet of this number has been taken in, or is too old to tell.
    #[inline]
    pub fn is_replay(&self, number: u64) -> bool {
        self.replay.is_replay(number)
    }

    /// Returns true if a unit has not arrived and may: a fragment of any other is of no use.
    pub fn wants_unit(&self, unit: u64) -> bool {
        self.receive.wants(unit)
    }

    /// Handles an authenticated packet, `bytes` long; `ce`: it bears a congestion mark.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Nanos,
        header: &Header,
        sack: &[u64],
        bytes: usize,
        ce: bool,
    ) -> PacketArrival {
        self.handle_late(now, SocketWait::default(), header, sack, bytes, ce)
    }

    /// Handles a packet that had waited so long in the receive queue. That is no delay of the path,
    /// on either side: Swift takes delay of the fabric and of end points apart.
    #[inline]
    pub fn handle_late(
        &mut self,
        now: Nanos,
        waited: SocketWait,
        header: &Header,
        sack: &[u64],
        bytes: usize,
        ce: bool,
    ) -> PacketArrival {
        if !self.replay.accept(header.number) {
            self.counts.replays += 1;
            return PacketArrival { unit: UnitStatus::None, ends: false };
        }
        debug_assert!(self.replay.is_replay(header.number), "it counts once");
        self.keepalive.on_arrival(now);
        let first = !self.echo.any();
        // Windows and marks of an older packet are out of date.
        let newer = self.echo.on_packet(now, waited, header);
        let marks = if newer { header.ce.wrapping_sub(self.peer_marks) } else { 0 };
        if newer {
            self.window.on_peer(now, header.window);
            self.peer_marks = header.ce;
        }
        if first {
            self.mtu.on_first_arrival(now);
        }
        self.handle_acks((now, waited), header, sack, marks.into());
        self.ack.on_mark(ce);
        if ce {
            self.marks = self.marks.wrapping_add(1);
            self.counts.marked += 1;
        }
        if header.flags.has(Flags::ACK_NOW) {
            self.ack.on_ack_requested();
        }
        let unit = match header.kind {
            PacketKind::Data => self.handle_unit(now, header.unit, bytes),
            PacketKind::Probe => {
                self.probed = Some(bytes as u64);
                UnitStatus::None
            }
            PacketKind::ProbeAck => {
                let (bytes, echo) =
                    (usize::try_from(header.unit).unwrap_or(0), self.echo_of(now, header));
                if self.mtu.on_probe_ack(now, bytes, echo) {
                    self.retransmit.expire(&self.send);
                }
                UnitStatus::None
            }
            _ => UnitStatus::None,
        };
        let ends = header.kind == PacketKind::Close
            && DescribedUnits::of(header, sack.len())
                .is_some_and(|units| self.closing.on_described(units));
        PacketArrival { unit, ends }
    }

    #[inline]
    fn handle_unit(&mut self, now: Nanos, unit: u64, bytes: usize) -> UnitStatus {
        let taken = self.receive.take(unit);
        debug_assert!(!self.receive.wants(unit), "a unit is new once");
        self.ack.on_unit(now, taken, bytes, self.receive_window);
        match taken {
            UnitDisposition::InOrder | UnitDisposition::OutOfOrder => {
                self.counts.units_received += 1;
                UnitStatus::New
            }
            UnitDisposition::Duplicate => {
                self.counts.duplicates += 1;
                UnitStatus::Duplicate
            }
            UnitDisposition::TooFar => {
                self.counts.refused += 1;
                UnitStatus::Duplicate
            }
        }
    }

    #[inline]
    fn handle_acks(
        &mut self,
        (now, waited): (Nanos, SocketWait),
        header: &Header,
        sack: &[u64],
        marks: u32,
    ) {
        let heard = (header.ack, header.echo, header.flags.has(Flags::HAS_ECHO));
        if heard == self.heard && sack.is_empty() && marks == 0 {
            return; // nothing that the packet before did not say
        }
        self.heard = heard;
        let echo = self.echo_of(now, header);
        // RFC 9000, 13.1: a packet that acknowledges what was never sent is invalid; nothing of it
        // is used.
        let described = (offset_of(header), sack);
        let Some(acked) = self.send.handle_ack(header.ack, described, echo) else {
            self.counts.refused += 1;
            return;
        };
        debug_assert!(acked.order <= self.send.last_order(), "only what was sent arrives");
        let mut delay = None;
        if let Some(echo) = echo {
            self.retransmit.on_echo(ticks(now), echo);
            self.mtu.on_echo(now, echo, self.rtt.smoothed());
            delay = self.rtt.take_sample((now, waited), echo, header);
        }
        let in_vain = self.retransmit.backoff();
        if acked.units > 0 {
            self.handle_acked(now, acked);
        }
        // One that later packets have overtaken describes what was so before they arrived.
        if echo.is_none_or(|echo| echo >= self.retransmit.newest_sent()) {
            if sack.is_empty() && header.flags.has(Flags::WHOLE) && offset_of(header) == 0 {
                self.retransmit.on_all_described(); // as in most packets
            } else if let Some(units) = DescribedUnits::of(header, sack.len()) {
                self.retransmit.on_described(units);
            }
        }
        self.retransmit.set_patience(&self.rtt);
        self.detect_lost(now, in_vain);
        if self.window.adapts() && (acked.units > 0 || marks > 0) {
            let newest = self.retransmit.newest_sent();
            let sample = Sample { units: acked.units, bytes: acked.bytes, marks, delay };
            match self.window.control.on_acked(ticks(now), newest, sample) {
                None => {}
                Some(RoundEnd::Cut(cut)) => self.count_cut(Some(cut)),
                Some(RoundEnd::Longer(least)) => self.rtt.lengthen(now, least),
            }
        }
    }

    /// Returns the time of the newest packet that the peer has received, by its echo.
    #[inline]
    fn echo_of(&self, now: Nanos, header: &Header) -> Option<Ticks> {
        let echo = widen(ticks(now), header.echo);
        (header.flags.has(Flags::HAS_ECHO) && echo <= self.stamped).then_some(echo)
    }

    #[inline]
    fn handle_acked(&mut self, now: Nanos, acked: Acked) {
        let spurious = acked.false_losses + acked.false_timeouts;
        debug_assert!(spurious <= acked.units, "each unit is sent in vain once at most");
        self.retransmit.on_acked(now, (acked.order, acked.false_timeouts), &self.rtt);
        self.mtu.on_acked(acked.longest);
        if spurious > 0 {
            self.counts.spurious += u64::from(spurious);
        }
        if acked.false_losses > 0 {
            self.retransmit.on_false_loss();
            self.window.control.on_false_loss(acked.false_losses);
        }
    }

    #[inline]
    pub(super) fn detect_lost(&mut self, now: Nanos, in_vain: u32) {
        let Lost { units, longest, sent } = self.retransmit.detect(now, &mut self.send, &self.rtt);
        if units == 0 {
            return;
        }
        debug_assert!(self.send.first_again().is_some(), "what was found lost is to be sent");
        self.counts.losses += u64::from(units);
        if longest > self.mtu.base() {
            self.mtu.on_vanished(now, longest);
        }
        if self.window.adapts() {
            let cut = self.window.control.on_lost((units, sent), in_vain);
            self.count_cut(cut);
        }
    }

    #[inline]
    fn count_cut(&mut self, cut: Option<Cut>) {
        match cut {
            None => {}
            Some(Cut::Delay) => self.counts.delay_cuts += 1,
            Some(Cut::Marks) => self.counts.mark_cuts += 1,
            Some(Cut::Loss) => self.counts.loss_cuts += 1,
        }
    }
}
