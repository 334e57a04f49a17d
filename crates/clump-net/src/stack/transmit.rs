//! Sending: from the outbox to the driver, and everything that a timer or an acknowledgement
//! causes.

use super::arena::Arena;
use super::{COALESCE_NS, FLOOD_NS, Nanos, Peer, PeerConnection, Stack};
use crate::outbox::{Outbox, is_control};
use crate::seal::Sealer;
use crate::stats::Stats;
use clump_driver::{Driver, DriverError, MIN_KEPT};
use clump_wire::frame::FrameHead;
use clump_wire::{HEADER_BYTES, Header, PacketKind, SLICE_BYTES, UnitFragment};
use std::net::SocketAddr;

/// Packets of one call of the driver.
const BURST: usize = 64;
/// Bytes of one call of the driver, as much as one segmented send takes.
const BURST_BYTES: usize = 128 << 10;

/// Time for which further control messages are expected after one had to go ahead.
const CONTROL_NS: Nanos = 2_000_000;

/// Part of the waiting units that is sent now; the rest waits for more messages to share packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlushPolicy {
    /// All of it.
    Any,
    /// Only whole units.
    Unit,
    /// Nothing, unless there are many whole units.
    Salvo,
}

/// Everything needed to send to one peer.
struct SendPath<'a> {
    arena: &'a mut Arena,
    driver: &'a mut dyn Driver,
    stats: &'a mut Stats,
    sealer: &'a Sealer,
    to: SocketAddr,
    /// The header of every packet to the peer, without the fields that its channel fills in.
    header: Header,
}

impl Stack {
    /// Sends the units of `peer` that may be sent now; a unit that is not full only if nothing else
    /// is in flight, or the last packet left a while ago, or `force`.
    pub(super) fn kick(&mut self, now: Nanos, peer: u32, force: bool) {
        let Some(Some(known)) = self.peers.get_mut(peer as usize) else { return };
        let Some(connection) = known.connection.as_deref_mut() else { return };
        if !force && (connection.outbox.has_batch() || connection.outbox.has_urgent()) {
            // A unit begun behind whole units may still fill up.
            self.touch(peer);
            self.pump(now, peer, false);
            return;
        }
        if !force {
            let pause = if connection.channel.is_quiet() { FLOOD_NS } else { COALESCE_NS };
            if now.saturating_sub(connection.sent_at) < pause {
                return self.touch(peer);
            }
        }
        self.pump(now, peer, true);
    }

    #[inline]
    pub(super) fn touch(&mut self, peer: u32) {
        let Some(Some(known)) = self.peers.get_mut(peer as usize) else { return };
        let Some(connection) = known.connection.as_deref_mut() else { return };
        connection.touched = true;
        if !std::mem::replace(&mut connection.listed, true) {
            self.touched.push(peer);
        }
    }

    /// Services every connection that needs it, and timers that are due. `force` sends everything
    /// that waits; otherwise units that are not full may wait a little.
    pub fn service(&mut self, now: Nanos, force: bool) {
        self.serve_touched(now, force);
        if now >= self.due_at {
            self.handle_timeouts(now);
        }
    }

    /// Returns true if anything has happened since the last [`Stack::service`] that it would
    /// handle.
    #[inline]
    pub fn wants_service(&self) -> bool {
        !self.touched.is_empty()
    }

    #[inline]
    fn serve_touched(&mut self, now: Nanos, force: bool) {
        let mut left = self.touched.len();
        while left > 0 {
            left -= 1;
            let Some(peer) = self.touched.get(left).copied() else { break };
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            let Some(connection) = known.connection.as_deref_mut() else {
                self.touched.swap_remove(left);
                continue;
            };
            if connection.touched {
                // An outbox that has not grown since the last service gets no further messages at
                // present.
                let waiting = connection.outbox.waiting();
                let idle = force
                    || std::mem::replace(&mut connection.looked_at, waiting) == waiting
                    || now.saturating_sub(connection.opened_at) >= COALESCE_NS;
                // Units beyond the window wait for an acknowledgement, which touches again.
                if !self.pump(now, peer, idle) {
                    continue;
                }
            }
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            if let Some(connection) = known.connection.as_deref_mut() {
                connection.listed = false;
            }
            self.touched.swap_remove(left);
        }
    }

