//! Sending: the choice between frames and UDP, and probes of whether frames arrive.

use super::format::{self, FrameKind, HEAD};
use super::probe::PROBE_BYTES;
use super::{FrameSocket, Frames};
use crate::driver::{Driver, Outgoing};
use crate::error::DriverError;
use clump_os::{clock, packet};
use rustix::io::Errno;
use std::net::SocketAddr;

/// Longest burst that goes by frames. Each is a system call; UDP sends several datagrams by one.
const SHORT: usize = 4;

/// Result of sending a datagram by frame.
enum Sent {
    Gone,
    /// No room now.
    Full,
    /// It has to go by UDP.
    NotByFrame,
}

impl<L: FrameSocket> Frames<L> {
    /// Sends a short burst: by frames up to the first datagram that cannot, the rest by UDP.
    #[inline]
    fn send_short(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        for (taken, datagram) in batch.iter().enumerate() {
            match self.send_frame(datagram) {
                Sent::Gone => {}
                Sent::Full => return Ok(taken),
                Sent::NotByFrame => return self.send_rest(batch, taken),
            }
        }
        Ok(batch.len())
    }

    /// Sends the rest of a burst by UDP, so that it keeps its order.
    fn send_rest(&mut self, batch: &[Outgoing<'_>], first: usize) -> Result<usize, DriverError> {
        let rest = &batch[first..];
        let sent = self.udp.send(rest).map_err(|e| e.behind(first))?;
        for datagram in rest {
            self.probe_if_due(&datagram.to);
        }
        Ok(first + sent)
    }

    /// Sends a short burst by frames as far as they are in use, a long one by UDP; `kept`: its
    /// memory stays unchanged.
    #[inline]
    pub(super) fn send_either(
        &mut self,
        batch: &[Outgoing<'_>],
        kept: bool,
    ) -> Result<usize, DriverError> {
        // Over loopback a few may be longer than any frame, and worth sending zero-copy.
        let long = |datagram: &Outgoing<'_>| datagram.bytes() > packet::MAX_BYTES;
        if batch.len() > SHORT || (kept && batch.iter().any(long)) {
            return self.send_long(batch, kept);
        }
        self.send_short(batch)
    }

    /// Sends a long burst by UDP.
    fn send_long(&mut self, batch: &[Outgoing<'_>], kept: bool) -> Result<usize, DriverError> {
        let mut before = None;
        for datagram in batch {
            if before != Some(datagram.to)
                && let SocketAddr::V4(to) = datagram.to
                && let Some(at) = self.paths.towards(to)
            {
                self.paths.at(at).on_burst();
                before = Some(datagram.to);
            }
        }
        let sent = if kept { self.udp.send_zero_copy(batch)? } else { self.udp.send(batch)? };
        if let Some(first) = batch.first() {
            self.probe_if_due(&first.to);
        }
        Ok(sent)
    }

    #[inline]
    fn send_frame(&mut self, datagram: &Outgoing<'_>) -> Sent {
        let SocketAddr::V4(to) = datagram.to else { return Sent::NotByFrame };
        let Some(at) = self.paths.towards(to) else { return Sent::NotByFrame };
        let path = self.paths.at(at);
        let bytes = datagram.bytes();
        if !path.takes(bytes) {
            return Sent::NotByFrame;
        }
        let Outgoing { head, body, tail, .. } = datagram;
        let mut begin = path.head;
        format::complete(&mut begin, FrameKind::Datagram, bytes);
        // `takes` has checked the room: a path's frames are never longer than `frame`.
        let Some(frame) = self.frame.get_mut(..HEAD + bytes) else { return Sent::NotByFrame };
        let (first, rest) = frame.split_at_mut(HEAD);
        first.copy_from_slice(&begin);
        let (h, hb) = (head.len(), head.len() + body.len());
        rest[..h].copy_from_slice(head);
        rest[h..hb].copy_from_slice(body);
        rest[hb..].copy_from_slice(tail);
        match self.link.send(path.interface, frame) {
            Ok(()) => {
                self.counts.sent += 1;
                if self.paths.on_sent(at, clock::ticked_ns()) {
                    self.ask(at);
                }
                Sent::Gone
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => Sent::Full,
            // The interface is down, gone, or carries less than it reported: the route must be
            // found again.
            Err(_) => {
                self.paths.close(at);
                Sent::NotByFrame
            }
        }
    }

    /// Probes a closed destination for frames, when that is due.
    fn probe_if_due(&mut self, to: &SocketAddr) {
        let SocketAddr::V4(to) = *to else { return };
        let Some(at) = self.paths.known(to) else { return };
        if self.paths.at(at).most > 0 || !self.paths.is_due(at, clock::now_ns()) {
            return;
        }
        // If it is refused or unknown it stays closed, and the kernel is asked again later.
        let way = self.ways.find(*to.ip()).ok().flatten();
        if let Some(way) = way.filter(|way| self.link.reaches(way.interface.index)) {
            self.paths.on_neighbor(at, self.local, &way, self.link.max_bytes());
            self.ask(at);
        }
    }

    /// Asks whether frames arrive there. Lost questions are asked again.
    fn ask(&mut self, at: usize) {
        let number = self.probes.next_number();
        self.paths.on_asked(at, number, clock::ticked_ns());
        self.send_probe(at, FrameKind::Ask, number);
    }

    /// Sends a frame without a datagram.
    pub(super) fn send_probe(&mut self, at: usize, kind: FrameKind, number: u64) {
        if !self.paths.has_neighbor(at) {
            return;
        }
        let path = self.paths.at(at);
        // As short as Ethernet allows; shorter ones would be padded with arbitrary bytes by the
        // card.
        let mut frame = [0; 60];
        let mut begin = path.head;
        format::complete(&mut begin, kind, PROBE_BYTES);
        frame[..HEAD].copy_from_slice(&begin);
        let probe = self.probes.write(kind, number, (self.local, path.to));
        frame[HEAD..HEAD + PROBE_BYTES].copy_from_slice(&probe);
        let gone = self.link.send(path.interface, &frame).is_ok();
        let counter = match kind {
            FrameKind::Ask => &mut self.counts.asked,
            _ => &mut self.counts.answered,
        };
        *counter += u64::from(gone);
    }
}
