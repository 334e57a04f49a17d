use super::*;
use crate::clock::SetClock;
use crate::loopback::Hub;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// A sink that the test can read.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A sink without space.
struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A packet read back from a capture.
#[derive(Debug, PartialEq, Eq)]
struct Packet {
    time_ns: u64,
    from: SocketAddr,
    to: SocketAddr,
    ecn: u8,
    payload: Vec<u8>,
    whole: usize,
}

fn u16_be(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_le(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Returns the folded sum: 0xffff when the data includes its checksum.
fn ones_sum(parts: &[&[u8]]) -> u32 {
    let bytes: Vec<u8> = parts.concat();
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    words.fold(0, |sum, word| {
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    })
}

/// Reads a capture strictly by the format, sharing no code with the writer.
fn read(capture: &[u8]) -> Vec<Packet> {
    assert_eq!(u32_le(capture, 0), 0xa1b2_3c4d);
    assert_eq!(capture[4..8], [2, 0, 4, 0]);
    assert_eq!(u32_le(capture, 20), 101);
    let mut packets = Vec::new();
    let mut at = 24;
    while at < capture.len() {
        let [seconds, ns, kept, whole] = [0, 4, 8, 12].map(|i| u32_le(capture, at + i));
        let packet = &capture[at + 16..at + 16 + kept as usize];
        at += 16 + kept as usize;
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(ns);
        let cut = kept < whole;
        let (ecn, udp, from, to): (u8, &[u8], IpAddr, IpAddr) = match packet[0] >> 4 {
            4 => {
                assert_eq!(usize::from(u16_be(packet, 2)), whole as usize);
                assert_eq!(ones_sum(&[&packet[..20]]), 0xffff);
                let ip = |i: usize| <[u8; 4]>::try_from(&packet[i..i + 4]).unwrap().into();
                assert_eq!((packet[9], u16_be(packet, 26)), (17, 0));
                (packet[1] & 3, &packet[20..], ip(12), ip(16))
            }
            6 => {
                assert_eq!(usize::from(u16_be(packet, 4)) + 40, whole as usize);
                let ip = |i: usize| <[u8; 16]>::try_from(&packet[i..i + 16]).unwrap().into();
                assert_eq!(packet[6], 17);
                let udp = &packet[40..];
                let length = u16_be(udp, 4).to_be_bytes();
                if !cut {
                    assert_eq!(ones_sum(&[&packet[8..40], &[0, 17], &length, udp]), 0xffff);
                }
                (packet[1] >> 4 & 3, udp, ip(8), ip(24))
            }
            version => panic!("IP version {version}"),
        };
        packets.push(Packet {
            time_ns,
            from: (from, u16_be(udp, 0)).into(),
            to: (to, u16_be(udp, 2)).into(),
            ecn,
            payload: udp[8..].to_vec(),
            whole: whole as usize,
        });
    }
    packets
}

#[test]
fn a_capture_tells_what_went_through_in_both_directions() {
    for (near, far) in [("10.0.0.1:40001", "10.0.0.2:9"), ("[fd00::1]:40001", "[fd00::2]:9")] {
        let hub = Hub::default();
        let (near, far): (SocketAddr, SocketAddr) = (near.parse().unwrap(), far.parse().unwrap());
        let (sink, clock) = (Sink::default(), SetClock::default());
        let inner = hub.attach(near).unwrap();
        let mut other = hub.attach(far).unwrap();
        let mut driver = Trace::new(
            inner,
            Box::new(sink.clone()),
            TraceLimits::default(),
            Clock::Set(clock.clone()),
        );
        clock.set(3_000_000_007);
        let large = vec![7; 65_507];
        let out = |head, body| Outgoing { to: far, head, body, tail: b"!" };
        assert_eq!(driver.send(&[out(b"he", b"llo"), out(b"", b"")]).unwrap(), 2);
        assert_eq!(
            other.send(&[Outgoing { to: near, head: &large, body: b"", tail: b"" }]).unwrap(),
            1
        );
        clock.set(4_999_999_999);
        assert_eq!(driver.receive(&mut Inbound::new(1)).unwrap(), 1);
        assert_eq!(driver.counts(), TraceCounts { written: 3, left_out: 0 });
        drop(driver);
        let headers = if near.is_ipv4() { 28 } else { 48 };
        let packet = |time_ns, from, to, payload: &[u8]| Packet {
            time_ns,
            from,
            to,
            ecn: 2,
            payload: payload.to_vec(),
            whole: headers + payload.len(),
        };
        let expected = [
            packet(3_000_000_007, near, far, b"hello!"),
            packet(3_000_000_007, near, far, b"!"),
            packet(4_999_999_999, far, near, &large),
        ];
        assert_eq!(read(&sink.0.lock().unwrap()), expected);
    }
}

#[test]
fn a_capture_stays_within_its_limits_and_has_no_holes() {
    let hub = Hub::default();
    let (sink, to) = (Sink::default(), "10.0.0.2:9".parse().unwrap());
    let inner = hub.attach("10.0.0.1:1".parse().unwrap()).unwrap();
    let limits = TraceLimits { bytes: 24 + 2 * (16 + 32), packet_bytes: 32 };
    let mut driver = Trace::new(inner, Box::new(sink.clone()), limits, Clock::default());
    for bytes in [&b"long enough to be cut"[..], b"long enough to be cut, too", b"more", b""] {
        driver.send(&[Outgoing { to, head: bytes, body: b"", tail: b"" }]).unwrap();
    }
    assert_eq!(driver.counts(), TraceCounts { written: 2, left_out: 2 });
    drop(driver);
    let capture = sink.0.lock().unwrap();
    assert_eq!(capture.len() as u64, limits.bytes);
    let packets = read(&capture);
    assert_eq!((packets[0].payload.as_slice(), packets[0].whole), (&b"long"[..], 28 + 21));
    assert!(packets[0].time_ns > 1_500_000_000_000_000_000, "not a time of day");
}

#[test]
fn a_full_disk_does_not_disturb_traffic() {
    let hub = Hub::default();
    let inner = hub.attach("10.0.0.1:1".parse().unwrap()).unwrap();
    let mut other = hub.attach("10.0.0.2:9".parse().unwrap()).unwrap();
    let mut driver =
        Trace::new(inner, Box::new(FullDisk), TraceLimits::default(), Clock::default());
    let payload = vec![1; 60_000];
    for _ in 0..4 {
        let datagram = Outgoing { to: other.local(), head: &payload, body: b"", tail: b"" };
        assert_eq!(driver.send(&[datagram]).unwrap(), 1);
    }
    driver.flush();
    assert!(driver.counts().left_out > 0);
    assert_eq!(other.receive(&mut Inbound::new(8)).unwrap(), 4);
}
