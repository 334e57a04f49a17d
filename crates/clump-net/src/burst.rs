//! One call of the driver: up to 64 packets, each contiguous, which is the cheapest for a driver.

use crate::seal::Sealer;
use crate::stats::Stats;
use crate::tx_queue::{TxQueue, Unit};
use clump_driver::{Driver, DriverError, MIN_KEPT, Outgoing};
use clump_proto::{Channel, Nanos, SackBuf};
use clump_wire::{HEADER_BYTES, Header, PacketKind};
use std::net::SocketAddr;

/// Packets of one call of the driver.
const MAX_PACKETS: usize = 64;
/// Bytes of one call of the driver, as much as one segmented send takes.
const MAX_BYTES: usize = 128 << 10;

/// A packet that was loaded.
#[derive(Debug, Clone, Copy)]
struct Loaded {
    /// The unit of which it carries all.
    unit: Option<u64>,
    place: PacketPlace,
    bytes: usize,
}

/// Place of a packet.
#[derive(Debug, Clone, Copy)]
enum PacketPlace {
    /// Among the copies: from, to.
    Copy(usize, usize),
    /// With its unit.
    Unit,
}

/// Packets to be sent by one call of the driver. Copies lie back to back, which is cheaper still.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    packets: Vec<Loaded>,
    copies: Vec<u8>,
    /// Bytes of all packets.
    bytes: usize,
    /// True if sealed packets of units are kept, to be sent zero-copy.
    keeps: bool,
    /// Words of the packet that is stamped next.
    pub(crate) sack: SackBuf,
}

impl Burst {
    /// Returns true if no packet was loaded.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns true if sealed packets of units are kept.
    #[inline]
    pub(crate) fn keeps_sealed(&self) -> bool {
        self.keeps
    }

    /// Seals the packet of a unit: in place, unless it was sent before and may still be read there,
    /// or encryption would change it.
    #[inline]
    pub(crate) fn seal_unit(
        &mut self,
        header: &Header,
        sealer: &Sealer,
        (queue, unit): (&mut TxQueue, &mut Unit),
    ) {
        debug_assert!(header.number > 0, "the header is stamped");
        let seal = |packet: &mut [u8]| {
            if let Some(head) = packet.first_chunk_mut() {
                *head = header.encode(0);
            }
            sealer.seal_whole(header.number, packet, HEADER_BYTES);
            packet.len()
        };
        if self.packets.is_empty() {
            // Encrypted packets are kept if they are many enough for a zero-copy send.
            self.keeps |= sealer.in_place() && queue.is_worth_zero_copy(unit);
        }
        let sealed = match () {
            () if unit.is_fixed() => None,
            () if !sealer.in_place() => unit.packet_mut(&mut queue.memory).map(seal),
            () if self.keeps => unit.keep_sealed(&mut queue.memory, seal),
            () => None,
        };
        let Some(bytes) = sealed else {
            let body = unit.body(&queue.memory, sealer).unwrap_or_default();
            debug_assert!(!body.is_empty(), "its packet opens again");
            return self.copy(header, sealer, &body);
        };
        debug_assert!(bytes == HEADER_BYTES + unit.bytes() + sealer.tag_bytes(), "its packet");
        self.packets.push(Loaded { unit: Some(header.unit), place: PacketPlace::Unit, bytes });
        debug_assert!(self.packets.len() <= MAX_PACKETS, "a call of the driver takes so many");
        self.bytes += bytes;
    }

