//! Heartbeats between agents on the wire: encrypted packets over the agent's own socket.
//!
//! A packet of kind heartbeat has a body of one byte that says which it is, and
//! - of a [`Heartbeat`]: the node that it is about (4, little-endian; 0 if none);
//! - of a ping of a path, or its answer ([`crate::path_probe`]): the indices of the pinging agent's
//!   address and of the other's, and the challenge (8).
//!
//! A packet that is not sealed with the key of the job for exactly this pair of agents and their
//! incarnations is ignored. So is a replay, of a heartbeat by its number, of an answer by its
//! challenge; a ping that comes again is answered again.

use crate::frame::Key;
use crate::path_probe::{PathPing, PathProbe, ProbeEnd};
use crate::peer_keys::{AGENT_STACK, PeerKeys};
use crate::spec::AgentOffer;
use clump_control::{DetectorAction, FailureDetector, Heartbeat};
use clump_driver::{ReceiveCall, ReceiveFailure, ReceiveFailures};
use clump_net::seal::{JobKey, KeyError};
use clump_os::OsError;
use clump_wire::{HEADER_BYTES, Header, Packet, PacketKind, Security};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

/// Heartbeats read from the socket at a time: no flood keeps the agent from its other work.
const MAX_BEATS: usize = 256;
/// Receive buffer, longer than any heartbeat.
const MAX_BYTES: usize = 256;
/// Bytes of the body of a heartbeat, and of a ping of a path.
const BODY_BYTES: usize = 5;
const PATH_BYTES: usize = 11;
type Datagram = [u8; HEADER_BYTES + PATH_BYTES + 16];

/// Content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Beat(Heartbeat),
    /// A ping of a path; its `node` is not sent.
    Ping(PathPing),
    Answer(PathPing),
}

#[derive(Debug)]
struct HeartbeatPeer {
    addresses: Vec<SocketAddr>,
    epoch: u32,
    /// Packet number of its latest heartbeat.
    heard: u64,
}

/// This agent's side of the heartbeats.
#[derive(Debug)]
pub(crate) struct HeartbeatSocket {
    /// One socket for each path to the others: heartbeats go by all paths.
    sockets: Vec<UdpSocket>,
    job: u32,
    stack: u32,
    epoch: u32,
    /// All other agents, by node.
    peers: BTreeMap<u32, HeartbeatPeer>,
    keys: PeerKeys,
    /// Packet number of the last heartbeat sent: the nonce, so it only grows.
    sent: u64,
    /// Heartbeats taken.
    heard: u64,
    /// Datagrams received, whatever they were, and receptions that failed.
    received: u64,
    failures: ReceiveFailures,
    detector: FailureDetector,
    probe: PathProbe,
}

impl HeartbeatSocket {
    /// Starts heartbeats, from `sockets`, as the agent of `node`, to the agents that offer
    /// themselves; `probe` finds out how to reach them. The `seed` is the same at all nodes.
    /// Consumes the key and leaves zeros.
    pub(crate) fn new(
        sockets: Vec<UdpSocket>,
        probe: PathProbe,
        key: &mut Key,
        security: Security,
        (node, offers): (u32, &[AgentOffer]),
        (silence_ns, seed, now_ns): (u64, u64, u64),
    ) -> Result<Self, KeyError> {
        let key = JobKey::new(&mut *key)?;
        let stack = AGENT_STACK | node;
        let epoch = offers.get(node as usize).map_or(0, |own| own.epoch);
        let others = (0..).zip(offers).filter(|&(other, _)| other != node);
        let peer = |(other, offer): (u32, &AgentOffer)| {
            let addresses = offer.addresses.clone();
            (other, HeartbeatPeer { addresses, epoch: offer.epoch, heard: 0 })
        };
        let peers = others.map(peer).collect();
        let nodes = offers.len() as u32;
        let detector = FailureDetector::new((node, nodes), silence_ns, seed, now_ns);
        let failures = ReceiveFailures::default();
        let job = key.job_tag();
        let keys = PeerKeys::new(key, security, (stack, epoch));
        let (sent, heard, received) = (0, 0, 0);
        Ok(Self {
            sockets,
            job,
            stack,
            epoch,
            peers,
            keys,
            sent,
            heard,
            received,
            failures,
            detector,
            probe,
        })
    }

    /// Returns the paths to other agents, as far as they are known.
    pub(crate) fn paths(&self) -> &PathProbe {
        &self.probe
    }

    /// Returns the end of the search for paths, once.
    pub(crate) fn poll_probe_end(&mut self, now_ns: u64) -> Option<ProbeEnd> {
        self.probe.poll_end(now_ns)
    }

