//! Packets about to be sent, each in one piece: the cheapest for a driver.

use crate::outbox::{Making, Outbox};
use crate::seal::Sealer;
use clump_driver::{Driver, DriverError, LEAST_KEPT, Outgoing};
use clump_proto::SackBuf;
use clump_wire::{HEADER_BYTES, Header};
use std::net::SocketAddr;

/// Where a packet lies.
#[derive(Debug, Clone, Copy)]
enum Shot {
    /// Here.
    Copy(usize, usize),
    /// Where its unit lies.
    Unit(u64),
}

/// See the module. Sealed copies lie back to back, which is cheaper still.
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

    /// Adds the packet of a unit, and gives the bytes of the unit. What encryption would change is copied, and
    /// so is what was sent before and may still be read where it lies; else header and checksum are written
    /// around it.
    #[inline]
    pub(super) fn load_unit(
        &mut self,
        header: &Header,
        sealer: &Sealer,
        outbox: &mut Outbox,
    ) -> usize {
        let (unit, tag_bytes) = (header.unit, sealer.tag_bytes());
        let making = outbox.making(unit);
        if making == Making::Apart || (sealer.in_place() && making == Making::Around) {
            let body = outbox.unit(unit).unwrap_or_default();
            self.load(header, false, sealer, body);
            return body.len();
        }
        let body_bytes = match sealer.in_place() {
            true => seal_cover(header, sealer, outbox.cover_mut(unit, tag_bytes)),
            false => sum_up(header, sealer, outbox.packet_mut(unit)),
        };
        if body_bytes > 0 {
            self.shots.push(Shot::Unit(unit));
        }
        body_bytes
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
        bytes.extend_from_slice(body);
        let tail_at = bytes.len();
        bytes.resize(tail_at + sealer.tag_bytes(), 0);
        let (packet, tail) = bytes.split_at_mut(tail_at);
        let (before, copy) = packet.split_at_mut(body_at);
        sealer.seal(header.number, before.get(begin..).unwrap_or_default(), copy, tail);
        shots.push(Shot::Copy(begin, bytes.len()));
    }

    /// Sends everything that was loaded; gives how many packets the driver took, and the bytes of all. Packets that
    /// lie with their units stay there, so where they are long together the driver may show them to the kernel.
    #[inline]
    pub(super) fn fire(
        &self,
        driver: &mut dyn Driver,
        to: SocketAddr,
        outbox: &mut Outbox,
    ) -> (Result<usize, DriverError>, usize) {
        let outgoing = |shot: &Shot| {
            let packet = match *shot {
                Shot::Copy(begin, end) => self.bytes.get(begin..end),
                Shot::Unit(number) => outbox.packet(number),
            };
            Outgoing { to, head: packet.unwrap_or_default(), body: &[], tail: &[] }
        };
        if let [shot] = self.shots.as_slice() {
            let only = outgoing(shot);
            let bytes = only.bytes();
            if bytes < LEAST_KEPT || matches!(shot, Shot::Copy(..)) {
                return (driver.send(&[only]), bytes);
            }
        }
        let all: Vec<Outgoing<'_>> = self.shots.iter().map(outgoing).collect();
        let bytes = all.iter().map(Outgoing::bytes).sum();
        let lie_there = self.shots.iter().all(|shot| matches!(shot, Shot::Unit(_)));
        if bytes < LEAST_KEPT || !lie_there {
            return (driver.send(&all), bytes);
        }
        let sent = driver.send_kept(&all);
        for shot in &self.shots {
            if let Shot::Unit(number) = *shot {
                outbox.on_shown(number);
            }
        }
        (sent, bytes)
    }
}

/// Writes header and checksum around a unit where it lies; gives its bytes.
#[inline]
fn sum_up(header: &Header, sealer: &Sealer, packet: Option<&mut [u8]>) -> usize {
    let Some(packet) = packet else { return 0 };
    let Some(body) = packet.len().checked_sub(HEADER_BYTES + sealer.tag_bytes()) else { return 0 };
    if let Some(head) = packet.first_chunk_mut() {
        *head = header.encode(0);
    }
    sealer.checksum_whole(packet, HEADER_BYTES);
    body
}

/// Encrypts the copy of a unit; gives the bytes of the unit.
fn seal_cover(header: &Header, sealer: &Sealer, cover: Option<&mut [u8]>) -> usize {
    let Some((head, rest)) = cover.and_then(|cover| cover.split_at_mut_checked(HEADER_BYTES))
    else {
        return 0;
    };
    let Some(body_bytes) = rest.len().checked_sub(sealer.tag_bytes()) else { return 0 };
    let (body, tail) = rest.split_at_mut(body_bytes);
    head.copy_from_slice(&header.encode(0));
    sealer.seal(header.number, head, body, tail);
    body_bytes
}
