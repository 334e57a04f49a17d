//! The simulated network: links that lose, duplicate, delay, corrupt and cut; a switch with a queue
//! per rank.
//!
//! A datagram passes the sender's card (its rate, a short queue that refuses), the link to the
//! target (delay and faults), the target's port of the switch (rate, a queue that loses and marks)
//! and the target's socket (a buffer that loses).

use super::link::{LinkFaults, LinkState, Time, bytes_in};
use super::random::Random;
use clump_driver::{Ecn, Inbound, Outgoing};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The port between a rank and the links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Bytes per second, both ways.
    pub rate: u64,
    /// Bytes that may wait in the switch for the rank.
    pub queue_bytes: u64,
    /// Bytes beyond which the switch marks; `None`: it never marks.
    pub mark_bytes: Option<u64>,
    /// Bytes that may wait in the rank's socket.
    pub socket_bytes: usize,
    /// Bytes that may wait in the rank's card before sends are refused.
    pub card_bytes: u64,
    /// Chance that a send is refused nevertheless.
    pub refuse: u32,
    /// Longest datagram that the card takes and announces.
    pub mtu: usize,
}

#[derive(Debug)]
struct Socket {
    port: Port,
    card_free: Time,
    port_free: Time,
    /// Socket whose port of the switch leads to it: its own, or that of another one on its host.
    host: u32,
    inbox: VecDeque<Packet>,
    inbox_bytes: usize,
    attached: bool,
}

/// Datagram in flight.
#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    from: u32,
    ecn: Ecn,
}

/// An event of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SwitchEvent {
    /// A datagram reaches the target's port of the switch.
    AtPort(u32, u32),
    /// A datagram reaches the target's socket.
    AtSocket(u32, u32),
    /// An actor may act.
    Turn(u32),
    /// A fault is due.
    Step(u32),
}

/// Counts of the network's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct NetCounts {
    pub sent: u64,
    pub bytes: u64,
    pub lost: u64,
    pub cut: u64,
    pub policed: u64,
    pub doubled: u64,
    pub held: u64,
    pub spoilt: u64,
    pub stale: u64,
    pub too_long: u64,
    pub overflowed: u64,
    pub marked: u64,
    pub refused: u64,
    pub received: u64,
}

/// The simulated network and its queue of events.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) now: Time,
    sockets: Vec<Socket>,
    links: Vec<LinkFaults>,
    states: Vec<LinkState>,
    events: BinaryHeap<Reverse<(Time, u64, SwitchEvent)>>,
    sequence: u64,
    packets: Vec<Packet>,
    free: Vec<u32>,
    random: Random,
    /// Length above which datagrams are dropped, on any link.
    most: usize,
    pub(crate) counts: NetCounts,
}

/// The switch as drivers hold it.
#[derive(Debug, Clone)]
pub(crate) struct SharedSwitch(Arc<Mutex<Switch>>);

impl SharedSwitch {
    pub(crate) fn new(switch: Switch) -> Self {
        Self(Arc::new(Mutex::new(switch)))
    }

    /// Locks the switch. Only one thread uses it, so the lock is never contended.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Switch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Minimum rate of every port once healed.
const HEALED_RATE: u64 = 50_000_000;
const FIRST_PORT: u16 = 1000;

/// Returns the address of a socket.
pub(crate) fn address_of(socket: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], FIRST_PORT + socket as u16))
}

fn socket_of(address: SocketAddr) -> Option<u32> {
    address.port().checked_sub(FIRST_PORT).map(u32::from)
}

impl Switch {
    /// Creates as many sockets as there are ports, all joined by links like `link`.
    pub(crate) fn new(now: Time, ports: Vec<Port>, link: &LinkFaults, random: Random) -> Self {
        let links = vec![link.clone(); ports.len() * ports.len()];
        let socket = |(host, port)| Socket {
            port,
            card_free: 0,
            port_free: 0,
            host: host as u32,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            attached: false,
        };
        Self {
            now,
            states: vec![LinkState::default(); links.len()],
            sockets: ports.into_iter().enumerate().map(socket).collect(),
            links,
            events: BinaryHeap::new(),
            sequence: 0,
            packets: Vec::new(),
            free: Vec::new(),
            random,
            most: usize::MAX,
            counts: NetCounts::default(),
        }
    }

    /// Limits datagrams on all paths to this many bytes from now on.
    pub(crate) fn narrow(&mut self, most: usize) {
        self.most = self.most.min(most);
    }

    pub(crate) fn link_mut(&mut self, from: u32, to: u32) -> Option<&mut LinkFaults> {
        let sockets = self.sockets.len();
        self.links.get_mut(from as usize * sockets + to as usize)
    }

    /// Returns all links.
    pub(crate) fn links_mut(&mut self) -> impl Iterator<Item = &mut LinkFaults> {
        self.links.iter_mut()
    }

