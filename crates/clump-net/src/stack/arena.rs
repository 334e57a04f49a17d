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
        // What goes out again is a copy, and goes ahead of what is new. That lies with its units, and one lost packet in a
        // row must not be the reason to copy all of the row.
        let copies = self.shots.iter().take_while(|shot| matches!(shot, Shot::Copy(..))).count();
        let (again, new) = all.split_at(copies);
        let (_, units) = self.shots.split_at(copies);
        let lie_there = units.iter().all(|shot| matches!(shot, Shot::Unit(_)));
        if !lie_there || new.iter().map(Outgoing::bytes).sum::<usize>() < LEAST_KEPT {
            return (driver.send(&all), bytes);
        }
        if !again.is_empty() {
            match driver.send(again) {
                Ok(taken) if taken == again.len() => {}
                incomplete => return (incomplete, bytes),
            }
        }
        let sent = driver.send_kept(new);
        for shot in units {
            if let Shot::Unit(number) = *shot {
                outbox.on_shown(number);
            }
        }
        (sent.map(|taken| copies + taken), bytes)
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

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::unimplemented,
        reason = "a test that cannot begin has failed"
    )]

    use super::*;
    use crate::seal::JobKey;
    use clump_driver::{Capabilities, Inbound};
    use clump_wire::frame::{Head, Kind, Route};
    use clump_wire::{Packet, Security};
    use std::os::fd::BorrowedFd;

    /// Notes which units are sent, and whether as what stays where it is; takes at most `most` each time.
    struct Notebook {
        most: usize,
        calls: Vec<(bool, Vec<u64>)>,
    }

    impl Notebook {
        fn note(&mut self, kept: bool, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
            let unit = |one: &Outgoing<'_>| Packet::parse(one.head).unwrap().header.unit;
            let taken = batch.len().min(self.most);
            self.calls.push((kept, batch[..taken].iter().map(unit).collect()));
            Ok(taken)
        }
    }

    impl Driver for Notebook {
        fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
            self.note(false, batch)
        }

        fn send_kept(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
            self.note(true, batch)
        }

        fn capabilities(&self) -> &Capabilities {
            unimplemented!()
        }

        fn local(&self) -> SocketAddr {
            unimplemented!()
        }

        fn receive(&mut self, _: &mut Inbound) -> Result<usize, DriverError> {
            unimplemented!()
        }

        fn readiness(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn path_hint(&self, _: SocketAddr) -> Option<usize> {
            None
        }
    }

    /// An outbox of `units` whole units of 1400 bytes, all under way.
    fn flying(units: u64) -> Outbox {
        let mut outbox = Outbox::new(1400, 4, true);
        let route = Route { from: 1, to: 2, tag: 3 };
        let head =
            Head { kind: Kind::Medium, reply: false, handler: 1, route, order: None, piece: None };
        outbox.append(&head, &[], &vec![7; 1400 * units as usize]);
        (0..units).for_each(|_| outbox.launch());
        outbox
    }

    fn fire(most: usize, units: &[u64], outbox: &mut Outbox) -> (usize, Vec<(bool, Vec<u64>)>) {
        let sealer = JobKey::new(&mut [3; 32]).unwrap().sealer(Security::Crc, 0, 1, 1).unwrap();
        let (mut arena, mut driver) = (Arena::default(), Notebook { most, calls: Vec::new() });
        for &unit in units {
            let header = Header { kind: clump_wire::Kind::Data, unit, ..Header::default() };
            arena.load_unit(&header, &sealer, outbox);
        }
        let (result, _) = arena.fire(&mut driver, "127.0.0.1:9".parse().unwrap(), outbox);
        (result.unwrap(), driver.calls)
    }

    #[test]
    fn units_that_go_out_again_do_not_keep_a_row_from_being_shown() {
        let mut outbox = flying(80);
        let row: Vec<_> = (0..40).collect();
        assert_eq!(fire(64, &row, &mut outbox), (40, vec![(true, row)]));
        let next: Vec<_> = (40..80).collect();
        let both: Vec<_> = [&[3, 17][..], &next].concat();
        let calls = vec![(false, vec![3, 17]), (true, next)];
        assert_eq!(fire(64, &both, &mut outbox), (42, calls), "in the order of their numbers");
        assert_eq!(fire(64, &[5, 41], &mut outbox), (2, vec![(false, vec![5, 41])]));
        // What a full wire does not take, nothing goes past.
        assert_eq!(fire(1, &[5, 41], &mut outbox).0, 1);
        let mut outbox = flying(80);
        assert!(!fire(64, &[0, 1], &mut outbox).1[0].0, "too short to be worth it");
        let row: Vec<_> = (0..40).collect();
        fire(64, &row, &mut outbox);
        let both: Vec<_> = [0, 1].into_iter().chain(40..80).collect();
        assert_eq!(fire(1, &both, &mut outbox), (1, vec![(false, vec![0])]));
    }
}
