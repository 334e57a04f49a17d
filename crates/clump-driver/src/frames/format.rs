//! The frame that carries one datagram past the kernel's IP.
//!
//! ```text
//! byte 0        6        12     14     15   16       18     20     22      26      30
//!     | to MAC | from MAC | type | v : k | 0 | length | to port | from | to IP | from IP |
//! byte 30
//!     | datagram or probe, padding
//! ```
//!
//! Padding follows the datagram. Network order. The type is the first of two that IEEE 802 sets
//! aside for local experiments. Everything after it is 16 bytes, less than the headers of IP and
//! UDP, so a datagram that fits there fits here.

use clump_os::link::Neighbor;
use clump_os::packet::Match;
use std::net::{Ipv4Addr, SocketAddrV4};

/// EtherType of the frames.
pub(super) const ETHERTYPE: u16 = 0x88b5;
/// Bytes before the datagram.
pub(super) const HEAD: usize = 30;
/// Bytes of the headers that a datagram has by IP and UDP. Frames carry no longer datagrams than
/// UDP does, though they could: a datagram must not depend on its mechanism.
pub(super) const UDP_HEADERS: usize = 28;
/// 2: questions and answers are made with a key ([`super::probe`]).
const VERSION: u8 = 2;

/// Purpose of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Carries a datagram.
    Datagram = 1,
    /// Probes whether frames arrive.
    Ask = 2,
    /// Confirms that a probe arrived.
    Answer = 3,
}

/// Decoded header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) kind: FrameKind,
    pub(super) from: SocketAddrV4,
    /// Bytes of the datagram, or of the probe.
    pub(super) bytes: usize,
}

/// Returns the header of all frames of a route; kind and length are still to be written.
pub(super) fn template(from: SocketAddrV4, to: SocketAddrV4, way: &Neighbor) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..6].copy_from_slice(&way.to);
    head[6..12].copy_from_slice(&way.interface.address);
    head[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    head[18..20].copy_from_slice(&to.port().to_be_bytes());
    head[20..22].copy_from_slice(&from.port().to_be_bytes());
    head[22..26].copy_from_slice(&to.ip().octets());
    head[26..30].copy_from_slice(&from.ip().octets());
    head
}

/// Completes a template.
#[inline]
pub(super) fn complete(head: &mut [u8; HEAD], kind: FrameKind, bytes: usize) {
    head[14] = VERSION << 4 | kind as u8;
    head[16..18].copy_from_slice(&(bytes as u16).to_be_bytes());
}

/// Returns the filter of frames for `local`: everything that the kernel compares. The port comes
/// first, because it distinguishes the ranks of a node, and each frame is offered to the sockets of
/// all of them.
pub(super) fn accept(local: SocketAddrV4) -> [Match; 3] {
    [
        Match { at: 18, width: 2, value: u32::from(local.port()) },
        Match { at: 22, width: 4, value: local.ip().to_bits() },
        Match { at: 12, width: 2, value: u32::from(ETHERTYPE) },
    ]
}

/// Parses the header of a frame of `frame_bytes`; `None` if it has another format or claims a wrong
/// length.
#[inline]
pub(super) fn parse(head: &[u8; HEAD], frame_bytes: usize) -> Option<FrameHead> {
    let kind = match head[14] {
        b if b == VERSION << 4 | FrameKind::Datagram as u8 => FrameKind::Datagram,
        b if b == VERSION << 4 | FrameKind::Ask as u8 => FrameKind::Ask,
        b if b == VERSION << 4 | FrameKind::Answer as u8 => FrameKind::Answer,
        _ => return None,
    };
    let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let bytes = usize::from(half(16));
    let host = Ipv4Addr::new(head[26], head[27], head[28], head[29]);
    let from = SocketAddrV4::new(host, half(20));
    (HEAD + bytes <= frame_bytes).then_some(FrameHead { kind, from, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::link::EthernetInterface;

    fn head(kind: FrameKind, bytes: usize) -> [u8; HEAD] {
        let interface = EthernetInterface { index: 1, address: [2; 6], mtu: 1500, loopback: false };
        let (from, to) = ("10.0.0.1:7000".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
        let mut head = template(from, to, &Neighbor { interface, to: [3; 6] });
        complete(&mut head, kind, bytes);
        head
    }

    #[test]
    fn a_frame_reads_as_it_was_written_and_matches_its_addressee() {
        for kind in [FrameKind::Datagram, FrameKind::Ask, FrameKind::Answer] {
            let head = head(kind, 1000);
            let from = "10.0.0.1:7000".parse().unwrap();
            let expected = Some(FrameHead { kind, from, bytes: 1000 });
            assert_eq!(parse(&head, HEAD + 1000), expected);
            assert_eq!(parse(&head, HEAD + 1500), expected, "padded on the way");
            assert_eq!(parse(&head, HEAD + 999), None, "shorter than it says");
            for one in accept("10.0.0.2:9".parse().unwrap()) {
                let at = one.at as usize;
                let value = head[at..at + usize::from(one.width)].iter();
                assert_eq!(value.fold(0, |all, b| all << 8 | u32::from(*b)), one.value);
            }
        }
    }

    #[test]
    fn other_versions_and_kinds_are_refused() {
        let mut other = head(FrameKind::Datagram, 0);
        for first in (0..=255_u8).filter(|b| !(0x21..=0x23).contains(b)) {
            other[14] = first;
            assert_eq!(parse(&other, 100), None);
        }
    }
}
