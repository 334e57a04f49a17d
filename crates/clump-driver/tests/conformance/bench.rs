//! Drivers under test, and the operations that the cases share.

use crate::rigs::Made;
use clump_driver::{Driver, Ecn, Inbound, Outgoing};
use std::net::SocketAddr;

/// Time after which anything missing counts as lost.
const TIME_LIMIT_NS: u64 = 20_000_000_000;

/// A datagram that arrived, copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    pub bytes: Vec<u8>,
    pub from: SocketAddr,
    pub ecn: Ecn,
    pub arrived_ns: Option<u64>,
}

/// Four drivers that reach each other; the first sends.
pub struct Bench {
    pub drivers: Vec<Box<dyn Driver>>,
    inbound: Inbound,
}

/// Runs `case` over the drivers that `make` makes, or prints why it cannot.
pub fn with(make: fn(usize) -> Made, case: fn(&mut Bench)) {
    match make(4) {
        Ok(drivers) => case(&mut Bench { drivers, inbound: Inbound::new(32) }),
        Err(why) => eprintln!("SKIPPED: this machine has no such driver: {why}"),
    }
}

impl Bench {
    pub fn address(&self, driver: usize) -> SocketAddr {
        self.drivers[driver].local()
    }

    /// Returns the largest datagram from the first driver to another.
    pub fn largest(&self, to: usize) -> usize {
        let hint = self.drivers[0].path_hint(self.address(to));
        hint.expect("the local interface knows its size")
    }

    /// Sends all of `batch` from `from`, repeatedly where the wire is full.
    pub fn send_all(&mut self, from: usize, batch: &[Outgoing<'_>]) {
        let (mut sent, deadline) = (0, deadline());
        while sent < batch.len() {
            sent += self.drivers[from].send(&batch[sent..]).unwrap();
            assert!(clump_os::clock::now_ns() < deadline, "only {sent} of {} sent", batch.len());
        }
    }

    /// Sends each payload as a datagram of its own, in one batch, cut into three parts at various
    /// places.
    pub fn send_payloads(&mut self, from: usize, to: usize, payloads: &[Vec<u8>]) {
        let to = self.address(to);
        let batch: Vec<_> =
            payloads.iter().enumerate().map(|(i, bytes)| in_parts(to, bytes, i)).collect();
        self.send_all(from, &batch);
    }

    /// Receives once, as the caller of a driver does.
    pub fn receive_once(&mut self, at: usize) -> Vec<Arrived> {
        self.inbound.clear();
        let received = self.drivers[at].receive(&mut self.inbound).unwrap();
        assert_eq!(received, self.inbound.len());
        let copy = |i| {
            let datagram = self.inbound.datagram(i);
            Arrived {
                bytes: datagram.bytes.to_vec(),
                from: datagram.from,
                ecn: datagram.ecn,
                arrived_ns: datagram.arrived_ns,
            }
        };
        (0..received).map(copy).collect()
    }

    /// Receives until `count` datagrams are there.
    pub fn receive(&mut self, at: usize, count: usize) -> Vec<Arrived> {
        let (mut all, deadline) = (Vec::new(), deadline());
        while all.len() < count {
            self.push_along();
            all.extend(self.receive_once(at));
            let late = clump_os::clock::now_ns() >= deadline;
            assert!(!late, "only {} of {count} arrived", all.len());
        }
        assert_eq!(all.len(), count);
        all
    }

    /// Lets datagrams held by wrappers advance: they do so when they are called.
    pub fn push_along(&mut self) {
        self.drivers[0].send(&[]).unwrap();
    }

    /// Receives everything there, until several polls have found nothing.
    pub fn drain(&mut self, at: usize) -> Vec<Arrived> {
        let (mut all, mut empty) = (Vec::new(), 0);
        while empty < 8 {
            self.push_along();
            let some = self.receive_once(at);
            empty = if some.is_empty() { empty + 1 } else { 0 };
            all.extend(some);
        }
        all
    }
}

pub fn deadline() -> u64 {
    clump_os::clock::now_ns() + TIME_LIMIT_NS
}

/// Returns `bytes` as a datagram of three parts, some of them empty; `how` decides where it is cut.
pub fn in_parts(to: SocketAddr, bytes: &[u8], how: usize) -> Outgoing<'_> {
    let cuts = match how % 4 {
        0 => (bytes.len(), bytes.len()),
        1 => (0, bytes.len()),
        2 => (bytes.len() / 3, bytes.len() / 2),
        _ => (bytes.len().min(64), bytes.len().saturating_sub(16).max(bytes.len().min(64))),
    };
    Outgoing { to, head: &bytes[..cuts.0], body: &bytes[cuts.0..cuts.1], tail: &bytes[cuts.1..] }
}

/// Returns contents that encode number, length and position, so that any mistake shows.
pub fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (number.wrapping_mul(31) ^ i.wrapping_mul(7) ^ (i >> 8)) as u8).collect()
}

/// Returns the payloads of the arrived datagrams.
pub fn contents(arrived: &[Arrived]) -> Vec<Vec<u8>> {
    arrived.iter().map(|one| one.bytes.clone()).collect()
}
