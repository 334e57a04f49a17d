//! The cost to a stack of a packet that is not from its peers: one thread sends as the attacker,
//! then polls.
//!
//! The attacker's own work is not in the figures, and neither is the kernel's part from the
//! interface to the socket.

use anyhow::{Context, Result, ensure};
use clump_driver::{Udp, UdpOptions};
use clump_loggp::Median;
use clump_net::seal::JobKey;
use clump_net::{Batch, EndpointTable, PeerAddress, Stack, StackConfig, Stats};
use clump_os::clock;
use clump_wire::Reason;
use clump_wire::hostile::{Attacker, Claim, Trick};
use clump_wire::{Header, PacketKind, Security};
use serde::Serialize;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Number of polls for a median.
const LOOKS: usize = 401;
/// Number of packets that wait when a crowd is received.
const CROWD: usize = 48;
const ME: u32 = 1;
const PEER: u32 = 0;
const EPOCHS: [u32; 2] = [10, 11];

/// Nanoseconds for one kind of packet.
#[derive(Debug, Clone, Serialize)]
pub struct Price {
    /// Name of the kind.
    pub name: &'static str,
    /// For one that arrives alone, the poll that finds it included.
    pub alone_ns: f64,
    /// For each of many that wait together.
    pub crowd_ns: f64,
    /// Kernel's time to hand over one that arrives alone.
    pub kernel_ns: f64,
}

/// Endpoint table without endpoints.
struct Nobody;

impl EndpointTable for Nobody {
    fn admit(&self, _: u64, _: Option<u64>) -> Result<u8, Reason> {
        Err(Reason::NoSuchEndpoint)
    }

    fn fits(&self, _: u64, _: u64, _: u64) -> Result<(), Reason> {
        Err(Reason::NoSuchEndpoint)
    }

    fn deposit(&self, _: u64, _: u64, _: &[u8]) -> Result<(), Reason> {
        Err(Reason::NoSuchEndpoint)
    }
}

/// A stack and its address, the attacker's socket, and a socket that belongs to no stack.
struct PriceBench {
    address: SocketAddr,
    stack: Stack,
    batch: Batch,
    attacker: UdpSocket,
    bare: UdpSocket,
}

/// Measures all kinds: the attacker's kinds, and a replayed packet of the peer.
///
/// # Errors
/// Fails if a socket cannot be opened, or if packets do not arrive over loopback.
pub fn measure(security: Security) -> Result<Vec<Price>> {
    let bind = || UdpSocket::bind("127.0.0.1:0").context("opening a socket");
    let (attacker, bare, to) = (bind()?, bind()?, bind()?);
    bare.set_nonblocking(true)?;
    let key = JobKey::new(&mut [7; 32])?;
    let peers = vec![PeerAddress { id: PEER, address: attacker.local_addr()?, epoch: EPOCHS[0] }];
    let config = StackConfig {
        me: ME,
        epoch: EPOCHS[1],
        security,
        channel: clump_proto::Config::default(),
        credit_bytes: 1 << 20,
        peers: Arc::new(peers),
    };
    let address = to.local_addr()?;
    let driver = Udp::new(vec![to.into()], UdpOptions::default())?;
    let stack = Stack::new(config, &key, Box::new(driver), Box::new(Nobody))?;
    let mut scene = PriceBench { address, stack, batch: Batch::default(), attacker, bare };
    let claim = Claim { source: (PEER, EPOCHS[0]), target: (ME, EPOCHS[1]), job: key.job_tag() };
    let mut maker = Attacker::new(claim);
    let mut prices = Vec::new();
    for (trick, name) in Trick::ALL.into_iter().zip(NAMES) {
        let packets: Vec<_> = (0..CROWD).map(|_| maker.packet(trick)).collect();
        prices.push(scene.price(name, &packets)?);
    }
    let genuine = genuine(&key, security)?;
    scene.attacker.send_to(&genuine, address)?;
    scene.look(1)?;
    ensure!(scene.stack.stats().packets_received == 1, "the peer's own packet was not taken");
    prices.push(scene.price("replayed", &vec![genuine; CROWD])?);
    Ok(prices)
}

