//! Sending: from the outbox to the driver, and whatever a timer or an acknowledgement sets off.

use super::{COALESCE_NS, Conduit, FLOOD_NS, Nanos, Peer, Stack};
use crate::seal::Sealer;
use crate::stats::Stats;
use clump_driver::{Driver, DriverError, Outgoing};
use clump_proto::SackBuf;
use clump_wire::{Header, Kind};
use std::net::SocketAddr;

/// Packets of one call of the driver.
const BURST: usize = 64;
/// Bytes of one call of the driver, as much as one segmented send takes.
const BURST_BYTES: usize = 128 << 10;
const MOST_TRAILER: usize = 16;

/// One packet about to be sent.
#[derive(Debug, Clone, Copy)]
struct Shot {
    unit: Option<u64>,
    /// Where its header lies in the arena, and its sealed body if it has one.
    head: (usize, usize),
    sealed: (usize, usize),
    trailer: [u8; MOST_TRAILER],
}

/// Memory for packets about to be sent.
#[derive(Debug, Default)]
pub(super) struct Arena {
    shots: Vec<Shot>,
    heads: Vec<u8>,
    sealed: Vec<u8>,
    sack: SackBuf,
}

/// What it takes to send to one peer.
struct Way<'a> {
    arena: &'a mut Arena,
    driver: &'a mut dyn Driver,
    stats: &'a mut Stats,
    sealer: &'a Sealer,
    to: SocketAddr,
    /// The header of every packet that goes there, but for what its channel fills in.
    header: Header,
}

impl Stack {
    /// Sends what `peer`'s conduit may send now; a unit that is not full only if nothing else is under
    /// way, or the last packet left a while ago, or `force`.
    pub(super) fn kick(&mut self, now: Nanos, peer: u32, force: bool) {
        let Some(Some(known)) = self.peers.get_mut(peer as usize) else { return };
        let Some(conduit) = known.conduit.as_deref_mut() else { return };
        if !force && conduit.outbox.has_whole() {
            // What has begun behind whole units may grow to one.
            self.touch(peer);
            self.pump(now, peer, false);
            return;
        }
        if !force {
            let pause = if conduit.channel.is_quiet() { FLOOD_NS } else { COALESCE_NS };
            if now.saturating_sub(conduit.sent_at) < pause {
                return self.touch(peer);
            }
        }
        self.pump(now, peer, true);
    }

    #[inline]
    pub(super) fn touch(&mut self, peer: u32) {
        let Some(Some(known)) = self.peers.get_mut(peer as usize) else { return };
        let Some(conduit) = known.conduit.as_deref_mut() else { return };
        conduit.touched = true;
        if !std::mem::replace(&mut conduit.listed, true) {
            self.touched.push(peer);
        }
    }

    /// Looks after every conduit that something happened to, and after timers that are due. `force`
    /// sends everything that waits; otherwise units that are not full may wait a little.
    pub fn service(&mut self, now: Nanos, force: bool) {
        self.serve_touched(now, force);
        if now >= self.due_at {
            self.handle_timeouts(now);
        }
    }

