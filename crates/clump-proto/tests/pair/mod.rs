//! Two channels and the network between them, in one thread and virtual time: the clock jumps from
//! one event to the next, so hours take moments and nothing depends on the machine.
#![allow(dead_code, reason = "each test program uses its part")]

pub use clump_test_tier::Sampler;

use clump_proto::{Channel, Config, Nanos, SackBuf, UnitStatus};
use clump_wire::{Header, PacketKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub const US: Nanos = 1_000;
pub const MS: Nanos = 1_000_000;
pub const SEC: Nanos = 1_000_000_000;

/// One direction of the network.
#[derive(Debug, Clone)]
pub struct Link {
    pub delay: Nanos,
    /// Most additional delay, at random: packets overtake each other.
    pub jitter: Nanos,
    /// Per thousand.
    pub loss: u64,
    pub duplication: u64,
    /// Bytes per millisecond; 0: no limit.
    pub rate: u64,
    /// Most bytes that wait, and the number from which on packets are marked.
    pub queue: u64,
    pub mark_from: u64,
    /// True if nothing passes.
    pub cut: bool,
    /// Length beyond which datagrams are lost.
    pub mtu: usize,
    /// Positions of dropped packets in the order of all, counted from 0.
    pub drops: BTreeSet<u64>,
    pub count: u64,
    pub free_at: Nanos,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            delay: 10 * US,
            jitter: 0,
            loss: 0,
            duplication: 0,
            rate: 0,
            queue: u64::MAX,
            mark_from: u64::MAX,
            cut: false,
            mtu: usize::MAX,
            drops: BTreeSet::new(),
            count: 0,
            free_at: 0,
        }
    }
}

impl Link {
    /// Drops the next `n` packets.
    pub fn drop_next(&mut self, n: u64) {
        self.drops.extend(self.count..self.count + n);
    }

    /// Returns the time at which a packet arrives, and true if it is marked; `None`: never.
    pub fn pass(
        &mut self,
        now: Nanos,
        bytes: usize,
        chance: &mut Sampler,
    ) -> Option<(Nanos, bool)> {
        let place = self.count;
        self.count += 1;
        if self.cut || bytes > self.mtu || self.drops.contains(&place) || chance.hits(self.loss) {
            return None;
        }
        let mut at = now;
        let mut marked = false;
        if self.rate > 0 {
            let waits = self.free_at.saturating_sub(now) * self.rate / MS;
            if waits + bytes as u64 > self.queue {
                return None;
            }
            marked = waits >= self.mark_from;
            self.free_at = self.free_at.max(now) + bytes as u64 * MS / self.rate;
            at = self.free_at;
        }
        Some((at + self.delay + chance.below(self.jitter + 1), marked))
    }
}

#[derive(Debug, Clone)]
pub struct Packet {
    pub header: Header,
    pub sack: Vec<u64>,
    pub bytes: usize,
    pub ce: bool,
}

/// One end: a stack that never gives up, and its program.
pub struct End {
    pub channel: Channel<()>,
    /// Units still to be sent for the first time, and their length.
    pub waiting: u64,
    pub unit_bytes: usize,
    /// Units that were new here, and those released here.
    pub delivered: BTreeSet<u64>,
    pub acked: u64,
    /// Time until which it computes: nothing is received or sent.
    pub away_until: Nanos,
    /// Contents of its socket meanwhile, and the most bytes that it holds.
    socket: VecDeque<Packet>,
    pub socket_bytes: usize,
    /// Packets sent, and those among them without a unit.
    pub packets: u64,
    pub pure: u64,
    pub probes: u64,
    /// Card that its packets leave by; `None`: one that takes everything.
    pub card: Option<Card>,
}

/// A card: packets wait in it to leave, and beyond its bytes it takes none.
#[derive(Debug, Clone)]
pub struct Card {
    pub bytes: u64,
    /// Bytes per millisecond; 0: it takes nothing.
    pub rate: u64,
    pub free_at: Nanos,
    /// Calls of which it has not taken all packets, and the time of the next.
    pub refusals: u64,
    pub retry_at: Nanos,
}

impl Card {
    pub fn new(bytes: u64, rate: u64) -> Self {
        Self { bytes, rate, free_at: 0, refusals: 0, retry_at: 0 }
    }

    /// Returns the number of packets that it takes now, of these lengths.
    fn take(&mut self, now: Nanos, packets: impl Iterator<Item = usize>) -> usize {
        let mut taken = 0;
        for bytes in packets {
            let waits = self.free_at.saturating_sub(now) * self.rate / MS;
            if self.rate == 0 || waits + bytes as u64 > self.bytes {
                break;
            }
            self.free_at = self.free_at.max(now) + bytes as u64 * MS / self.rate;
            taken += 1;
        }
        taken
    }
}