    /// Returns the sockets, which become readable when heartbeats arrive.
    pub(crate) fn sockets(&self) -> &[UdpSocket] {
        &self.sockets
    }

    /// Returns the time for the next call of [`HeartbeatSocket::handle_timeout`].
    pub(crate) fn next_deadline_ns(&self) -> u64 {
        let probe = self.probe.next_deadline_ns().unwrap_or(u64::MAX);
        self.detector.next_deadline_ns().min(probe)
    }

    /// Returns the heartbeats sent and taken.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent, self.heard)
    }

    /// Reads the heartbeats that have arrived, and answers them. Returns peers heard again.
    pub(crate) fn receive(&mut self, now_ns: u64) -> Vec<DetectorAction> {
        let mut datagram = [0; MAX_BYTES];
        for at in 0..self.sockets.len() {
            for _ in 0..MAX_BEATS {
                match self.sockets[at].recv_from(&mut datagram) {
                    Ok((bytes, from)) => {
                        self.received += 1;
                        self.take(&mut datagram[..bytes], (at, from), now_ns);
                    }
                    Err(e) => {
                        self.on_failure(&e, now_ns);
                        break;
                    }
                }
            }
        }
        self.execute()
    }

    /// Nothing was received. Also what the kernel heard of beats that nobody took comes here, once
    /// each: the peer's silence says that.
    fn on_failure(&mut self, error: &std::io::Error, now_ns: u64) {
        if error.kind() != ErrorKind::WouldBlock {
            // What `UdpSocket::recv_from` calls.
            let call = ReceiveCall::RecvFrom;
            let errno = OsError::of(call.name(), error).errno;
            self.failures.on_failure(now_ns, self.received, ReceiveFailure { call, errno });
        }
    }

    /// Why this agent hears no beats, if that is because it can receive none.
    pub(crate) fn receive_failure(&self) -> Option<ReceiveFailure> {
        self.failures.lasting()
    }

    /// Returns why this agent cannot read or send heartbeats, once, if it has no memory for keys.
    pub(crate) fn take_key_failure(&mut self) -> Option<KeyError> {
        self.keys.take_failure()
    }

    /// Takes a datagram that came to the socket of this index, from that address.
    fn take(&mut self, datagram: &mut [u8], (at, address): (usize, SocketAddr), now_ns: u64) {
        let Ok(Packet { header, sealed_at }) = Packet::parse(datagram) else { return };
        let for_this = header.job == self.job
            && (header.target, header.target_epoch) == (self.stack, self.epoch)
            && header.kind == PacketKind::Heartbeat;
        if !for_this {
            return;
        }
        // A source that is no agent wraps to a number that no node has.
        let node = header.source.wrapping_sub(AGENT_STACK);
        let peer = self.peers.get_mut(&node).filter(|peer| peer.epoch == header.epoch);
        let Some(peer) = peer else { return };
        let Some((_, opener)) = self.keys.of(node, peer.epoch) else { return };
        let (head, sealed) = datagram.split_at_mut(sealed_at);
        let body = opener.open(header.number, head, sealed);
        match body.and_then(|body| decode(node, body)) {
            Some(Body::Beat(beat)) if header.number > peer.heard => {
                peer.heard = header.number;
                self.heard += 1;
                self.detector.handle_probe(node, beat, now_ns);
            }
            Some(Body::Ping(ping)) => self.send_by(node, Body::Answer(ping), at, address),
            Some(Body::Answer(ping)) => self.probe.handle_answer(ping, now_ns),
            _ => {}
        }
    }

    /// Sends heartbeats if they are due. Returns peers that are silent, or heard again.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> Vec<DetectorAction> {
        if now_ns < self.next_deadline_ns() {
            return Vec::new();
        }
        let mut said = self.receive(now_ns);
        for ping in self.probe.handle_timeout(now_ns) {
            let peer = self.peers.get(&ping.node);
            let address = peer.and_then(|peer| peer.addresses.get(usize::from(ping.their)));
            if let Some(&address) = address {
                self.send_by(ping.node, Body::Ping(ping), usize::from(ping.own), address);
            }
        }
        if now_ns >= self.detector.next_deadline_ns() {
            self.detector.handle_timeout(now_ns);
        }
        said.extend(self.execute());
        said
    }

    /// Sends what the detector wants to send, and returns its reports.
    fn execute(&mut self) -> Vec<DetectorAction> {
        let mut said = Vec::new();
        while let Some(action) = self.detector.poll_action() {
            match action {
                DetectorAction::Send(to, probe) => self.send(to, probe),
                report => said.push(report),
            }
        }
        said
    }

    fn send(&mut self, to: u32, beat: Heartbeat) {
        let Some((datagram, bytes)) = self.seal(to, Body::Beat(beat)) else { return };
        let Some(peer) = self.peers.get(&to) else { return };
        // A heartbeat that cannot be sent is not heard: the next may be.
        for (own, socket) in self.sockets.iter().enumerate() {
            let route = self.probe.route(to, own).and_then(|their| peer.addresses.get(their));
            if let Some(address) = route {
                let _ = socket.send_to(&datagram[..bytes], address);
            }
        }
    }

    /// Sends by one path.
    fn send_by(&mut self, to: u32, body: Body, own: usize, address: SocketAddr) {
        let Some((datagram, bytes)) = self.seal(to, body) else { return };
        if let Some(socket) = self.sockets.get(own) {
            // As above.
            let _ = socket.send_to(&datagram[..bytes], address);
        }
    }

    /// Returns the next packet, number [`HeartbeatSocket::sent`], to a peer, and its length; none
    /// if there is no memory for its key.
    fn seal(&mut self, to: u32, body: Body) -> Option<(Datagram, usize)> {
        let peer = self.peers.get(&to);
        debug_assert!(peer.is_some(), "every other node is a peer");
        let peer = peer?;
        let (sealer, _) = self.keys.of(to, peer.epoch)?;
        self.sent += 1;
        let header = Header {
            kind: PacketKind::Heartbeat,
            job: self.job,
            source: self.stack,
            target: AGENT_STACK | to,
            epoch: self.epoch,
            target_epoch: peer.epoch,
            number: self.sent,
            ..Header::default()
        };
        let mut datagram: Datagram = [0; HEADER_BYTES + PATH_BYTES + 16];
        let (encoded, length) = encode(body);
        let (head, rest) = datagram.split_at_mut(HEADER_BYTES);
        let (body, tag) = rest.split_at_mut(length);
        head.copy_from_slice(&header.encode(0));
        body.copy_from_slice(&encoded[..length]);
        let tag = &mut tag[..sealer.tag_bytes()];
        let bytes = HEADER_BYTES + length + tag.len();
        sealer.seal(self.sent, head, body, tag);
        Some((datagram, bytes))
    }
}

