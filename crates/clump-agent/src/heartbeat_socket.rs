//! Heartbeats between agents on the wire: encrypted packets over the agent's own socket.
//!
//! A packet of kind heartbeat has a [`Heartbeat`] as its body: one byte that says which, and the
//! node that it is about (4, little-endian; 0 if none). A packet that is not sealed with the key of
//! the job for exactly this pair of agents and their incarnations, or that is a replay, is ignored.

use crate::frame::Key;
use crate::spec::AddressTable;
use clump_control::{DetectorAction, FailureDetector, Heartbeat};
use clump_driver::{ReceiveCall, ReceiveFailure, ReceiveFailures};
use clump_net::seal::{JobKey, KeyError, Opener, Sealer};
use clump_os::OsError;
use clump_wire::{HEADER_BYTES, Header, Packet, PacketKind, Security};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

/// The stack number of the agent of node 0.
const AGENT_STACK: u32 = 0xff00_0000;
/// Heartbeats read from the socket at a time: no flood keeps the agent from its other work.
const MAX_BEATS: usize = 256;
/// Receive buffer, longer than any heartbeat.
const MAX_BYTES: usize = 256;
/// Bytes of the body of a heartbeat.
const BODY_BYTES: usize = 5;

#[derive(Debug)]
struct HeartbeatPeer {
    node: u32,
    addresses: Vec<SocketAddr>,
    epoch: u32,
    sealer: Sealer,
    opener: Opener,
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
    peers: Vec<HeartbeatPeer>,
    /// Packet number of the last heartbeat sent: the nonce, so it only grows.
    sent: u64,
    /// Heartbeats taken.
    heard: u64,
    /// Datagrams received, whatever they were, and receptions that failed.
    received: u64,
    failures: ReceiveFailures,
    detector: FailureDetector,
}

impl HeartbeatSocket {
    /// Starts heartbeats, from `sockets`, as the agent of `node`; the `seed` is the same at all
    /// nodes. Consumes the key and leaves zeros.
    pub(crate) fn new(
        sockets: Vec<UdpSocket>,
        key: &mut Key,
        security: Security,
        (node, table): (u32, &AddressTable),
        (silence_ns, seed, now_ns): (u64, u64, u64),
    ) -> Result<Self, KeyError> {
        let key = JobKey::new(&mut *key)?;
        let stack = AGENT_STACK | node;
        let epoch = table.agents.get(node as usize).map_or(0, |own| own.epoch);
        let mut peers = Vec::new();
        for (other, place) in (0..).zip(&table.agents).filter(|&(other, _)| other != node) {
            let theirs = AGENT_STACK | other;
            peers.push(HeartbeatPeer {
                node: other,
                addresses: [place.address]
                    .into_iter()
                    .chain(place.others.into_iter().flatten())
                    .collect(),
                epoch: place.epoch,
                sealer: key.sealer(security, stack, epoch, theirs)?,
                opener: key.opener(security, theirs, place.epoch, stack)?,
                heard: 0,
            });
        }
        let nodes = table.agents.len() as u32;
        let detector = FailureDetector::new((node, nodes), silence_ns, seed, now_ns);
        let failures = ReceiveFailures::default();
        let job = key.job_tag();
        let (sent, heard, received) = (0, 0, 0);
        Ok(Self { sockets, job, stack, epoch, peers, sent, heard, received, failures, detector })
    }

    /// Returns the sockets, which become readable when heartbeats arrive.
    pub(crate) fn sockets(&self) -> &[UdpSocket] {
        &self.sockets
    }