    /// Adds a copy of a packet: its header, selective acknowledgements unless it carries a unit, or
    /// a part of one, its body, and the trailer that protects all of it.
    #[inline]
    pub(crate) fn copy(&mut self, header: &Header, sealer: &Sealer, body: &[u8]) {
        let Self { packets, copies, sack, .. } = self;
        let carries = matches!(header.kind, PacketKind::Data | PacketKind::Fragment);
        let words = if carries { &[] } else { sack.words() };
        debug_assert!(header.number > 0, "the header is stamped");
        let begin = copies.len();
        copies.extend_from_slice(&header.encode(words.len()));
        for word in words {
            copies.extend_from_slice(&word.to_le_bytes());
        }
        let body_at = copies.len();
        copies.extend_from_slice(body);
        let tail_at = copies.len();
        copies.resize(tail_at + sealer.tag_bytes(), 0);
        let (packet, tail) = copies.split_at_mut(tail_at);
        let (before, copy) = packet.split_at_mut(body_at);
        sealer.seal(header.number, before.get(begin..).unwrap_or_default(), copy, tail);
        let bytes = copies.len() - begin;
        debug_assert!(bytes >= HEADER_BYTES + body.len(), "all of it is there");
        let place = PacketPlace::Copy(begin, copies.len());
        // A fragment that is refused is lost: taken back, its unit would begin again with the first
        // fragment before the driver has room for the last.
        let whole = header.kind == PacketKind::Data;
        packets.push(Loaded { unit: whole.then_some(header.unit), place, bytes });
        self.bytes += bytes;
    }

    /// Returns true if a call of the driver takes no further packet.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        debug_assert!(self.packets.len() <= MAX_PACKETS, "a call of the driver takes so many");
        self.packets.len() == MAX_PACKETS || self.bytes >= MAX_BYTES
    }

    /// Returns true if no further packet should go by the same call: it takes none, or what follows
    /// lies in another send buffer. One contiguous buffer costs less than one and a part of the
    /// next.
    #[inline]
    pub(crate) fn is_full(&self, queue: &TxQueue, newest: Option<&Unit>) -> bool {
        let long = self.packets.len() > 1 && self.bytes >= MIN_KEPT;
        self.is_long() || (long && queue.ends_buffer(self.keeps, newest))
    }

    /// Sends every packet that was loaded, by one call of the driver or two, and is empty again.
    /// The channel takes the units of those that the driver has not taken back. Returns true if it
    /// has taken all.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: Nanos,
        (driver, to): (&mut (dyn Driver + 'static), SocketAddr),
        (channel, queue): (&mut Channel<Unit>, &TxQueue),
        stats: &mut Stats,
    ) -> bool {
        let result = match *self.packets.as_slice() {
            [only] if self.bytes < MIN_KEPT || matches!(only.place, PacketPlace::Copy(..)) => {
                let packet = self.packet(&only, (channel, queue));
                driver.send(&[Outgoing { to, head: packet, body: &[], tail: &[] }])
            }
            _ => self.send_many((driver, to), (channel, queue)),
        };
        debug_assert!(taken_of(&result) <= self.packets.len(), "no more than there is");
        let complete = matches!(result, Ok(taken) if taken == self.packets.len());
        if complete {
            stats.packets_sent += self.packets.len() as u64;
            stats.bytes_sent += self.bytes as u64;
            channel.handle_taken();
        } else {
            self.on_refused(now, &result, (driver, to), channel, stats);
        }
        self.packets.clear();
        self.copies.clear();
        (self.bytes, self.keeps) = (0, false);
        complete
    }

    /// Sends several packets. New ones lie with their units and stay there, so that the driver may
    /// send long rows of them zero-copy.
    fn send_many(
        &self,
        (driver, to): (&mut (dyn Driver + 'static), SocketAddr),
        (channel, queue): (&mut Channel<Unit>, &TxQueue),
    ) -> Result<usize, DriverError> {
        let packet = |loaded| self.packet(loaded, (channel, queue));
        let outgoing = |loaded| Outgoing { to, head: packet(loaded), body: &[], tail: &[] };
        debug_assert!(!self.packets.is_empty(), "a call of the driver sends something");
        let all: Vec<Outgoing<'_>> = self.packets.iter().map(outgoing).collect();
        // Retransmissions are copies, and go ahead of new packets. New ones lie with their units,
        // and one lost packet in a send buffer must not be the reason to copy all of it.
        let copies =
            self.packets.iter().take_while(|loaded| matches!(loaded.place, PacketPlace::Copy(..)));
        let copies = copies.count();
        debug_assert!(copies <= all.len(), "copies are packets");
        let (again, new) = all.split_at(copies);
        let units = self.packets.get(copies..).unwrap_or_default();
        let lie_there = units.iter().all(|loaded| matches!(loaded.place, PacketPlace::Unit));
        if !lie_there || new.iter().map(Outgoing::bytes).sum::<usize>() < MIN_KEPT {
            return driver.send(&all);
        }
        if !again.is_empty() {
            match driver.send(again) {
                Ok(taken) if taken == again.len() => {}
                incomplete => return incomplete,
            }
        }
        debug_assert!(!new.is_empty(), "long bursts hold new packets");
        let sent = driver.send_zero_copy(new).map_err(|e| e.behind(copies));
        for loaded in units.iter().take(taken_of(&sent)) {
            if let Some(unit) = loaded.unit.and_then(|unit| channel.body_mut(unit)) {
                unit.on_zero_copy_send();
            }
        }
        sent.map(|taken| copies + taken)
    }

    /// Returns a packet that was loaded.
    #[inline]
    fn packet<'a>(
        &'a self,
        loaded: &Loaded,
        (channel, queue): (&'a Channel<Unit>, &'a TxQueue),
    ) -> &'a [u8] {
        let packet = match loaded.place {
            PacketPlace::Copy(begin, end) => self.copies.get(begin..end),
            PacketPlace::Unit => {
                let unit = loaded.unit.and_then(|unit| channel.body(unit));
                unit.and_then(|unit| unit.packet(&queue.memory))
            }
        };
        debug_assert!(packet.is_some(), "a loaded packet stays until it is sent");
        packet.unwrap_or_default()
    }

    /// Handles a call of which the driver has not taken all packets: the rest was not sent.
    #[cold]
    fn on_refused(
        &self,
        now: Nanos,
        result: &Result<usize, DriverError>,
        (driver, to): (&dyn Driver, SocketAddr),
        channel: &mut Channel<Unit>,
        stats: &mut Stats,
    ) {
        let taken = taken_of(result);
        let refused = self.packets.get(taken..).unwrap_or_default();
        debug_assert!(!refused.is_empty(), "a driver takes no more than there is");
        let bytes = self.packets.iter().take(taken).map(|loaded| loaded.bytes);
        stats.bytes_sent += bytes.sum::<usize>() as u64;
        stats.packets_sent += taken as u64;
        stats.sends_refused += refused.len() as u64;
        channel.handle_refused(now, taken > 0, refused.iter().filter_map(|loaded| loaded.unit));
        if let Err(DriverError::Oversized { bytes, .. }) = result {
            channel.handle_too_big(now, *bytes, driver.path_hint(to));
        }
    }
}