/// Returns the bytes of a body, and their number.
fn encode(body: Body) -> ([u8; PATH_BYTES], usize) {
    let mut bytes = [0; PATH_BYTES];
    let beat = |kind, node: u32, bytes: &mut [u8; PATH_BYTES]| {
        bytes[0] = kind;
        bytes[1..BODY_BYTES].copy_from_slice(&node.to_le_bytes());
        BODY_BYTES
    };
    let path = |kind, ping: PathPing, bytes: &mut [u8; PATH_BYTES]| {
        bytes[..3].copy_from_slice(&[kind, ping.own, ping.their]);
        bytes[3..].copy_from_slice(&ping.challenge.to_le_bytes());
        PATH_BYTES
    };
    let length = match body {
        Body::Beat(Heartbeat::Ping) => beat(0, 0, &mut bytes),
        Body::Beat(Heartbeat::Ack) => beat(1, 0, &mut bytes),
        Body::Beat(Heartbeat::Ask(node)) => beat(2, node, &mut bytes),
        Body::Beat(Heartbeat::Vouch(node)) => beat(3, node, &mut bytes),
        Body::Ping(ping) => path(4, ping, &mut bytes),
        Body::Answer(ping) => path(5, ping, &mut bytes),
    };
    (bytes, length)
}

/// Reads the body of a packet of `node`.
fn decode(node: u32, body: &[u8]) -> Option<Body> {
    match *body {
        [kind, a, b, c, d] => {
            let about = u32::from_le_bytes([a, b, c, d]);
            Some(Body::Beat(match kind {
                0 => Heartbeat::Ping,
                1 => Heartbeat::Ack,
                2 => Heartbeat::Ask(about),
                3 => Heartbeat::Vouch(about),
                _ => return None,
            }))
        }
        [kind @ (4 | 5), own, their, ref rest @ ..] => {
            let challenge = u64::from_le_bytes(rest.try_into().ok()?);
            let ping = PathPing { node, own, their, challenge };
            Some(if kind == 4 { Body::Ping(ping) } else { Body::Answer(ping) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_control::STARTING;

    const MS: u64 = 1_000_000;
    const SILENCE: u64 = 1200 * MS;

    /// Returns two agents on sockets of their own, under keys that may differ.
    fn pair(security: Security, same_key: bool, given: bool) -> [HeartbeatSocket; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        let offer = |(epoch, socket): (u32, &UdpSocket)| AgentOffer {
            host: "h".into(),
            program: String::new(),
            addresses: vec![socket.local_addr().unwrap()],
            left_out: 0,
            epoch,
        };
        let offers: Vec<AgentOffer> = (5..).zip(&sockets).map(offer).collect();
        let bytes = *Key::random().unwrap();
        let mut node = 0;
        sockets.map(|socket| {
            let mut key =
                if same_key { Key::new(|| bytes).unwrap() } else { Key::random().unwrap() };
            let own = vec![(socket.local_addr().unwrap().ip(), 0)];
            let mut probe = PathProbe::new(own, (node, 2), &offers, 9, 0);
            if given {
                probe.take_as_given();
            }
            let peers = (node, &offers[..]);
            let times = (SILENCE, 7, 0);
            let heartbeats =
                HeartbeatSocket::new(vec![socket], probe, &mut key, security, peers, times)
                    .unwrap();
            node += 1;
            heartbeats
        })
    }

    /// Lets both run until they must have noticed a peer that was never heard; returns the actions
    /// of each.
    fn run([a, b]: &mut [HeartbeatSocket; 2]) -> (Vec<DetectorAction>, Vec<DetectorAction>) {
        let mut said = (Vec::new(), Vec::new());
        for now in (0..2 * STARTING * SILENCE).step_by(50 * MS as usize) {
            said.0.extend(a.handle_timeout(now));
            said.1.extend(b.handle_timeout(now));
            // Answers are read when they arrive.
            said.0.extend(a.receive(now));
            said.1.extend(b.receive(now));
        }
        said
    }

    #[test]
    fn agents_of_a_job_hear_each_other() {
        for security in [Security::Aead, Security::Crc] {
            assert_eq!(run(&mut pair(security, true, true)), (vec![], vec![]));
        }
    }

    #[test]
    fn bodies_are_read_as_they_were_written() {
        let ping = PathPing { node: 3, own: 1, their: 15, challenge: u64::MAX - 1 };
        let beats =
            [Heartbeat::Ping, Heartbeat::Ack, Heartbeat::Ask(70_000), Heartbeat::Vouch(u32::MAX)];
        let paths = [Body::Ping(ping), Body::Answer(ping)];
        for body in beats.map(Body::Beat).into_iter().chain(paths) {
            let (bytes, length) = encode(body);
            assert_eq!(decode(3, &bytes[..length]), Some(body));
            assert_eq!(decode(3, &bytes[1..length]), None);
        }
        assert_eq!(decode(3, &[6, 0, 0, 0, 0]), None);
        assert_eq!(decode(3, &[6; PATH_BYTES]), None);
        assert_eq!(decode(3, &[]), None);
    }

    #[test]
    fn agents_find_the_paths_to_each_other_under_their_key_alone() {
        for (same_key, end) in [(true, ProbeEnd::Reached), (false, ProbeEnd::Unreached(vec![1]))] {
            let [a, b] = &mut pair(Security::Aead, same_key, false);
            let mut found = None;
            for now in (0..2 * crate::path_probe::GIVE_UP_NS).step_by(5 * MS as usize) {
                a.handle_timeout(now);
                b.handle_timeout(now);
                b.receive(now);
                a.receive(now);
                found = found.or_else(|| a.poll_probe_end(now));
            }
            assert_eq!(found, Some(end));
        }
    }

    #[test]
    fn beats_under_another_key_are_not_heard() {
        let mut hearts = pair(Security::Aead, false, true);
        assert_eq!(
            run(&mut hearts),
            (vec![DetectorAction::Silent(1)], vec![DetectorAction::Silent(0)])
        );
    }

    #[test]
    fn old_beats_and_forged_ones_are_not_heard() {
        let [a, b] = &mut pair(Security::Aead, true, true);
        b.send(0, Heartbeat::Ping);
        let from = (0, b.sockets[0].local_addr().unwrap());
        let mut beat = [0; MAX_BYTES];
        let bytes = loop {
            match a.sockets[0].recv(&mut beat) {
                Ok(bytes) => break bytes,
                Err(_) => clump_os::clock::yield_now(),
            }
        };
        let good = beat[..bytes].to_vec();
        for at in 0..bytes {
            let mut forged = good.clone();
            forged[at] ^= 0x40;
            a.take(&mut forged, from, 1);
            assert_eq!(a.peers[&1].heard, 0, "byte {at}");
            a.take(&mut good[..at].to_vec(), from, 1);
            assert_eq!(a.peers[&1].heard, 0, "cut at {at}");
        }
        a.take(&mut good.clone(), from, 1);
        assert_eq!(a.peers[&1].heard, 1);
        // Replayed heartbeats do not count: the peer is silent all the same.
        let mut said = Vec::new();
        for now in (0..2 * SILENCE).step_by(100 * MS as usize) {
            a.take(&mut good.clone(), from, now);
            said.extend(a.handle_timeout(now));
        }
        assert_eq!(said, [DetectorAction::Silent(1)]);
    }
}
