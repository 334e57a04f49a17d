//! Packets about to be sent, each contiguous: the cheapest for a driver.

use crate::outbox::{Outbox, Unit};
use crate::seal::Sealer;
use clump_driver::{Driver, DriverError, MIN_KEPT, Outgoing};
use clump_proto::{Channel, SackBuf};
use clump_wire::{HEADER_BYTES, Header};
use std::net::SocketAddr;

/// Place of a packet.
#[derive(Debug, Clone, Copy)]
enum PacketRef {
    /// In the arena.
    Copy(usize, usize),
    /// With the unit of that number.
    Unit(u64),
}

/// A batch of packets to send. Sealed copies lie back to back, which is cheaper still.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    packet_refs: Vec<PacketRef>,
    bytes: Vec<u8>,
    pub(crate) sack: SackBuf,
}

impl Arena {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.packet_refs.clear();
        self.bytes.clear();
        debug_assert!(self.len() == 0, "a burst begins empty");
    }

    /// Returns the number of packets.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.packet_refs.len()
    }

    /// Adds the packet of a unit, and returns the bytes of the unit. Header and checksum are
    /// written around it, unless it was sent before and may still be read in place, or encryption
    /// would change it. `much`: an encrypted packet is one of so many that it should be kept for a
    /// zero-copy send too.
    #[inline]
    pub(crate) fn load_unit(
        &mut self,
        header: &Header,
        sealer: &Sealer,
        (outbox, unit): (&mut Outbox, &mut Unit),
        much: bool,
    ) -> usize {
        debug_assert!(header.number > 0, "the header is stamped");
        let again = unit.is_fixed();
        if much
            && !again
            && sealer.in_place()
            && outbox.keep_sealed(unit, |packet| seal(header, sealer, packet))
        {
            self.packet_refs.push(PacketRef::Unit(header.unit));
            return unit.bytes();
        }
        if again || sealer.in_place() {
            let body = outbox.body(unit, sealer).unwrap_or_default();
            debug_assert!(!body.is_empty(), "its packet opens again");
            let bytes = body.len();
            self.load(header, false, sealer, &body);
            return bytes;
        }
        let body_bytes = sum_up(header, sealer, outbox.packet_mut(unit));
        debug_assert!(body_bytes > 0, "a unit in flight has its packet");
        if body_bytes > 0 {
            self.packet_refs.push(PacketRef::Unit(header.unit));
        }
        body_bytes
    }

    /// Adds a packet: its header, with selective acknowledgements if asked for, its body, and the
    /// trailer that protects both.
    #[inline]
    pub(crate) fn load(&mut self, header: &Header, with_sack: bool, sealer: &Sealer, body: &[u8]) {
        let Self { packet_refs, bytes, sack } = self;
        let words = if with_sack { sack.words() } else { &[] };
        debug_assert!(header.number > 0, "the header is stamped");
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
        debug_assert!(bytes.len() - begin >= HEADER_BYTES + body.len(), "all of it is there");
        let before = packet_refs.iter().rev().find_map(|before| match before {
            PacketRef::Copy(_, end) => Some(*end),
            PacketRef::Unit(_) => None,
        });
        debug_assert!(before.is_none_or(|end| end == begin), "copies lie back to back");
        packet_refs.push(PacketRef::Copy(begin, bytes.len()));
    }

    /// Sends every packet that was loaded; returns how many packets the driver took, and the bytes
    /// of all. Packets that lie with their units stay there, so the driver may send long bursts of
    /// them zero-copy.
    #[inline]
    pub(crate) fn flush(
        &self,
        driver: &mut dyn Driver,
        to: SocketAddr,
        channel: &mut Channel<Unit>,
        outbox: &Outbox,
    ) -> (Result<usize, DriverError>, usize) {
        let outgoing = |packet_ref: &PacketRef| {
            let packet = match *packet_ref {
                PacketRef::Copy(begin, end) => self.bytes.get(begin..end),
                PacketRef::Unit(number) => {
                    channel.body(number).and_then(|unit| outbox.packet(unit))
                }
            };
            debug_assert!(packet.is_some(), "a loaded packet stays until it is sent");
            Outgoing { to, head: packet.unwrap_or_default(), body: &[], tail: &[] }
        };
        if let [packet_ref] = self.packet_refs.as_slice() {
            let only = outgoing(packet_ref);
            let bytes = only.bytes();
            if bytes < MIN_KEPT || matches!(packet_ref, PacketRef::Copy(..)) {
                return (driver.send(&[only]), bytes);
            }
        }
        debug_assert!(self.len() > 0, "a burst holds packets");
        let all: Vec<Outgoing<'_>> = self.packet_refs.iter().map(outgoing).collect();
        let bytes = all.iter().map(Outgoing::bytes).sum();
        // Retransmissions are copies, and go ahead of new packets. New ones lie with their units,
        // and one lost packet in a send buffer must not be the reason to copy all of it.
        let copies = self
            .packet_refs
            .iter()
            .take_while(|packet_ref| matches!(packet_ref, PacketRef::Copy(..)))
            .count();
        debug_assert!(copies <= all.len(), "copies are packets");
        let (again, new) = all.split_at(copies);
        let (_, units) = self.packet_refs.split_at(copies);
        let lie_there = units.iter().all(|packet_ref| !matches!(packet_ref, PacketRef::Copy(..)));
        if !lie_there || new.iter().map(Outgoing::bytes).sum::<usize>() < MIN_KEPT {
            return (driver.send(&all), bytes);
        }
        if !again.is_empty() {
            match driver.send(again) {
                Ok(taken) if taken == again.len() => {}
                incomplete => return (incomplete, bytes),
            }
        }
        debug_assert!(!new.is_empty(), "long bursts hold new packets");
        let sent = driver.send_zero_copy(new);
        for packet_ref in units {
            if let PacketRef::Unit(number) = *packet_ref
                && let Some(unit) = channel.body_mut(number)
            {
                unit.on_zero_copy_send();
            }
        }
        (sent.map(|taken| copies + taken).map_err(|e| e.behind(copies)), bytes)
    }
}