impl End {
    pub fn new(config: &Config, now: Nanos) -> Self {
        Self {
            channel: Channel::new(config, now),
            waiting: 0,
            unit_bytes: 1400,
            delivered: BTreeSet::new(),
            acked: 0,
            away_until: 0,
            socket: VecDeque::new(),
            socket_bytes: 4 << 20,
            packets: 0,
            pure: 0,
            probes: 0,
            card: None,
        }
    }

    pub fn handle(&mut self, now: Nanos, packet: &Packet) {
        if self.channel.is_replay(packet.header.number) {
            return;
        }
        let Packet { header, sack, bytes, ce } = packet;
        if self.channel.handle_packet(now, header, sack, *bytes, *ce).unit == UnitStatus::New {
            assert!(self.delivered.insert(header.unit), "unit {} came twice", header.unit);
        }
    }

    /// Does all that a stack does in one poll; returns the packets that it sends.
    pub fn service(&mut self, now: Nanos) -> Vec<Packet> {
        let mut out = Vec::new();
        if self.channel.next_timeout().is_some_and(|at| at <= now) {
            self.channel.handle_timeout(now);
        }
        while let Some((unit, ())) = self.channel.poll_acked() {
            assert_eq!(unit, self.acked, "each once, in order");
            self.acked += 1;
        }
        if self.card.as_ref().is_some_and(|card| now < card.retry_at) {
            return out;
        }
        while let Some(unit) = self.channel.poll_lost(now) {
            self.channel.resend_unit(now, unit);
            // As long as its first fragment would be.
            let fell = self.channel.stats().black_holes > 0;
            let most = if fell { self.channel.datagram_bytes() } else { usize::MAX };
            self.send(now, PacketKind::Data, unit, self.unit_bytes.min(most), &mut out);
        }
        while self.waiting > 0 && self.channel.room(now) >= self.unit_bytes {
            self.waiting -= 1;
            let unit = self.channel.launch(now, self.unit_bytes, ());
            self.send(now, PacketKind::Data, unit, self.unit_bytes, &mut out);
        }
        if let Some(bytes) = self.channel.poll_probe(now) {
            self.probes += 1;
            self.send(now, PacketKind::Probe, 0, bytes, &mut out);
        }
        if let Some(unit) = self.channel.poll_probe_ack() {
            self.send(now, PacketKind::ProbeAck, unit, 64, &mut out);
        }
        if self.channel.wants_ack(now) {
            self.send(now, PacketKind::Ack, 0, 64, &mut out);
        }
        assert!(!self.channel.wants_ack(now), "an acknowledgement is due once");
        self.offer(now, &mut out);
        // The check costs as much as there is in flight.
        let units = (self.channel.stats().in_flight / self.unit_bytes) as u64;
        if self.packets.is_multiple_of(1 + units) {
            self.channel.check_invariants();
        }
        let next = self.channel.next_timeout();
        assert!(next.is_none_or(|at| at > now), "due again at once: {next:?} at {now}");
        out
    }

    /// Offers packets to the card; those that it does not take are removed.
    fn offer(&mut self, now: Nanos, out: &mut Vec<Packet>) {
        let Some(card) = self.card.as_mut().filter(|_| !out.is_empty()) else { return };
        let taken = card.take(now, out.iter().map(|packet| packet.bytes));
        if taken == out.len() {
            return self.channel.handle_taken();
        }
        let refused: Vec<Packet> = out.drain(taken..).collect();
        let units = refused.iter().filter(|packet| packet.header.kind == PacketKind::Data);
        self.channel.handle_refused(now, taken > 0, units.map(|packet| packet.header.unit));
        card.refusals += 1;
        card.retry_at = self.channel.next_timeout().unwrap();
    }

    fn send(
        &mut self,
        now: Nanos,
        kind: PacketKind,
        unit: u64,
        bytes: usize,
        out: &mut Vec<Packet>,
    ) {
        let mut header = Header { kind, unit, ..Header::default() };
        let mut sack = SackBuf::new();
        self.channel.stamp(now, &mut header, &mut sack);
        assert!(kind != PacketKind::Data || sack.words().is_empty(), "full packets have no room");
        self.packets += 1;
        self.pure += u64::from(kind == PacketKind::Ack);
        out.push(Packet { header, sack: sack.words().to_vec(), bytes, ce: false });
    }
}

/// Both ends and the links between them. `links[i]` carries what end `i` sends.
pub struct Pair {
    pub now: Nanos,
    pub ends: [End; 2],
    pub links: [Link; 2],
    pub chance: Sampler,
    seed: u64,
    wire: BTreeMap<(Nanos, u64), (usize, Packet)>,
    sent: u64,
}

