//! Properties that only the driver over packet sockets guarantees: the choice between frames and
//! UDP, the accepted senders, and bounds. Over loopback, which takes CAP_NET_RAW.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_driver::{
    Direct, Driver, DriverError, Inbound, Outgoing, Packet, Udp, UdpOptions, packet_socket,
};
use clump_os::link::NeighborTable;
use clump_os::{clock, packet, udp};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;

const TIME_LIMIT_NS: u64 = 20_000_000_000;

fn bound() -> (std::os::fd::OwnedFd, SocketAddrV4) {
    let socket = udp::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let Some(SocketAddr::V4(local)) = udp::bound(&socket) else { panic!("no IPv4") };
    (socket, local)
}

/// Creates one driver, or prints why there is none.
fn one() -> Option<Packet> {
    let (socket, local) = bound();
    match packet_socket(local) {
        Ok(packet) => Some(Packet::new(socket, packet, UdpOptions::default()).unwrap()),
        Err(e) => {
            eprintln!("SKIPPED: {e} (run as root)");
            None
        }
    }
}

fn say(from: &mut impl Driver, to: SocketAddr, what: &[u8]) {
    let (deadline, batch) =
        (clock::now_ns() + TIME_LIMIT_NS, [Outgoing { to, head: what, body: b"", tail: b"" }]);
    while from.send(&batch).unwrap() == 0 {
        assert!(clock::now_ns() < deadline, "never sent");
    }
}

/// Receives everything there: over loopback sent datagrams have arrived, and each mechanism is
/// polled several times.
fn hear(at: &mut impl Driver) -> Vec<Vec<u8>> {
    let (mut inbound, mut all) = (Inbound::new(64), Vec::new());
    let (mut empty, start_ns) = (0, clock::now_ns());
    while empty < 1000 || clock::now_ns() - start_ns < 100_000 {
        inbound.clear();
        empty = if at.receive(&mut inbound).unwrap() > 0 { 0 } else { empty + 1 };
        all.extend((0..inbound.len()).map(|i| inbound.bytes(i).to_vec()));
    }
    all
}

/// Creates two drivers that have detected that frames arrive.
fn acquainted() -> Option<[Packet; 2]> {
    let (mut a, mut b) = (one()?, one()?);
    let deadline = clock::now_ns() + TIME_LIMIT_NS;
    while a.counts().opened == 0 || b.counts().opened == 0 {
        let (at, to) = (a.local(), b.local());
        say(&mut a, to, b"hello");
        say(&mut b, at, b"hello");
        hear(&mut a);
        hear(&mut b);
        assert!(clock::now_ns() < deadline, "{:?} {:?}", a.counts(), b.counts());
    }
    Some([a, b])
}

#[test]
fn short_bursts_go_by_frame_and_long_ones_by_udp() {
    let Some([mut a, mut b]) = acquainted() else { return };
    let (to, before) = (b.local(), a.counts().sent);
    say(&mut a, to, b"alone");
    assert_eq!((a.counts().sent, hear(&mut b)), (before + 1, vec![b"alone".to_vec()]));
    let long = [Outgoing { to, head: b"many", body: b"", tail: b"" }; 40];
    assert_eq!(a.send(&long).unwrap(), 40);
    assert_eq!(hear(&mut b).len(), 40);
    // A datagram after a burst does not overtake it.
    say(&mut a, to, b"after");
    assert_eq!((a.counts().sent, hear(&mut b)), (before + 1, vec![b"after".to_vec()]));
    let large = vec![7; 9000];
    say(&mut a, to, &large);
    assert_eq!((a.counts().sent, hear(&mut b)), (before + 1, vec![large]));
    // Nor does it overtake a datagram too long for a frame, of which there may be few, sent
    // zero-copy.
    let kept = vec![8; 40_000];
    let batch = [Outgoing { to, head: &kept, body: b"", tail: b"" }; 2];
    assert_eq!(a.send_zero_copy(&batch).unwrap(), 2);
    say(&mut a, to, b"behind");
    assert_eq!(a.counts().sent, before + 1);
    assert_eq!(hear(&mut b), [&kept[..], &kept[..], b"behind"]);
}

#[test]
fn a_peer_without_frames_is_reached_by_udp() {
    let (Some(mut packet), mut udp) =
        (one(), Udp::bind("127.0.0.1:0".parse().unwrap(), UdpOptions::default()).unwrap())
    else {
        return;
    };
    let (here, there) = (packet.local(), udp.local());
    for _ in 0..200 {
        say(&mut packet, there, b"to");
        say(&mut udp, here, b"fro");
        assert_eq!((hear(&mut udp).len(), hear(&mut packet).len()), (1, 1));
    }
    let counts = packet.counts();
    assert!((counts.sent, counts.opened) == (0, 0) && counts.asked > 0, "{counts:?}");
}

