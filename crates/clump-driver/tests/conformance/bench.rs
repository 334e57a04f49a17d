//! Drivers under test, and the few things that every case does with them.

use crate::rigs::Made;
use clump_driver::{Driver, Ecn, Inbound, Outgoing};
use std::net::SocketAddr;

/// How long anything may take before it counts as lost.
const PATIENCE_NS: u64 = 20_000_000_000;

/// What arrived, copied out.
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

/// Runs `case` over the drivers that `make` makes, or says why it cannot.
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

    /// Largest datagram from the first driver to another.
    pub fn largest(&self, to: usize) -> usize {
        let hint = self.drivers[0].path_hint(self.address(to));
        hint.expect("the local interface knows its size")
    }

    /// Sends all of `batch` from `from`, again and again where the wire is full.
    pub fn send_all(&mut self, from: usize, batch: &[Outgoing<'_>]) {
        let (mut sent, deadline) = (0, deadline());
        while sent < batch.len() {
            sent += self.drivers[from].send(&batch[sent..]).unwrap();
            assert!(clump_os::clock::now_ns() < deadline, "only {sent} of {} sent", batch.len());
        }
    }

    /// Sends each payload as a datagram of its own, in one batch, cut into three parts here or there.
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

    /// Lets what wrappers hold move on: they do so when they are called.
    pub fn push_along(&mut self) {
        self.drivers[0].send(&[]).unwrap();
    }

    /// Receives what is there, until several polls have found nothing.
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
    clump_os::clock::now_ns() + PATIENCE_NS
}

/// `bytes` as a datagram of three parts, some of them empty; `how` decides where it is cut.
pub fn in_parts(to: SocketAddr, bytes: &[u8], how: usize) -> Outgoing<'_> {
    let cuts = match how % 4 {
        0 => (bytes.len(), bytes.len()),
        1 => (0, bytes.len()),
        2 => (bytes.len() / 3, bytes.len() / 2),
        _ => (bytes.len().min(64), bytes.len().saturating_sub(16).max(bytes.len().min(64))),
    };
    Outgoing { to, head: &bytes[..cuts.0], body: &bytes[cuts.0..cuts.1], tail: &bytes[cuts.1..] }
}

/// Contents that tell number, length and place, so that no mistake leaves them right.
pub fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (number.wrapping_mul(31) ^ i.wrapping_mul(7) ^ (i >> 8)) as u8).collect()
}

/// The payloads of what arrived.
pub fn contents(arrived: &[Arrived]) -> Vec<Vec<u8>> {
    arrived.iter().map(|one| one.bytes.clone()).collect()
}