    /// Whether anything has happened since the last [`Stack::service`] that it would look after.
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
            let Some(conduit) = known.conduit.as_deref_mut() else {
                self.touched.swap_remove(left);
                continue;
            };
            if conduit.touched {
                // Of what has not grown since the last look nobody is adding to.
                let waiting = conduit.outbox.waiting();
                let idle = force
                    || std::mem::replace(&mut conduit.looked_at, waiting) == waiting
                    || now.saturating_sub(conduit.opened_at) >= COALESCE_NS;
                // What the window does not let out waits for an acknowledgement, which touches again.
                if !self.pump(now, peer, idle) {
                    continue;
                }
            }
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            if let Some(conduit) = known.conduit.as_deref_mut() {
                conduit.listed = false;
            }
            self.touched.swap_remove(left);
        }
    }

    fn handle_timeouts(&mut self, now: Nanos) {
        self.due_at = Nanos::MAX;
        for peer in 0..self.peers.len() as u32 {
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            if !known.is_open() {
                continue;
            }
            let Some(conduit) = known.conduit.as_deref_mut() else { continue };
            if conduit.channel.next_timeout().is_some_and(|at| at <= now) {
                conduit.channel.handle_timeout(now);
                // What is open may be growing: then it is listed, and not for the timer to close.
                let old = now.saturating_sub(conduit.opened_at) >= COALESCE_NS;
                let close_open = old || !conduit.touched;
                self.pump(now, peer, close_open);
            }
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            let due = known.conduit.as_deref().and_then(|c| c.channel.next_timeout());
            self.due_at = self.due_at.min(due.unwrap_or(Nanos::MAX));
        }
    }

    /// When [`Stack::service`] has to be called next, if nothing else happens.
    pub fn next_timeout(&self) -> Option<Nanos> {
        (self.due_at != Nanos::MAX).then_some(self.due_at)
    }

    /// Acknowledges what was received and not acknowledged yet, everywhere: before a long sleep.
    pub fn acknowledge_all(&mut self, now: Nanos) {
        for peer in 0..self.peers.len() as u32 {
            let Some(Some(known)) = self.peers.get_mut(peer as usize) else { continue };
            let owes = known.conduit.as_deref().is_some_and(|conduit| conduit.channel.owes_ack());
            if owes && known.is_open() {
                self.send_plain(now, peer, Kind::Ack, 0);
            }
        }
    }

    /// The way to a peer, and what is kept for it.
    #[inline]
    fn way(&mut self, peer: u32) -> Option<(Way<'_>, &mut Conduit)> {
        let Self { peers, arena, driver, stats, config, job, .. } = self;
        let known = peers.get_mut(peer as usize)?.as_mut()?;
        let Peer { address, epoch, sealer, conduit, .. } = known;
        let header = Header {
            job: *job,
            source: config.me,
            target: peer,
            epoch: config.epoch,
            target_epoch: *epoch,
            ..Header::default()
        };
        let way = Way { arena, driver: &mut **driver, stats, sealer, to: *address, header };
        Some((way, conduit.as_deref_mut()?))
    }

    /// Sends lost units again, then new ones as far as the window allows, then an acknowledgement if
    /// one is due and none went along. False when something is left that only waits for company.
    fn pump(&mut self, now: Nanos, peer: u32, close_open: bool) -> bool {
        let overhead = self.overhead;
        if self.lost(peer).is_some() {
            return true;
        }
        let Some((mut way, conduit)) = self.way(peer) else { return true };
        while way.volley(now, conduit, close_open) {}
        let datagram = conduit.channel.datagram_bytes();
        if datagram != conduit.datagram {
            conduit.datagram = datagram;
            conduit.outbox.set_capacity(datagram.saturating_sub(overhead) & !7);
        }
        let confirm = conduit.channel.poll_probe_ack();
        let probe = conduit.channel.poll_probe(now);
        let ack = conduit.channel.wants_ack(now);
        if let Some(bytes) = confirm {
            way.plain(now, conduit, Kind::ProbeAck, bytes as usize);
        } else if ack {
            way.plain(now, conduit, Kind::Ack, 0);
        }
        if let Some(bytes) = probe {
            way.plain(now, conduit, Kind::Probe, bytes.saturating_sub(overhead));
        }
        let done = close_open || !conduit.outbox.has_waiting();
        conduit.touched &= !done;
        let due = conduit.channel.next_timeout();
        self.due_at = self.due_at.min(due.unwrap_or(Nanos::MAX));
        done
    }

    /// Sends a packet without a unit; of a probe, `padding` is the length of its body, of an answer to
    /// one the length that it confirms.
    pub(super) fn send_plain(&mut self, now: Nanos, peer: u32, kind: Kind, padding: usize) {
        if let Some((mut way, conduit)) = self.way(peer) {
            way.plain(now, conduit, kind, padding);
        }
    }
}

impl Way<'_> {
    /// Sends one burst; true when another may follow.
    #[inline]
    fn volley(&mut self, now: Nanos, conduit: &mut Conduit, close_open: bool) -> bool {
        let Some(unit) = conduit.next_unit(now, close_open, self.stats) else { return false };
        conduit.sent_at = now;
        let header = self.stamp(now, conduit, unit);
        match conduit.next_unit(now, close_open, self.stats) {
            None => self.alone(conduit, &header),
            Some(next) => self.burst(now, conduit, close_open, (header, next)),
        }
    }

    #[inline]
    fn stamp(&mut self, now: Nanos, conduit: &mut Conduit, unit: u64) -> Header {
        let mut header = Header { kind: Kind::Data, unit, ..self.header };
        // A full packet has no room for selective acknowledgements; pure ones carry them.
        conduit.channel.stamp(now, &mut header, &mut self.arena.sack);
        header
    }

    /// Sends a unit that nothing follows: the way of every message on a quiet channel.
    #[inline]
    fn alone(&mut self, conduit: &Conduit, header: &Header) -> bool {
        let body = conduit.outbox.unit(header.unit).unwrap_or_default();
        let head = &header.encode(0);
        let mut trailer = [0; MOST_TRAILER];
        let Some(tail) = trailer.get_mut(..self.sealer.tag_bytes()) else { return false };
        let body = if self.sealer.in_place() {
            let sealed = &mut self.arena.sealed;
            sealed.clear();
            sealed.extend_from_slice(body);
            self.sealer.seal(header.number, head, sealed, tail);
            sealed.as_slice()
        } else {
            self.sealer.checksum(head, body, tail);
            body
        };
        let only = Outgoing { to: self.to, head, body, tail };
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += only.bytes() as u64;
        let result = self.driver.send(&[only]);
        self.after_send(&result, 1);
        false
    }

    /// Sends several units.
    fn burst(
        &mut self,
        now: Nanos,
        conduit: &mut Conduit,
        close_open: bool,
        (mut header, next): (Header, u64),
    ) -> bool {
        self.arena.clear();
        let mut bytes = 0;
        let mut next = Some(next);
        loop {
            let body = conduit.outbox.unit(header.unit).unwrap_or_default();
            bytes += body.len();
            self.arena.load(&header, false, Some(header.unit), self.sealer, body);
            let Some(unit) = next else { break };
            header = self.stamp(now, conduit, unit);
            let full = self.arena.shots.len() + 1 >= BURST || bytes >= BURST_BYTES;
            next = if full { None } else { conduit.next_unit(now, close_open, self.stats) };
        }
        let count = self.arena.shots.len();
        let outbox = &conduit.outbox;
        let plain = |shot: &Shot| shot.unit.and_then(|unit| outbox.unit(unit)).unwrap_or_default();
        let result = self.arena.fire(self.driver, self.to, self.sealer, plain, self.stats);
        self.after_send(&result, count)
    }

    /// A packet that the driver did not take counts as lost on the way: the channel sends it again.
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

    /// See [`Stack::send_plain`].
    #[cold]
    fn plain(&mut self, now: Nanos, conduit: &mut Conduit, kind: Kind, padding: usize) {
        let mut header = Header { kind, ..self.header };
        let arena = &mut *self.arena;
        arena.clear();
        conduit.channel.stamp(now, &mut header, &mut arena.sack);
        if kind == Kind::ProbeAck {
            header.unit = padding as u64;
        }
        let body = vec![0; if kind == Kind::Probe { padding } else { 0 }];
        arena.load(&header, true, None, self.sealer, &body);
        self.stats.acks_sent += u64::from(kind == Kind::Ack);
        let result = arena.fire(self.driver, self.to, self.sealer, |_| &body, self.stats);
        self.after_send(&result, 1);
    }
}