#[test]
fn a_peer_that_does_not_look_gets_few_frames_and_loses_none() {
    let Some([mut a, mut b]) = acquainted() else { return };
    let (to, before) = (b.local(), a.counts().sent);
    for i in 0..2000_u32 {
        say(&mut a, to, &i.to_le_bytes());
    }
    let by_frame = a.counts().sent - before;
    assert!(by_frame < packet::SLOTS as u64 / 2, "{by_frame} frames that nobody has looked for");
    let heard = hear(&mut b);
    assert_eq!((heard.len(), b.counts().dropped), (2000, 0));
    // It polls again, so frames come back into use.
    let deadline = clock::now_ns() + TIME_LIMIT_NS;
    let opened = a.counts().opened;
    while a.counts().opened == opened {
        say(&mut a, to, b"again");
        hear(&mut b);
        hear(&mut a);
        assert!(clock::now_ns() < deadline, "{:?}", a.counts());
    }
}

#[test]
fn udp_has_its_turn_while_every_look_finds_a_frame() {
    let Some([mut a, mut b]) = acquainted() else { return };
    let mut udp = Udp::bind("127.0.0.1:0".parse().unwrap(), UdpOptions::default()).unwrap();
    let to = b.local();
    hear(&mut b);
    say(&mut udp, to, b"by udp");
    let (mut inbound, mut all) = (Inbound::new(64), Vec::new());
    for _ in 0..17 {
        say(&mut a, to, b"by frame");
        inbound.clear();
        assert!(b.receive(&mut inbound).unwrap() > 0);
        all.extend((0..inbound.len()).map(|i| inbound.bytes(i).to_vec()));
    }
    assert!(all.contains(&b"by udp".to_vec()), "{} looks that found frames", all.len());
}

#[test]
fn strangers_are_neither_heard_nor_answered() {
    let Some([mut a, b]) = acquainted() else { return };
    let (SocketAddr::V4(a_at), SocketAddr::V4(b_at)) = (a.local(), b.local()) else { return };
    let raw = packet::open(0x88b6, None, &[]).unwrap();
    let lo =
        NeighborTable::open().unwrap().find(Ipv4Addr::LOCALHOST).unwrap().unwrap().interface.index;
    let frame = |kind: u8, to: SocketAddrV4, from: SocketAddrV4, says: u16, bytes: usize| {
        let mut frame = vec![0; 30 + bytes];
        frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
        frame[14] = kind;
        frame[16..18].copy_from_slice(&says.to_be_bytes());
        frame[18..20].copy_from_slice(&to.port().to_be_bytes());
        frame[20..22].copy_from_slice(&from.port().to_be_bytes());
        frame[22..26].copy_from_slice(&to.ip().octets());
        frame[26..30].copy_from_slice(&from.ip().octets());
        frame
    };
    let nobody = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 9), 9);
    let before = a.counts();
    let send = |frame: &[u8]| packet::send(raw.as_fd(), lo, frame).unwrap();
    send(&frame(0x21, b_at, a_at, 4, 40)); // for another
    send(&frame(0x22, a_at, nobody, 0, 40)); // asks, but is nobody's peer
    send(&frame(0x23, a_at, nobody, 0, 40)); // answers what was not asked
    assert_eq!(hear(&mut a), Vec::<Vec<u8>>::new());
    assert_eq!(a.counts(), before);
    send(&frame(0x21, a_at, nobody, 60, 40)); // longer than it is
    send(&frame(0x11, a_at, nobody, 40, 40)); // of another version
    send(&frame(0x24, a_at, nobody, 40, 40)); // of no kind
    assert_eq!(hear(&mut a), Vec::<Vec<u8>>::new());
    assert_eq!(a.counts().malformed, before.malformed + 3);
    // Questions and answers in the name of the peer, by one without the key.
    for kind in [0x22, 0x23] {
        send(&frame(kind, a_at, b_at, 24, 24));
    }
    send(&frame(0x23, a_at, b_at, 0, 24)); // as they were before there was one
    assert_eq!(hear(&mut a), Vec::<Vec<u8>>::new());
    let now = a.counts();
    assert_eq!((now.forged, now.malformed), (before.forged + 2, before.malformed + 4));
    assert_eq!((now.answered, now.opened), (before.answered, before.opened));
    // Who knows the form can say something, as over UDP; seals keep it out.
    send(&frame(0x21, a_at, nobody, 40, 60));
    assert_eq!(hear(&mut a), [vec![0; 40]]);
}

#[test]
fn what_was_opened_for_others_is_refused() {
    let (socket, _) = bound();
    let (not_a_packet_socket, local) = bound();
    let refused = clump_driver::take(socket, vec![not_a_packet_socket], UdpOptions::default());
    assert!(matches!(refused, Err(DriverError::Socket(_))));
    let v6 = clump_driver::open(Direct::Xdp, "[::1]:9".parse().unwrap());
    assert!(matches!(v6, Err(DriverError::Socket(_))));
    let any = udp::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    if let Ok(packet) = packet_socket(local) {
        assert!(
            Packet::new(any, packet, UdpOptions::default()).is_err(),
            "bound to no one address"
        );
    }
}