impl Pair {
    pub fn new(config: &Config, seed: u64) -> Self {
        Self::at(config, seed, SEC)
    }

    /// Creates a pair whose clock begins at `now`.
    pub fn at(config: &Config, seed: u64, now: Nanos) -> Self {
        Self {
            now,
            ends: [End::new(config, now), End::new(config, now)],
            links: [Link::default(), Link::default()],
            chance: Sampler::new(seed),
            seed,
            wire: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Gives end `end` `units` more to send.
    pub fn offer(&mut self, end: usize, units: u64) {
        self.ends[end].waiting += units;
        self.service(end);
    }

    /// Lets end `end` compute for so long.
    pub fn leave(&mut self, end: usize, time: Nanos) {
        self.ends[end].away_until = self.now + time;
    }

    pub fn service(&mut self, end: usize) {
        if self.ends[end].away_until > self.now {
            return;
        }
        for mut packet in self.ends[end].service(self.now) {
            let copies = 1 + u64::from(self.chance.hits(self.links[end].duplication));
            for _ in 0..copies {
                let passed = self.links[end].pass(self.now, packet.bytes, &mut self.chance);
                let Some((at, marked)) = passed else { continue };
                packet.ce = marked;
                self.sent += 1;
                self.wire.insert((at, self.sent), (1 - end, packet.clone()));
            }
        }
    }

    /// Goes to the next event; returns false if there is none any more.
    pub fn step(&mut self) -> bool {
        let mut next = self.wire.keys().next().map(|(at, _)| *at);
        for end in &self.ends {
            let due = if end.away_until > self.now {
                Some(end.away_until)
            } else {
                end.channel.next_timeout()
            };
            next = [next, due].into_iter().flatten().min();
        }
        let Some(at) = next else { return false };
        self.now = self.now.max(at);
        while let Some(first) = self.wire.first_entry()
            && first.key().0 <= self.now
        {
            let (end, packet) = first.remove();
            let away = self.ends[end].away_until > self.now;
            let end = &mut self.ends[end];
            if !away {
                end.handle(self.now, &packet);
            } else if end.socket.iter().map(|p| p.bytes).sum::<usize>() + packet.bytes
                <= end.socket_bytes
            {
                end.socket.push_back(packet);
            }
        }
        for end in 0..2 {
            if self.ends[end].away_until <= self.now {
                while let Some(packet) = self.ends[end].socket.pop_front() {
                    self.ends[end].handle(self.now, &packet);
                    self.service(end);
                }
            }
            self.service(end);
        }
        true
    }

    /// Runs until `done`; returns false if that was not within `limit`, or nothing happens any
    /// more.
    pub fn run(&mut self, limit: Nanos, mut done: impl FnMut(&Pair) -> bool) -> bool {
        let end = self.now.saturating_add(limit);
        loop {
            if done(self) {
                return true;
            }
            if self.now > end || !self.step() {
                return false;
            }
        }
    }

    /// Runs for so long, whatever happens.
    pub fn pass(&mut self, time: Nanos) {
        let until = self.now + time;
        self.run(time, |pair| {
            let next = pair.wire.keys().next().map(|(at, _)| *at);
            let due = pair.ends.iter().map(|end| {
                if end.away_until > pair.now {
                    Some(end.away_until)
                } else {
                    end.channel.next_timeout()
                }
            });
            due.chain([next]).flatten().min().is_none_or(|at| at > until)
        });
        self.now = until;
    }

    /// Returns true if all units have arrived and are acknowledged.
    pub fn is_done(&self) -> bool {
        self.ends.iter().all(|end| end.waiting == 0 && end.channel.is_quiet())
    }

    /// Runs until all units have arrived, within `limit`, and checks that they did, exactly once.
    #[track_caller]
    pub fn finish(&mut self, limit: Nanos) {
        let from = self.now;
        let done = self.run(limit, Pair::is_done);
        assert!(done, "seed {}: stalled, {} ns after {from}: {self:?}", self.seed, self.now - from);
        for end in 0..2 {
            let sent = self.ends[end].channel.stats().units_sent;
            assert_eq!(self.ends[1 - end].delivered.len() as u64, sent, "seed {}", self.seed);
            assert_eq!(self.ends[end].acked, sent, "seed {}", self.seed);
        }
    }

    /// Returns the counts of end `end`.
    pub fn stats(&self, end: usize) -> clump_proto::Stats {
        self.ends[end].channel.stats()
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for end in &self.ends {
            write!(
                f,
                "\n{} waiting, {} acked, {:#?}",
                end.waiting,
                end.acked,
                end.channel.stats()
            )?;
        }
        Ok(())
    }
}