    fn handle_timeouts(&mut self, now: Nanos) {
        self.due_at = Nanos::MAX;
        for at in 0..self.talking.len() {
            let Some(&peer) = self.talking.get(at) else { break };
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            if !known.is_open() {
                continue;
            }
            let Some(connection) = known.connection.as_deref_mut() else { continue };
            if connection.channel.next_timeout().is_some_and(|at| at <= now) {
                connection.channel.handle_timeout_unheard(now, self.looked_at.min(now));
                // What is open may be growing: then it is listed, and not for the timer to close.
                let old = now.saturating_sub(connection.opened_at) >= COALESCE_NS;
                let close_open = old || !connection.touched;
                self.pump(now, peer, close_open);
            }
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            let due = known.connection.as_deref().and_then(|c| c.channel.next_timeout());
            self.due_at = self.due_at.min(due.unwrap_or(Nanos::MAX));
        }
    }

    /// Returns the time of the next call to [`Stack::service`], if nothing else happens.
    pub fn next_timeout(&self) -> Option<Nanos> {
        (self.due_at != Nanos::MAX).then_some(self.due_at)
    }

    /// Acknowledges all packets received and not acknowledged yet, to all peers: before a long
    /// sleep.
    pub fn acknowledge_all(&mut self, now: Nanos) {
        for at in 0..self.talking.len() {
            let Some(&peer) = self.talking.get(at) else { break };
            let Some(Some(known)) = self.peers.get(peer as usize) else { continue };
            let owes =
                known.connection.as_deref().is_some_and(|connection| connection.channel.owes_ack());
            if owes && known.is_open() {
                self.send_plain(now, peer, PacketKind::Ack, 0);
            }
        }
    }

    /// Returns the path to a peer, and its connection.
    #[inline]
    fn send_path(&mut self, peer: u32) -> Option<(SendPath<'_>, &mut PeerConnection)> {
        let Self { peers, arena, driver, stats, config, job, .. } = self;
        let known = peers.get_mut(peer as usize)?.as_mut()?;
        let Peer { address, epoch, sealer, connection, .. } = known;
        let header = Header {
            job: *job,
            source: config.me,
            target: peer,
            epoch: config.epoch,
            target_epoch: *epoch,
            ..Header::default()
        };
        let way = SendPath { arena, driver: &mut **driver, stats, sealer, to: *address, header };
        Some((way, connection.as_deref_mut()?))
    }

    /// Retransmits lost units, then sends new ones as far as the window allows, then an
    /// acknowledgement if one is due and none went along. Returns false if something is left that
    /// only waits for more messages.
    fn pump(&mut self, now: Nanos, peer: u32, close_open: bool) -> bool {
        let overhead = self.overhead;
        if self.lost(peer).is_some() {
            return true;
        }
        let Some((mut way, connection)) = self.send_path(peer) else { return true };
        let least = if close_open { FlushPolicy::Any } else { FlushPolicy::Salvo };
        while way.send_burst(now, connection, least, |_| false) {}
        self.follow_up(now, peer, close_open, overhead)
    }

    /// Sends one burst of whole units, which `feed` packs one by one while it returns true: a unit
    /// just packed is checksummed and sent while the nearest cache has it. Returns false if the
    /// window, or the driver, takes no more.
    pub(super) fn feed(
        &mut self,
        now: Nanos,
        peer: u32,
        feed: impl FnMut(&mut Outbox) -> bool,
    ) -> bool {
        let overhead = self.overhead;
        let Some((mut way, connection)) = self.send_path(peer) else { return false };
        way.send_burst(now, connection, FlushPolicy::Unit, feed);
        let goes_on = !connection.outbox.has_whole();
        self.touch(peer);
        self.follow_up(now, peer, false, overhead);
        goes_on
    }

    /// Sends packets besides units: acknowledgements and probes. Returns false if something is left
    /// that only waits for more messages.
    #[inline]
    fn follow_up(&mut self, now: Nanos, peer: u32, close_open: bool, overhead: usize) -> bool {
        let Some((mut way, connection)) = self.send_path(peer) else { return true };
        let datagram = connection.channel.datagram_bytes();
        if datagram != connection.datagram {
            way.stats.paths_narrowed += u64::from(datagram < connection.datagram);
            connection.datagram = datagram;
            connection.longest = connection.longest.max(datagram);
            connection.outbox.set_capacity(datagram.saturating_sub(overhead) & !7);
        }
        let confirm = connection.channel.poll_probe_ack();
        let probe = connection.channel.poll_probe(now);
        let ack = connection.channel.wants_ack(now);
        if let Some(bytes) = confirm {
            way.plain(now, connection, PacketKind::ProbeAck, bytes as usize);
        } else if ack {
            way.plain(now, connection, PacketKind::Ack, 0);
        }
        if let Some(bytes) = probe {
            way.plain(now, connection, PacketKind::Probe, bytes.saturating_sub(overhead));
        }
        let done = close_open || !connection.outbox.has_waiting();
        connection.touched &= !done;
        let due = connection.channel.next_timeout();
        self.due_at = self.due_at.min(due.unwrap_or(Nanos::MAX));
        done
    }