/// Builds a packet of a unit in place.
#[inline]
fn seal(header: &Header, sealer: &Sealer, packet: &mut [u8]) {
    let Some((head, rest)) = packet.split_first_chunk_mut::<HEADER_BYTES>() else {
        clump_bug::bug!("a unit lies behind its header");
        return;
    };
    *head = header.encode(0);
    debug_assert!(rest.len() >= sealer.tag_bytes(), "there is room for the tag");
    let body = rest.len().saturating_sub(sealer.tag_bytes());
    let (body, tag) = rest.split_at_mut(body);
    sealer.seal(header.number, head, body, tag);
}

/// Writes header and checksum around a unit in place; returns its bytes.
#[inline]
fn sum_up(header: &Header, sealer: &Sealer, packet: Option<&mut [u8]>) -> usize {
    let Some(packet) = packet else { return 0 };
    let Some(body) = packet.len().checked_sub(HEADER_BYTES + sealer.tag_bytes()) else {
        clump_bug::bug!("a unit lies between its header and its checksum");
        return 0;
    };
    if let Some(head) = packet.first_chunk_mut() {
        *head = header.encode(0);
    }
    debug_assert!(packet.len() == HEADER_BYTES + body + sealer.tag_bytes());
    sealer.checksum_whole(packet, HEADER_BYTES);
    body
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
    use clump_wire::frame::{FrameHead, FrameKind, Route};
    use clump_wire::{Packet, Security};
    use std::os::fd::BorrowedFd;

    /// Records which units are sent, and whether zero-copy; takes at most `most` each time.
    struct Notebook {
        most: usize,
        calls: Vec<(bool, Vec<u64>)>,
        packets: Vec<Vec<u8>>,
    }

    impl Notebook {
        fn note(&mut self, kept: bool, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
            let unit = |one: &Outgoing<'_>| Packet::parse(one.head).unwrap().header.unit;
            let taken = batch.len().min(self.most);
            self.packets.extend(batch.iter().map(|one| one.head.to_vec()));
            self.calls.push((kept, batch[..taken].iter().map(unit).collect()));
            Ok(taken)
        }
    }

    impl Driver for Notebook {
        fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
            self.note(false, batch)
        }

        fn send_zero_copy(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
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

    /// Units in flight, and the memory that they lie in.
    type InFlight = (Channel<Unit>, Outbox);

    /// Creates an outbox of `units` whole units of 1400 bytes, all in flight.
    fn units_in_flight(units: u64, security: Security) -> InFlight {
        let in_place = security == Security::Aead;
        let mut outbox = Outbox::new(1400, security.trailer_bytes(), in_place, true);
        let route = Route { from: 1, to: 2, tag: 3 };
        let head = FrameHead {
            kind: FrameKind::Medium,
            reply: false,
            handler: 1,
            route,
            order: None,
            fragment: None,
        };
        outbox.append(&head, &[], &vec![7; 1400 * units as usize]);
        let config = clump_proto::Config { initial_window_bytes: 1 << 20, ..Default::default() };
        let mut channel = Channel::new(&config, 0);
        for _ in 0..units {
            channel.send_unit(1, 1400, outbox.launch().unwrap());
        }
        (channel, outbox)
    }

    fn sealer(security: Security) -> Sealer {
        JobKey::new(&mut [3; 32]).unwrap().sealer(security, 0, 1, 1).unwrap()
    }

    /// Returns the calls to a driver that takes `most` packets at a time when these units are sent.
    fn sent(
        most: usize,
        units: &[u64],
        (channel, outbox): &mut InFlight,
        security: Security,
    ) -> (usize, Notebook) {
        let sealer = sealer(security);
        let (calls, packets) = (Vec::new(), Vec::new());
        let (mut arena, mut driver) = (Arena::default(), Notebook { most, calls, packets });
        for &unit in units {
            let kind = clump_wire::PacketKind::Data;
            let header = Header { kind, unit, number: unit + 1, ..Header::default() };
            let body = channel.body_mut(unit).unwrap();
            arena.load_unit(&header, &sealer, (outbox, body), true);
        }
        let (result, _) = arena.flush(&mut driver, "127.0.0.1:9".parse().unwrap(), channel, outbox);
        (result.unwrap(), driver)
    }

    fn flush(most: usize, units: &[u64], outbox: &mut InFlight) -> (usize, Vec<(bool, Vec<u64>)>) {
        let (taken, driver) = sent(most, units, outbox, Security::Crc);
        (taken, driver.calls)
    }

    #[test]
    fn encrypted_packets_are_sent_zero_copy_from_where_nothing_else_ever_lies() {
        let opener = JobKey::new(&mut [3; 32]).unwrap();
        let opener = opener.opener(Security::Aead, 0, 1, 1).unwrap();
        let mut outbox = units_in_flight(80, Security::Aead);
        for from in [0, 40] {
            let send_buffer: Vec<_> = (from..from + 40).collect();
            let (_, driver) = sent(64, &send_buffer, &mut outbox, Security::Aead);
            assert_eq!(driver.calls, [(true, send_buffer.clone())]);
            for (unit, mut packet) in send_buffer.iter().zip(driver.packets) {
                let end = opener.open_whole(unit + 1, &mut packet, HEADER_BYTES).unwrap();
                let kept = outbox.0.body(*unit).unwrap();
                let body = outbox.1.body(kept, &sealer(Security::Aead)).unwrap();
                assert_eq!(packet[HEADER_BYTES..end], *body);
                assert!(body.ends_with(&[7; 1000]), "as it was packed");
            }
        }
        assert!(!outbox.1.sealed_hold(&[7; 32]), "all of it is encrypted");
        let (_, again) = sent(64, &[3], &mut outbox, Security::Aead);
        assert_eq!(again.calls, [(false, vec![3])], "what lies there is not touched");
    }

    #[test]
    fn units_that_go_out_again_do_not_keep_new_ones_from_zero_copy() {
        let mut outbox = units_in_flight(80, Security::Crc);
        let send_buffer: Vec<_> = (0..40).collect();
        assert_eq!(flush(64, &send_buffer, &mut outbox), (40, vec![(true, send_buffer)]));
        let next: Vec<_> = (40..80).collect();
        let both: Vec<_> = [&[3, 17][..], &next].concat();
        let calls = vec![(false, vec![3, 17]), (true, next)];
        assert_eq!(flush(64, &both, &mut outbox), (42, calls), "in the order of their numbers");
        assert_eq!(flush(64, &[5, 41], &mut outbox), (2, vec![(false, vec![5, 41])]));
        // Packets that a full wire does not take are not overtaken.
        assert_eq!(flush(1, &[5, 41], &mut outbox).0, 1);
        let mut outbox = units_in_flight(80, Security::Crc);
        assert!(!flush(64, &[0, 1], &mut outbox).1[0].0, "too short to be worth it");
        let send_buffer: Vec<_> = (0..40).collect();
        flush(64, &send_buffer, &mut outbox);
        let both: Vec<_> = [0, 1].into_iter().chain(40..80).collect();
        assert_eq!(flush(1, &both, &mut outbox), (1, vec![(false, vec![0])]));
    }
}