/// Names in the order of [`Trick::ALL`].
const NAMES: [&str; 5] =
    ["noise", "cut short", "of another job", "of another incarnation", "forged"];

/// Returns a packet sealed as by the peer.
fn genuine(key: &JobKey, security: Security) -> Result<Vec<u8>> {
    let sealer = key.sealer(security, PEER, EPOCHS[0], ME)?;
    let header = Header {
        kind: PacketKind::Ack,
        job: key.job_tag(),
        source: PEER,
        epoch: EPOCHS[0],
        target: ME,
        target_epoch: EPOCHS[1],
        number: 1,
        ..Header::default()
    };
    let head = header.encode(0);
    let mut tail = vec![0; sealer.tag_bytes()];
    sealer.seal(header.number, &head, &mut [], &mut tail);
    Ok([&head[..], &tail].concat())
}

impl PriceBench {
    /// Polls until `wanted` packets were found. Returns nanoseconds for each.
    fn look(&mut self, wanted: usize) -> Result<f64> {
        let start = clock::now_ns();
        let mut found = 0;
        while found < wanted {
            let now = self.stack.receive(clock::now_ns, None, &mut self.batch);
            ensure!(now > 0, "{found} of {wanted} packets arrived over loopback");
            found += now;
        }
        let span = clock::now_ns() - start;
        ensure!(found == wanted, "{found} packets arrived, not {wanted}: somebody else sends here");
        Ok(each(span, wanted))
    }

    /// Returns the kernel's part for one that arrives alone.
    fn bare(&self, packet: &[u8], buffer: &mut [u8]) -> Result<f64> {
        self.attacker.send_to(packet, self.bare.local_addr()?)?;
        let start = clock::now_ns();
        self.bare.recv_from(buffer)?;
        Ok(each(clock::now_ns() - start, 1))
    }

    /// Returns the number of packets that the stack discarded.
    fn thrown(&self) -> u64 {
        let stats = self.stack.stats();
        let Stats { packets_foreign, packets_forged, packets_replayed, .. } = *stats;
        packets_foreign + packets_forged + packets_replayed + stats.packets_malformed
    }

    fn price(&mut self, name: &'static str, packets: &[Vec<u8>]) -> Result<Price> {
        let thrown = self.thrown();
        let (mut alone, mut crowd, mut kernel) = (Vec::new(), Vec::new(), Vec::new());
        let mut buffer = vec![0; 65_536];
        for packet in packets.iter().cycle().take(LOOKS) {
            self.attacker.send_to(packet, self.address)?;
            alone.push(self.look(1)?);
            kernel.push(self.bare(packet, &mut buffer)?);
        }
        for _ in 0..LOOKS {
            for packet in packets {
                self.attacker.send_to(packet, self.address)?;
            }
            crowd.push(self.look(packets.len())?);
        }
        let (thrown, sent) = (self.thrown() - thrown, LOOKS * (1 + packets.len()));
        ensure!(thrown == sent as u64, "{thrown} of {sent} packets ({name}) were thrown away");
        let median = |samples: Vec<f64>| Some(Median::of(samples)?.value);
        let all = median(alone).zip(median(crowd)).zip(median(kernel));
        let ((alone_ns, crowd_ns), kernel_ns) = all.context("nothing was measured")?;
        Ok(Price { name, alone_ns, crowd_ns, kernel_ns })
    }
}

#[expect(clippy::cast_precision_loss, reason = "spans and counts are far below 2^53")]
fn each(span: u64, count: usize) -> f64 {
    span as f64 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind is discarded, or it would be an error; no test checks its cost.
    #[test]
    fn every_kind_has_its_price() {
        for security in [Security::Aead, Security::Crc] {
            let prices = measure(security).unwrap();
            assert_eq!(prices.len(), NAMES.len() + 1);
            assert!(prices.iter().all(|price| price.alone_ns > 0.0 && price.crowd_ns > 0.0));
        }
    }
}