impl Conduit {
    /// The next unit to send: a lost one, or a new one if the window has room.
    fn next_unit(&mut self, now: Nanos, close_open: bool, stats: &mut Stats) -> Option<u64> {
        while let Some(unit) = self.channel.poll_lost(now) {
            if self.outbox.unit(unit).is_some() {
                self.channel.resend_unit(now, unit);
                stats.units_resent += 1;
                return Some(unit);
            }
        }
        if !self.outbox.has_waiting() || self.channel.room(now) == 0 {
            return None;
        }
        if !self.outbox.has_whole() && close_open {
            self.outbox.close();
        }
        let bytes = self.outbox.next_bytes()?;
        let unit = self.channel.send_unit(now, bytes);
        self.outbox.launch();
        stats.units_sent += 1;
        Some(unit)
    }
}

impl Arena {
    fn clear(&mut self) {
        self.shots.clear();
        self.heads.clear();
        self.sealed.clear();
    }

    /// Adds a packet: its header, with selective acknowledgements if asked for, and whatever protects it.
    #[inline]
    fn load(
        &mut self,
        header: &Header,
        with_sack: bool,
        unit: Option<u64>,
        sealer: &Sealer,
        body: &[u8],
    ) {
        let words = if with_sack { self.sack.words() } else { &[] };
        let head = self.heads.len();
        self.heads.extend_from_slice(&header.encode(words.len()));
        for word in words {
            self.heads.extend_from_slice(&word.to_le_bytes());
        }
        let mut shot = Shot {
            unit,
            head: (head, self.heads.len()),
            sealed: (0, 0),
            trailer: [0; MOST_TRAILER],
        };
        let head = self.heads.get(head..).unwrap_or_default();
        let Some(trailer) = shot.trailer.get_mut(..sealer.tag_bytes()) else { return };
        if sealer.in_place() {
            let at = self.sealed.len();
            self.sealed.extend_from_slice(body);
            let Some(copy) = self.sealed.get_mut(at..) else { return };
            shot.sealed = (at, at + body.len());
            sealer.seal(header.number, head, copy, trailer);
        } else {
            sealer.checksum(head, body, trailer);
        }
        self.shots.push(shot);
    }

    /// Sends everything that was loaded. `plain` gives the body of a packet that is sent as it is.
    #[inline]
    fn fire<'a>(
        &'a self,
        driver: &mut dyn Driver,
        to: SocketAddr,
        sealer: &Sealer,
        plain: impl Fn(&Shot) -> &'a [u8],
        stats: &mut Stats,
    ) -> Result<usize, DriverError> {
        let outgoing = |shot: &'a Shot| Outgoing {
            to,
            head: self.heads.get(shot.head.0..shot.head.1).unwrap_or_default(),
            body: if sealer.in_place() {
                self.sealed.get(shot.sealed.0..shot.sealed.1).unwrap_or_default()
            } else {
                plain(shot)
            },
            tail: shot.trailer.get(..sealer.tag_bytes()).unwrap_or_default(),
        };
        stats.packets_sent += self.shots.len() as u64;
        if let [shot] = self.shots.as_slice() {
            let only = outgoing(shot);
            stats.bytes_sent += only.bytes() as u64;
            return driver.send(&[only]);
        }
        let all: Vec<Outgoing<'_>> = self.shots.iter().map(outgoing).collect();
        stats.bytes_sent += all.iter().map(|one| one.bytes() as u64).sum::<u64>();
        driver.send(&all)
    }
}