    /// Sends a packet without a unit; for a probe, `padding` is the length of its body, for an
    /// answer to one the length that it confirms.
    pub(super) fn send_plain(&mut self, now: Nanos, peer: u32, kind: PacketKind, padding: usize) {
        if let Some((mut way, connection)) = self.send_path(peer) {
            way.plain(now, connection, kind, padding);
        }
    }
}

impl SendPath<'_> {
    /// Sends one burst; returns true if another may follow. If no whole unit waits any more `feed`
    /// is called for more.
    #[inline]
    fn send_burst(
        &mut self,
        now: Nanos,
        connection: &mut PeerConnection,
        least: FlushPolicy,
        mut feed: impl FnMut(&mut Outbox) -> bool,
    ) -> bool {
        let least = connection.least(now, least);
        let mut next_unit = |connection: &mut PeerConnection, stats: &mut Stats| {
            let next = connection.next_unit(now, least, stats);
            if next.is_none() && !connection.outbox.has_whole() && feed(&mut connection.outbox) {
                return connection.next_unit(now, least, stats);
            }
            next
        };
        let Some(mut unit) = next_unit(connection, self.stats) else { return false };
        connection.sent_at = now;
        self.arena.clear();
        let mut bytes = 0;
        let covers = self.sealer.in_place() && connection.outbox.has_much();
        let more = loop {
            if connection.has_shrunk() && self.is_too_long(connection, unit) {
                return self.flush(now, connection) && self.unit_fragment(now, connection, unit);
            }
            let mut header = Header { kind: PacketKind::Data, unit, ..self.header };
            if now < connection.control_until && connection.outbox.turns_to_next_row(covers) {
                connection.channel.request_ack_soon();
            }
            // A full packet has no room for selective acknowledgements; pure ones carry them.
            connection.channel.stamp(now, &mut header, &mut self.arena.sack);
            bytes += self.arena.load_unit(&header, self.sealer, &mut connection.outbox, covers);
            let loaded = self.arena.len();
            if loaded == BURST || bytes >= BURST_BYTES {
                break true;
            }
            // One contiguous send buffer costs less than one and a part of the next.
            if loaded > 1 && bytes >= MIN_KEPT && connection.outbox.turns_to_next_row(covers) {
                break true;
            }
            let Some(next) = next_unit(connection, self.stats) else { break false };
            unit = next;
        };
        self.flush(now, connection) && more
    }

    /// Returns true if the path does not carry a unit in one packet any more.
    #[cold]
    fn is_too_long(&self, connection: &PeerConnection, unit: u64) -> bool {
        let body = connection.outbox.unit_bytes(unit).unwrap_or_default();
        HEADER_BYTES + body + self.sealer.tag_bytes() > connection.channel.datagram_bytes()
    }

    /// Sends a unit in as many packets as it takes; returns true if all of them left.
    #[cold]
    fn unit_fragment(&mut self, now: Nanos, connection: &mut PeerConnection, unit: u64) -> bool {
        let overhead = HEADER_BYTES + SLICE_BYTES + self.sealer.tag_bytes();
        let most = connection.channel.datagram_bytes().saturating_sub(overhead).max(1);
        let body = connection.outbox.unit(unit, self.sealer).unwrap_or_default().into_owned();
        self.arena.clear();
        for (number, part) in body.chunks(most).enumerate() {
            if self.arena.len() == BURST {
                if !self.flush(now, connection) {
                    return false;
                }
                self.arena.clear();
            }
            let mut header = Header { kind: PacketKind::Slice, unit, ..self.header };
            connection.channel.stamp(now, &mut header, &mut self.arena.sack);
            let unit_fragment =
                UnitFragment { offset: (number * most) as u32, total: body.len() as u32 };
            let packet = [&unit_fragment.encode()[..], part].concat();
            self.arena.load(&header, false, self.sealer, &packet);
        }
        self.stats.units_sliced += 1;
        self.flush(now, connection)
    }

    /// Sends the loaded packets; returns false if the driver did not take all of them.
    #[inline]
    fn flush(&mut self, now: Nanos, connection: &mut PeerConnection) -> bool {
        let count = self.arena.len();
        let (result, bytes) = self.arena.flush(self.driver, self.to, &mut connection.outbox);
        self.stats.packets_sent += count as u64;
        self.stats.bytes_sent += bytes as u64;
        if let Err(DriverError::Oversized { bytes, .. }) = result {
            let carried = self.driver.path_hint(self.to);
            connection.channel.handle_too_big(now, bytes, carried);
        }
        self.after_send(&result, count)
    }

    /// Handles the result of a send. A packet that the driver did not take counts as lost: the
    /// channel retransmits it.
    #[inline]
    fn after_send(&mut self, result: &Result<usize, DriverError>, count: usize) -> bool {
        match result {
            Ok(taken) if *taken == count => true,
            Ok(taken) => {
                self.stats.sends_refused += (count - taken) as u64;
                false
            }
            Err(_) => {
                self.stats.sends_refused += 1;
                false
            }
        }
    }

    /// Sends a packet without a unit, as [`Stack::send_plain`] does.
    #[cold]
    fn plain(
        &mut self,
        now: Nanos,
        connection: &mut PeerConnection,
        kind: PacketKind,
        padding: usize,
    ) {
        let mut header = Header { kind, ..self.header };
        self.arena.clear();
        connection.channel.stamp(now, &mut header, &mut self.arena.sack);
        if kind == PacketKind::ProbeAck {
            header.unit = padding as u64;
        }
        // Selective acknowledgements take their share of a probe's length.
        let padding = padding.saturating_sub(8 * self.arena.sack.words().len());
        let body = vec![0; if kind == PacketKind::Probe { padding } else { 0 }];
        self.arena.load(&header, true, self.sealer, &body);
        self.stats.acks_sent += u64::from(kind == PacketKind::Ack);
        self.flush(now, connection);
    }
}

