//! Receiving: frames, found by a load from memory, and UDP, by a system call.

use super::format::{self, FrameHead, FrameKind, HEAD};
use super::probe::PROBE_BYTES;
use super::{FrameSocket, Frames, UDP_PAUSE_NS, UDP_QUIET};
use crate::driver::Driver;
use crate::error::DriverError;
use crate::inbound::{Ecn, FilledBuffer, Inbound};
use clump_os::clock;
use std::net::SocketAddrV4;

/// Maximum number of frames of one call, so that UDP gets its turn.
const AT_ONCE: usize = 64;

impl<L: FrameSocket> Frames<L> {
    /// Returns true if frames are in use, and nothing arrives by UDP.
    #[inline]
    pub(super) fn is_udp_quiet(&self) -> bool {
        self.quiet >= UDP_QUIET && self.paths.any_open()
    }

    /// Returns true if it is time to poll UDP nevertheless.
    #[inline]
    pub(super) fn udp_is_due(&self) -> bool {
        clock::ticked_ns().wrapping_sub(self.looked_ns) >= UDP_PAUSE_NS
    }

    pub(super) fn receive_udp(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        let received = self.udp.receive(into)?;
        self.quiet = if received > 0 { 0 } else { self.quiet + 1 };
        if self.quiet == 2 * UDP_QUIET {
            // A sleeper may have been woken for nothing each time.
            self.link.calm();
            self.quiet = UDP_QUIET;
        }
        if self.quiet >= UDP_QUIET {
            self.looked_ns = clock::ticked_ns();
        }
        Ok(received)
    }

    /// Takes the waiting frames, as far as there is room.
    #[inline]
    pub(super) fn receive_frames(&mut self, into: &mut Inbound) -> usize {
        let mut received = 0;
        for _ in 0..AT_ONCE {
            let Some(bytes) = self.link.waiting() else { break };
            if into.room() == 0 {
                break;
            }
            received += self.receive_frame(bytes, into);
            self.link.advance();
        }
        received
    }

    #[inline]
    fn receive_frame(&mut self, bytes: usize, into: &mut Inbound) -> usize {
        let mut head = [0; HEAD];
        if bytes >= HEAD {
            self.link.copy(0, &mut head);
        }
        let Some(FrameHead { kind, from, bytes }) = format::parse(&head, bytes) else {
            self.counts.malformed += 1;
            return 0;
        };
        let known = self.paths.known(from);
        if let Some(at) = known.filter(|_| kind == FrameKind::Datagram) {
            self.paths.on_heard(at);
        }
        match (kind, known) {
            (FrameKind::Datagram, _) => {
                let Some(place) = into.buffer().and_then(|buffer| buffer.get_mut(..bytes)) else {
                    self.counts.malformed += 1;
                    return 0;
                };
                self.link.copy(HEAD, place);
                self.counts.received += 1;
                let (from, ecn) = (from.into(), Ecn::NotEct);
                into.commit(&FilledBuffer {
                    bytes,
                    segment: None,
                    from,
                    ecn,
                    arrived_ns: None,
                    waited_ns: None,
                })
            }
            // Only peers that this driver sends to anyway are answered, and at the address known
            // for them: strangers get nothing.
            (FrameKind::Ask | FrameKind::Answer, Some(at)) => {
                self.receive_probe(kind, from, (at, bytes));
                0
            }
            (FrameKind::Ask | FrameKind::Answer, None) => 0,
        }
    }

    /// Takes a question or an answer, if it was made with the key.
    fn receive_probe(&mut self, kind: FrameKind, from: SocketAddrV4, (at, bytes): (usize, usize)) {
        let mut probe = [0; PROBE_BYTES];
        if bytes != PROBE_BYTES {
            self.counts.malformed += 1;
            return;
        }
        self.link.copy(HEAD, &mut probe);
        let Some(number) = self.probes.read(kind, &probe, (from, self.local)) else {
            self.counts.forged += 1;
            return;
        };
        if kind == FrameKind::Ask {
            self.paths.on_probe(at);
            self.send_probe(at, FrameKind::Answer, number);
            return;
        }
        let closed = self.paths.at(at).most == 0;
        if self.paths.on_answer(at, number, clock::ticked_ns()) {
            self.counts.opened += u64::from(closed && self.paths.at(at).most > 0);
        }
    }
}
