//! The pcap format (draft-ietf-opsawg-pcap, sections 4 and 5): nanosecond times, link type RAW,
//! each packet an IP and a UDP header made up for the datagram that follows them.

use super::counts::TraceCounts;
use super::limits::TraceLimits;
use crate::inbound::Ecn;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, SocketAddr};

/// Nanosecond times, in the byte order of the writer: little endian here.
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: (u16, u16) = (2, 4);
/// Packets begin with their IP header, whose first half byte is the version.
const LINKTYPE_RAW: u32 = 101;
const FILE_HEADER_BYTES: u64 = 24;
const RECORD_HEADER_BYTES: usize = 16;
const UDP: u8 = 17;
const HOPS: u8 = 64;
const V4_HEADER_BYTES: usize = 20;
const V6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;

/// A datagram to record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Nanoseconds since 1970.
    pub(super) time_ns: u64,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) ecn: Ecn,
    pub(super) payload: &'a [u8],
}

/// A capture that is being written.
pub(super) struct Capture {
    sink: BufWriter<Box<dyn Write + Send>>,
    limits: TraceLimits,
    bytes: u64,
    counts: TraceCounts,
    broken: bool,
    headers: Vec<u8>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Capture {
    pub(super) fn new(sink: Box<dyn Write + Send>, limits: TraceLimits) -> Self {
        let mut header = Vec::with_capacity(FILE_HEADER_BYTES as usize);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        header.extend_from_slice(&VERSION.0.to_le_bytes());
        header.extend_from_slice(&VERSION.1.to_le_bytes());
        header.extend_from_slice(&[0; 8]);
        let kept = u32::try_from(limits.packet_bytes).unwrap_or(u32::MAX);
        header.extend_from_slice(&kept.to_le_bytes());
        header.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        let mut sink = BufWriter::with_capacity(1 << 16, sink);
        let broken = sink.write_all(&header).is_err();
        let (counts, headers) = (TraceCounts::default(), Vec::new());
        Self { sink, limits, bytes: FILE_HEADER_BYTES, counts, broken, headers }
    }

    pub(super) fn counts(&self) -> TraceCounts {
        self.counts
    }

    pub(super) fn flush(&mut self) {
        self.broken |= self.sink.flush().is_err();
    }

    /// Records one datagram, or counts it as left out. Once one did not fit, none is recorded any
    /// more, so that a capture has no holes.
    pub(super) fn write(&mut self, frame: &Frame<'_>) {
        let headers = &mut self.headers;
        headers.clear();
        headers.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        put_packet_headers(headers, frame);
        let packet = headers.len() - RECORD_HEADER_BYTES + frame.payload.len();
        let kept = packet.min(self.limits.packet_bytes);
        let record = (RECORD_HEADER_BYTES + kept) as u64;
        if self.broken || self.counts.left_out > 0 || self.bytes + record > self.limits.bytes {
            self.counts.left_out += 1;
            return;
        }
        put_record_header(headers, frame.time_ns, kept, packet);
        let of_headers = headers.len().min(RECORD_HEADER_BYTES + kept);
        let of_payload = kept.saturating_sub(headers.len() - RECORD_HEADER_BYTES);
        let result = self
            .sink
            .write_all(&headers[..of_headers])
            .and_then(|()| self.sink.write_all(&frame.payload[..of_payload]));
        if result.is_err() {
            self.broken = true;
            self.counts.left_out += 1;
            return;
        }
        self.bytes += record;
        self.counts.written += 1;
    }
}

fn put_record_header(record: &mut [u8], time_ns: u64, kept: usize, packet: usize) {
    let seconds = u32::try_from(time_ns / 1_000_000_000).unwrap_or(u32::MAX);
    let ns = (time_ns % 1_000_000_000) as u32;
    // Packets are below 65,576 bytes.
    let fields = [seconds, ns, kept as u32, packet as u32];
    for (place, field) in record.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
}

fn put_packet_headers(into: &mut Vec<u8>, frame: &Frame<'_>) {
    // Lengths fit: no driver carries more than 65,507 bytes over IPv4 or 65,527 over IPv6.
    let udp_bytes = (UDP_HEADER_BYTES + frame.payload.len()) as u16;
    let start = into.len();
    let (from, to) = match (frame.from.ip(), frame.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = udp_bytes.saturating_add(V4_HEADER_BYTES as u16);
            into.extend_from_slice(&[0x45, frame.ecn.traffic_class()]);
            into.extend_from_slice(&total.to_be_bytes());
            // No identification, do not fragment.
            into.extend_from_slice(&[0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
            into.extend_from_slice(&from.octets());
            into.extend_from_slice(&to.octets());
            let sum = !folded(sum_of(0, &into[start..]));
            into[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
            put_udp_header(into, frame, udp_bytes, 0);
            return;
        }
        (from, to) => (v6(from), v6(to)),
    };
    let class = frame.ecn.traffic_class();
    into.extend_from_slice(&[0x60, class << 4, 0, 0]);
    into.extend_from_slice(&udp_bytes.to_be_bytes());
    into.extend_from_slice(&[UDP, HOPS]);
    into.extend_from_slice(&from);
    into.extend_from_slice(&to);
    debug_assert_eq!(into.len() - start, V6_HEADER_BYTES);
    // Over IPv6 a UDP checksum must be there (RFC 8200, section 8.1); over IPv4 0 means none.
    let pseudo = sum_of(u64::from(udp_bytes) + u64::from(UDP), &into[start + 8..]);
    let ports = u64::from(frame.from.port()) + u64::from(frame.to.port());
    let sum = !folded(sum_of(pseudo + ports + u64::from(udp_bytes), frame.payload));
    put_udp_header(into, frame, udp_bytes, if sum == 0 { 0xffff } else { sum });
}

fn put_udp_header(into: &mut Vec<u8>, frame: &Frame<'_>, udp_bytes: u16, sum: u16) {
    for field in [frame.from.port(), frame.to.port(), udp_bytes, sum] {
        into.extend_from_slice(&field.to_be_bytes());
    }
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Returns the sum of 16-bit words of an internet checksum (RFC 1071), not folded yet.
fn sum_of(start: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let mut sum = start;
    for word in &mut words {
        sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    sum + words.remainder().first().map_or(0, |last| u64::from(*last) << 8)
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