impl PeerConnection {
    /// Returns true if units may be longer than the path carries by now.
    #[inline]
    fn has_shrunk(&self) -> bool {
        self.channel.datagram_bytes() < self.longest
    }

    /// Returns which waiting units are sent if a burst begins now. Beside control messages data is
    /// sent in whole bursts or not at all, since a partial burst costs as much.
    #[inline]
    fn least(&self, now: Nanos, least: FlushPolicy) -> FlushPolicy {
        let (outbox, channel) = (&self.outbox, &self.channel);
        if now < self.control_until && channel.waits_beside_control(now, outbox.row_bytes()) {
            return FlushPolicy::Salvo;
        }
        if least == FlushPolicy::Salvo && outbox.has_batch() { FlushPolicy::Unit } else { least }
    }

    /// Returns true if a message goes ahead of waiting units, so that it needs no room behind them.
    #[cold]
    pub(super) fn passes(&self, head: &FrameHead, ordered: bool, payload: &[u8]) -> bool {
        !ordered && is_control(head, payload) && self.outbox.has_urgent_room()
    }

    /// Chooses the next unit to send: a lost one, or a new one if the window has room.
    fn next_unit(&mut self, now: Nanos, least: FlushPolicy, stats: &mut Stats) -> Option<u64> {
        while let Some(unit) = self.channel.poll_lost(now) {
            if self.outbox.unit_bytes(unit).is_some() {
                self.channel.resend_unit(now, unit);
                stats.units_resent += 1;
                return Some(unit);
            }
        }
        let urgent = self.outbox.urgent_bytes();
        if urgent.is_none() && !self.outbox.has_waiting() {
            return None; // as after most lone messages: the window need not be checked
        }
        let beside_control = now < self.control_until;
        let room = if beside_control {
            self.channel.room_beside_control(now)
        } else {
            self.channel.room(now)
        };
        if let Some(bytes) = urgent.map(|body| body + self.overhead)
            && (room > 0 || self.channel.admits_control(bytes))
        {
            let unit = self.channel.send_unit(now, bytes);
            self.outbox.launch_urgent();
            self.control_until = now + CONTROL_NS;
            stats.units_sent += 1;
            stats.units_ahead += 1;
            return Some(unit);
        }
        if !self.outbox.has_waiting() || room == 0 || least == FlushPolicy::Salvo {
            return None;
        }
        if !self.outbox.has_whole() && least == FlushPolicy::Any {
            self.outbox.close();
        }
        let bytes = self.outbox.next_bytes()? + self.overhead;
        let unit = self.channel.send_unit(now, bytes);
        self.outbox.launch();
        stats.units_sent += 1;
        Some(unit)
    }
}