/// Returns the number of packets that a driver has taken.
#[inline]
fn taken_of(result: &Result<usize, DriverError>) -> usize {
    match result {
        Ok(taken) => *taken,
        Err(error) => error.index().unwrap_or(0),
    }
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
    use clump_proto::Content;
    use clump_wire::frame::{FrameKind, Route};
    use clump_wire::{Message, Packet, Security};
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
    type InFlight = (Channel<Unit>, TxQueue);

    /// Creates an in_flight of `units` whole units of 1400 bytes, all in flight.
    fn units_in_flight(units: u64, security: Security) -> InFlight {
        let datagram = HEADER_BYTES + 1400 + security.trailer_bytes();
        let mut queue = TxQueue::new(0, datagram, true, &sealer(security));
        let route = Route { from: 1, to: 2, tag: 3 };
        let payload = vec![7; 1400 * units as usize];
        queue.append(&Message::request((FrameKind::Medium, 1), route, (&[], &payload)), None);
        let config = clump_proto::Config { initial_window_bytes: 1 << 20, ..Default::default() };
        let mut channel = Channel::new(&config, 0);
        for _ in 0..units {
            channel.launch(1, 1400, queue.launch(1, Content::Data).unwrap());
        }
        (channel, queue)
    }

    fn sealer(security: Security) -> Sealer {
        JobKey::new(&mut [3; 32]).unwrap().sealer(security, 0, 1, 1).unwrap()
    }

    /// Returns the calls to a driver that takes `most` packets at a time when these units are sent.
    fn sent(
        most: usize,
        units: &[u64],
        (channel, queue): &mut InFlight,
        security: Security,
    ) -> (usize, Notebook) {
        let sealer = sealer(security);
        let (calls, packets) = (Vec::new(), Vec::new());
        let (mut burst, mut driver) = (Burst::default(), Notebook { most, calls, packets });
        for &unit in units {
            let kind = PacketKind::Data;
            let header = Header { kind, unit, number: unit + 1, ..Header::default() };
            let body = channel.body_mut(unit).unwrap();
            burst.keeps |= sealer.in_place();
            burst.seal_unit(&header, &sealer, (queue, body));
        }
        let to = "127.0.0.1:9".parse().unwrap();
        let mut stats = Stats::default();
        let all = burst.send(1, (&mut driver, to), (channel, queue), &mut stats);
        assert_eq!(all, stats.sends_refused == 0, "the rest is counted");
        (stats.packets_sent as usize, driver)
    }

    fn flush(
        most: usize,
        units: &[u64],
        in_flight: &mut InFlight,
    ) -> (usize, Vec<(bool, Vec<u64>)>) {
        let (taken, driver) = sent(most, units, in_flight, Security::Crc);
        (taken, driver.calls)
    }

    #[test]
    fn encrypted_packets_are_sent_zero_copy_from_where_nothing_else_ever_lies() {
        let opener = JobKey::new(&mut [3; 32]).unwrap();
        let opener = opener.opener(Security::Aead, 0, 1, 1).unwrap();
        let mut in_flight = units_in_flight(80, Security::Aead);
        for from in [0, 40] {
            let send_buffer: Vec<_> = (from..from + 40).collect();
            let (_, driver) = sent(64, &send_buffer, &mut in_flight, Security::Aead);
            assert_eq!(driver.calls, [(true, send_buffer.clone())]);
            for (unit, mut packet) in send_buffer.iter().zip(driver.packets) {
                let end = opener.open_whole(unit + 1, &mut packet, HEADER_BYTES).unwrap();
                let kept = in_flight.0.body(*unit).unwrap();
                let body = kept.body(&in_flight.1.memory, &sealer(Security::Aead)).unwrap();
                assert_eq!(packet[HEADER_BYTES..end], *body);
                assert!(body.ends_with(&[7; 1000]), "as it was packed");
            }
        }
        assert!(!in_flight.1.memory.sealed_hold(&[7; 32]), "all of it is encrypted");
        let (_, again) = sent(64, &[3], &mut in_flight, Security::Aead);
        assert_eq!(again.calls, [(false, vec![3])], "what lies there is not touched");
    }

    #[test]
    fn units_that_go_out_again_do_not_keep_new_ones_from_zero_copy() {
        let mut in_flight = units_in_flight(80, Security::Crc);
        let send_buffer: Vec<_> = (0..40).collect();
        assert_eq!(flush(64, &send_buffer, &mut in_flight), (40, vec![(true, send_buffer)]));
        let next: Vec<_> = (40..80).collect();
        let both: Vec<_> = [&[3, 17][..], &next].concat();
        let calls = vec![(false, vec![3, 17]), (true, next)];
        assert_eq!(flush(64, &both, &mut in_flight), (42, calls), "in the order of their numbers");
        assert_eq!(flush(64, &[5, 41], &mut in_flight), (2, vec![(false, vec![5, 41])]));
        // Packets that a full wire does not take are not overtaken.
        assert_eq!(flush(1, &[5, 41], &mut in_flight).0, 1);
        let mut in_flight = units_in_flight(80, Security::Crc);
        assert!(!flush(64, &[0, 1], &mut in_flight).1[0].0, "too short to be worth it");
        let send_buffer: Vec<_> = (0..40).collect();
        flush(64, &send_buffer, &mut in_flight);
        let both: Vec<_> = [0, 1].into_iter().chain(40..80).collect();
        assert_eq!(flush(1, &both, &mut in_flight), (1, vec![(false, vec![0])]));
    }
}