    /// Returns the time for the next call of [`HeartbeatSocket::handle_timeout`].
    pub(crate) fn next_deadline_ns(&self) -> u64 {
        self.detector.next_deadline_ns()
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
                match self.sockets[at].recv(&mut datagram) {
                    Ok(bytes) => {
                        self.received += 1;
                        self.take(&mut datagram[..bytes], now_ns);
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
            // What `UdpSocket::recv` calls.
            let call = ReceiveCall::RecvFrom;
            let errno = OsError::of(call.name(), error).errno;
            self.failures.on_failure(now_ns, self.received, ReceiveFailure { call, errno });
        }
    }

    /// Why this agent hears no beats, if that is because it can receive none.
    pub(crate) fn receive_failure(&self) -> Option<ReceiveFailure> {
        self.failures.lasting()
    }

    fn take(&mut self, datagram: &mut [u8], now_ns: u64) {
        let Ok(Packet { header, sealed_at }) = Packet::parse(datagram) else { return };
        let for_this = header.job == self.job
            && (header.target, header.target_epoch) == (self.stack, self.epoch)
            && header.kind == PacketKind::Heartbeat;
        if !for_this {
            return;
        }
        let from = (header.source, header.epoch);
        let is_from = |peer: &&mut HeartbeatPeer| (AGENT_STACK | peer.node, peer.epoch) == from;
        let Some(peer) = self.peers.iter_mut().find(is_from) else { return };
        let (head, sealed) = datagram.split_at_mut(sealed_at);
        if header.number > peer.heard
            && let Some(body) = peer.opener.open(header.number, head, sealed)
            && let Some(probe) = decode(body)
        {
            peer.heard = header.number;
            self.heard += 1;
            self.detector.handle_probe(peer.node, probe, now_ns);
        }
    }

    /// Sends heartbeats if they are due. Returns peers that are silent, or heard again.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> Vec<DetectorAction> {
        if now_ns < self.detector.next_deadline_ns() {
            return Vec::new();
        }
        let mut said = self.receive(now_ns);
        self.detector.handle_timeout(now_ns);
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

    fn send(&mut self, to: u32, probe: Heartbeat) {
        let Some(peer) = self.peers.iter().find(|peer| peer.node == to) else {
            debug_assert!(false, "every other node is a peer");
            return;
        };
        self.sent += 1;
        let header = Header {
            kind: PacketKind::Heartbeat,
            job: self.job,
            source: self.stack,
            target: AGENT_STACK | peer.node,
            epoch: self.epoch,
            target_epoch: peer.epoch,
            number: self.sent,
            ..Header::default()
        };
        let mut datagram = [0; HEADER_BYTES + BODY_BYTES + 16];
        let (head, rest) = datagram.split_at_mut(HEADER_BYTES);
        let (body, tag) = rest.split_at_mut(BODY_BYTES);
        head.copy_from_slice(&header.encode(0));
        body.copy_from_slice(&encode(probe));
        let tag = &mut tag[..peer.sealer.tag_bytes()];
        let bytes = HEADER_BYTES + BODY_BYTES + tag.len();
        peer.sealer.seal(self.sent, head, body, tag);
        // A heartbeat that cannot be sent is not heard: the next may be.
        for (socket, address) in self.sockets.iter().zip(&peer.addresses) {
            let _ = socket.send_to(&datagram[..bytes], address);
        }
    }
}

fn encode(probe: Heartbeat) -> [u8; BODY_BYTES] {
    let (kind, node) = match probe {
        Heartbeat::Ping => (0, 0),
        Heartbeat::Ack => (1, 0),
        Heartbeat::Ask(node) => (2, node),
        Heartbeat::Vouch(node) => (3, node),
    };
    let [a, b, c, d] = u32::to_le_bytes(node);
    [kind, a, b, c, d]
}

fn decode(body: &[u8]) -> Option<Heartbeat> {
    let &[kind, a, b, c, d] = body else { return None };
    let node = u32::from_le_bytes([a, b, c, d]);
    Some(match kind {
        0 => Heartbeat::Ping,
        1 => Heartbeat::Ack,
        2 => Heartbeat::Ask(node),
        3 => Heartbeat::Vouch(node),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::BoundAddress;
    use clump_control::STARTING;

    const MS: u64 = 1_000_000;
    const SILENCE: u64 = 1200 * MS;

    /// Returns two agents on sockets of their own, under keys that may differ.
    fn pair(security: Security, same_key: bool) -> [HeartbeatSocket; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        let place = |epoch: u32, socket: &UdpSocket| BoundAddress {
            address: socket.local_addr().unwrap(),
            others: Default::default(),
            epoch,
        };
        let agents = (5..).zip(&sockets).map(|(epoch, socket)| place(epoch, socket)).collect();
        let table = AddressTable { agents, interfaces: Vec::new(), ranks: Vec::new() };
        let bytes = *Key::random().unwrap();
        let mut node = 0;
        sockets.map(|socket| {
            let mut key =
                if same_key { Key::new(|| bytes).unwrap() } else { Key::random().unwrap() };
            let heartbeats = HeartbeatSocket::new(
                vec![socket],
                &mut key,
                security,
                (node, &table),
                (SILENCE, 7, 0),
            )
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
            assert_eq!(run(&mut pair(security, true)), (vec![], vec![]));
        }
    }

    #[test]
    fn bodies_of_heartbeats_are_read_as_they_were_written() {
        for probe in
            [Heartbeat::Ping, Heartbeat::Ack, Heartbeat::Ask(70_000), Heartbeat::Vouch(u32::MAX)]
        {
            let body = encode(probe);
            assert_eq!(decode(&body), Some(probe));
            assert_eq!(decode(&body[1..]), None);
        }
        assert_eq!(decode(&[4, 0, 0, 0, 0]), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn beats_under_another_key_are_not_heard() {
        let mut hearts = pair(Security::Aead, false);
        assert_eq!(
            run(&mut hearts),
            (vec![DetectorAction::Silent(1)], vec![DetectorAction::Silent(0)])
        );
    }

    #[test]
    fn old_beats_and_forged_ones_are_not_heard() {
        let [a, b] = &mut pair(Security::Aead, true);
        b.send(0, Heartbeat::Ping);
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
            a.take(&mut forged, 1);
            assert_eq!(a.peers[0].heard, 0, "byte {at}");
            a.take(&mut good[..at].to_vec(), 1);
            assert_eq!(a.peers[0].heard, 0, "cut at {at}");
        }
        a.take(&mut good.clone(), 1);
        assert_eq!(a.peers[0].heard, 1);
        // Replayed heartbeats do not count: the peer is silent all the same.
        let mut said = Vec::new();
        for now in (0..2 * SILENCE).step_by(100 * MS as usize) {
            a.take(&mut good.clone(), now);
            said.extend(a.handle_timeout(now));
        }
        assert_eq!(said, [DetectorAction::Silent(1)]);
    }
}
