//! Packets about to be sent, laid out back to back: the cheapest for a driver that sends runs of them.

use crate::seal::Sealer;
use clump_driver::{Driver, DriverError, Outgoing};
use clump_proto::SackBuf;
use clump_wire::{Header, Kind};
use std::net::SocketAddr;

/// Bodies beyond this that need not be changed stay where they are: to copy them costs more than to name
/// their parts.
const COPY_LIMIT: usize = 16 << 10;

/// One packet: head and body and trailer, or head and trailer of a body that lies elsewhere.
#[derive(Debug, Clone, Copy)]
struct Shot {
    begin: usize,
    /// Where head and trailer meet, and the unit that belongs between them.
    elsewhere: Option<(usize, u64)>,
    end: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Arena {
    shots: Vec<Shot>,
    bytes: Vec<u8>,
    pub(super) sack: SackBuf,
}

impl Arena {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.shots.clear();
        self.bytes.clear();
    }

    /// How many packets are there.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.shots.len()
    }

    /// Adds a packet: its header, with selective acknowledgements if asked for, its body, and whatever
    /// protects both.
    #[inline]
    pub(super) fn load(&mut self, header: &Header, with_sack: bool, sealer: &Sealer, body: &[u8]) {
        let Self { shots, bytes, sack } = self;
        let words = if with_sack { sack.words() } else { &[] };
        let begin = bytes.len();
        bytes.extend_from_slice(&header.encode(words.len()));
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let body_at = bytes.len();
        let stays = header.kind == Kind::Data && !sealer.in_place() && body.len() > COPY_LIMIT;
        if !stays {
            bytes.extend_from_slice(body);
        }
        let tail_at = bytes.len();
        bytes.resize(tail_at + sealer.tag_bytes(), 0);
        let (packet, tail) = bytes.split_at_mut(tail_at);
        let (before, copy) = packet.split_at_mut(body_at);
        let head = before.get(begin..).unwrap_or_default();
        if stays {
            sealer.checksum(head, body, tail);
        } else {
            sealer.seal(header.number, head, copy, tail);
        }
        let elsewhere = stays.then_some((body_at, header.unit));
        shots.push(Shot { begin, elsewhere, end: bytes.len() });
    }

    /// Sends everything that was loaded; gives how many packets the driver took, and the bytes of all.
    /// `unit` finds bodies that lie elsewhere.
    #[inline]
    pub(super) fn fire<'a>(
        &'a self,
        driver: &mut dyn Driver,
        to: SocketAddr,
        unit: impl Fn(u64) -> &'a [u8],
    ) -> (Result<usize, DriverError>, usize) {
        let outgoing = |shot: &'a Shot| {
            let (end, body) = match shot.elsewhere {
                None => (shot.end, <&[u8]>::default()),
                Some((end, number)) => (end, unit(number)),
            };
            let head = self.bytes.get(shot.begin..end).unwrap_or_default();
            let tail = self.bytes.get(end..shot.end).unwrap_or_default();
            Outgoing { to, head, body, tail }
        };
        if let [shot] = self.shots.as_slice() {
            let only = outgoing(shot);
            return (driver.send(&[only]), only.bytes());
        }
        let all: Vec<Outgoing<'_>> = self.shots.iter().map(outgoing).collect();
        (driver.send(&all), all.iter().map(Outgoing::bytes).sum())
    }
}