    pub(crate) fn ports_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.sockets.iter_mut().map(|socket| &mut socket.port)
    }

    /// Gives all ports a sufficient rate, and ends their refusals.
    pub(crate) fn heal_ports(&mut self) {
        for port in self.ports_mut() {
            port.rate = port.rate.max(HEALED_RATE);
            port.refuse = 0;
        }
    }

    pub(crate) fn port(&self, socket: u32) -> &Port {
        &self.sockets[socket as usize].port
    }

    /// Lets a socket use the port of the switch that leads to another one, on the same host.
    pub(crate) fn share_port(&mut self, socket: u32, host: u32) {
        self.sockets[socket as usize].host = host;
    }

    /// Sets the rate of a socket's port, both ways.
    pub(crate) fn set_rate(&mut self, socket: u32, rate: u64) {
        self.sockets[socket as usize].port.rate = rate;
    }

    /// Keeps datagrams for a socket from now on, or drops them.
    pub(crate) fn attach(&mut self, socket: u32, attached: bool) {
        let socket = &mut self.sockets[socket as usize];
        socket.attached = attached;
        socket.inbox.clear();
        socket.inbox_bytes = 0;
    }

    pub(crate) fn has_datagrams(&self, socket: u32) -> bool {
        !self.sockets[socket as usize].inbox.is_empty()
    }

    pub(super) fn schedule(&mut self, at: Time, event: SwitchEvent) {
        self.sequence += 1;
        self.events.push(Reverse((at.max(self.now), self.sequence, event)));
    }

    /// Returns the next event except those of the network itself, and advances time to it. The
    /// arrival of a datagram is returned with its target's socket.
    pub(super) fn next(&mut self) -> Option<SwitchEvent> {
        loop {
            let Reverse((at, _, event)) = self.events.pop()?;
            self.now = at;
            match event {
                SwitchEvent::AtPort(socket, packet) => self.pass_port(socket, packet),
                SwitchEvent::AtSocket(socket, packet) => {
                    if self.arrive(socket, packet) {
                        return Some(event);
                    }
                }
                SwitchEvent::Turn(_) | SwitchEvent::Step(_) => return Some(event),
            }
        }
    }

    fn pass_port(&mut self, to: u32, packet: u32) {
        let now = self.now;
        let host = self.sockets[to as usize].host;
        let socket = &mut self.sockets[host as usize];
        let waiting = bytes_in(socket.port_free.saturating_sub(now), socket.port.rate);
        let bytes = self.packets[packet as usize].bytes.len() as u64 + OVERHEAD;
        if waiting + bytes > socket.port.queue_bytes.max(bytes) {
            self.counts.overflowed += 1;
            return self.release(packet);
        }
        if socket.port.mark_bytes.is_some_and(|most| waiting > most) {
            self.counts.marked += 1;
            self.packets[packet as usize].ecn = Ecn::Ce;
        }
        socket.port_free = now.max(socket.port_free) + time_of(bytes, socket.port.rate);
        let at = socket.port_free;
        self.schedule(at, SwitchEvent::AtSocket(to, packet));
    }

    fn arrive(&mut self, to: u32, packet: u32) -> bool {
        let socket = &mut self.sockets[to as usize];
        let bytes = self.packets[packet as usize].bytes.len();
        if !socket.attached || socket.inbox_bytes + bytes > socket.port.socket_bytes {
            self.counts.overflowed += 1;
            self.release(packet);
            return false;
        }
        let taken = std::mem::take(&mut self.packets[packet as usize].bytes);
        let Packet { from, ecn, .. } = self.packets[packet as usize];
        socket.inbox_bytes += bytes;
        socket.inbox.push_back(Packet { bytes: taken, from, ecn });
        self.free.push(packet);
        self.counts.received += 1;
        true
    }

    fn release(&mut self, packet: u32) {
        self.packets[packet as usize].bytes = Vec::new();
        self.free.push(packet);
    }

    /// Takes a datagram from socket `from`, whose clock may be ahead. Returns false when its card
    /// takes none now.
    pub(crate) fn send(&mut self, from: u32, outgoing: &Outgoing<'_>, ahead: Time) -> bool {
        let bytes = outgoing.bytes();
        let Some(left) = self.pass_card(from, bytes, ahead) else { return false };
        let Some(to) = socket_of(outgoing.to).filter(|&to| (to as usize) < self.sockets.len())
        else {
            return true;
        };
        let mut datagram = Vec::with_capacity(bytes);
        outgoing.append_to(&mut datagram);
        self.travel(from, to, left, datagram);
        true
    }

    /// Takes a datagram that no driver sends. Returns false when the card takes none now.
    pub(crate) fn send_plain(&mut self, from: u32, to: u32, datagram: Vec<u8>) -> bool {
        let left = self.pass_card(from, datagram.len(), 0);
        left.map(|left| self.travel(from, to, left, datagram)).is_some()
    }

    /// Returns the time at which a datagram has left the card of a socket, whose clock may be
    /// ahead; `None` when the card takes none now.
    fn pass_card(&mut self, from: u32, bytes: usize, ahead: Time) -> Option<Time> {
        let now = self.now.max(ahead);
        let socket = &mut self.sockets[from as usize];
        let waiting = bytes_in(socket.card_free.saturating_sub(now), socket.port.rate);
        if waiting > socket.port.card_bytes || self.random.chance(socket.port.refuse) {
            self.counts.refused += 1;
            return None;
        }
        let taken = time_of(bytes as u64 + OVERHEAD, socket.port.rate);
        socket.card_free = now.max(socket.card_free) + taken;
        self.counts.sent += 1;
        self.counts.bytes += bytes as u64;
        Some(socket.card_free)
    }

    fn travel(&mut self, from: u32, to: u32, left: Time, mut bytes: Vec<u8>) {
        let at = from as usize * self.sockets.len() + to as usize;
        let Self { links, random, counts, states, most, .. } = self;
        let (link, state) = (&links[at], &mut states[at]);
        if link.cut {
            counts.cut += 1;
            return;
        }
        if bytes.len() > link.mtu.min(*most) {
            counts.too_long += 1;
            return;
        }
        if link.burst == 0 {
            state.burst = 0; // ended by a link change
        } else if state.burst == 0 && random.chance(link.burst) {
            state.burst = random.between(1, u64::from(link.burst_length)) as u32;
        }
        if state.burst > 0 || random.chance(link.loss) {
            state.burst = state.burst.saturating_sub(1);
            counts.lost += 1;
            return;
        }
        if !state.passes(link, left, bytes.len() as u64 + OVERHEAD) {
            counts.policed += 1;
            return;
        }
        let clean = bytes.clone();
        if random.chance(link.corrupt) {
            counts.spoilt += 1;
            spoil(&mut bytes, random);
        }
        let mut delay = link.delay + random.below(link.jitter + 1);
        if random.chance(link.reorder) {
            counts.held += 1;
            delay += random.between(0, link.held);
        }
        let arrival = state.arrival(link, left + delay);
        let again =
            random.chance(link.duplicate).then(|| link.delay + random.below(4 * link.delay + 1));
        let late = random.chance(link.stale).then(|| random.magnitude(1_000_000, 5_000_000_000));
        counts.doubled += u64::from(again.is_some());
        counts.stale += u64::from(late.is_some());
        for delay in again.into_iter().chain(late) {
            self.put(from, to, left + delay, clean.clone());
        }
        self.put(from, to, arrival, bytes);
    }

    /// Schedules the arrival of a datagram at the port of `to`.
    pub(crate) fn put(&mut self, from: u32, to: u32, at: Time, bytes: Vec<u8>) {
        let packet = Packet { bytes, from, ecn: Ecn::Ect0 };
        let index = match self.free.pop() {
            Some(index) => {
                self.packets[index as usize] = packet;
                index
            }
            None => {
                self.packets.push(packet);
                self.packets.len() as u32 - 1
            }
        };
        self.schedule(at, SwitchEvent::AtPort(to, index));
    }

    /// Hands over the oldest datagram in the queue of a socket without a driver.
    pub(crate) fn receive_plain(&mut self, socket: u32) -> Option<Vec<u8>> {
        let socket = &mut self.sockets[socket as usize];
        let packet = socket.inbox.pop_front()?;
        socket.inbox_bytes -= packet.bytes.len();
        Some(packet.bytes)
    }

    /// Hands over the datagrams in the queue of a socket.
    pub(crate) fn receive(&mut self, socket: u32, into: &mut Inbound) -> usize {
        let socket = &mut self.sockets[socket as usize];
        let mut received = 0;
        while into.room() > 0
            && let Some(packet) = socket.inbox.pop_front()
        {
            socket.inbox_bytes -= packet.bytes.len();
            received += usize::from(into.push(&packet.bytes, address_of(packet.from), packet.ecn));
        }
        received
    }
}

/// Bytes of Ethernet, IPv4 and UDP around each datagram: preamble, header, checksum, gap, 20 and 8
/// bytes.
pub(crate) const OVERHEAD: u64 = 8 + 14 + 4 + 12 + 20 + 8;

fn time_of(bytes: u64, rate: u64) -> Time {
    bytes.saturating_mul(1_000_000_000) / rate.max(1)
}

fn spoil(bytes: &mut Vec<u8>, random: &mut Random) {
    if random.one_in(8) {
        bytes.truncate(random.below(bytes.len() as u64) as usize);
        return;
    }
    for _ in 0..random.between(1, 4) {
        let bit = random.below(bytes.len() as u64 * 8);
        if let Some(byte) = bytes.get_mut(bit as usize / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
}
