//! Golden vectors: the bytes on the wire, written by hand from the description of the format. A
//! change that breaks one of these needs a new [`VERSION`], or two builds of clump will
//! misunderstand each other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_wire::frame::{self, FrameHead, Frames, MAX_WORDS, MessageFragment, Route};
use clump_wire::{
    Flags, HEADER_BYTES, Header, MAX_SACK_WORDS, Packet, PacketKind, Refused, Security,
    UNIT_FRAGMENT_BYTES, UnitFragment, VERSION,
};

use crate::model::hex;

use hex::unhex;

/// Each field has another number, so that none can stand in for another.
const HEADER: Header = Header {
    kind: PacketKind::Data,
    flags: Flags::NONE,
    ce: 0x05,
    job: 0x0403_0201,
    source: 7,
    target: 0xff00_0002,
    epoch: 0x0a09_0807,
    target_epoch: 0x0e0d_0c0b,
    number: 0x1716_1514_1312_1110,
    unit: 0x1f1e_1d1c_1b1a_1918,
    ack: 0x2726_2524_2322_2120,
    window: 0x0010_0000,
    sent: 0x3332_3130,
    echo: 0x3736_3534,
    held: 0x3b3a_3938,
};

/// All bytes of that header but the first three.
const REST: &str = "05 01020304 07000000 020000ff 0708090a 0b0c0d0e \
    1011121314151617 18191a1b1c1d1e1f 2021222324252627 00001000 30313233 34353637 38393a3b";

#[test]
fn a_header_of_every_kind() {
    let kinds = [
        (PacketKind::Data, "21"),
        (PacketKind::Ack, "22"),
        (PacketKind::Probe, "23"),
        (PacketKind::ProbeAck, "24"),
        (PacketKind::Heartbeat, "25"),
        (PacketKind::Close, "26"),
        (PacketKind::CloseAck, "27"),
        (PacketKind::Fragment, "28"),
    ];
    for (kind, first) in kinds {
        let header = Header { kind, ..HEADER };
        let bytes = unhex(&format!("{first} 00 00 {REST}"));
        assert_eq!(header.encode(0)[..], bytes, "{kind:?}");
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.header, packet.sealed_at, packet.sack_words()), (header, 64, 0));
    }
}

#[test]
fn a_fragment_of_a_unit() {
    let fragment = UnitFragment { offset: 0x0403_0201, total: 0x0807_0605 };
    let body = unhex("01020304 05060708 a1a2a3");
    assert_eq!(fragment.encode()[..], body[..UNIT_FRAGMENT_BYTES]);
    assert_eq!(UnitFragment::parse(&body), Some((fragment, &body[UNIT_FRAGMENT_BYTES..])));
    for no_slice in ["01020304 050607", "01020304 05060708", "02000000 04000000 a1a2a3"] {
        assert_eq!(UnitFragment::parse(&unhex(no_slice)), None, "{no_slice}");
    }
}

#[test]
fn flags() {
    let both = Flags::ACK_NOW.with(Flags::HAS_ECHO);
    let all = [(Flags::NONE, "00"), (Flags::ACK_NOW, "01"), (Flags::HAS_ECHO, "02"), (both, "03")];
    let more = [(Flags::WHOLE, "04"), (Flags::MAY_HAVE_WAITED, "08")];
    for (flags, byte) in all.into_iter().chain(more) {
        let bytes = unhex(&format!("21 {byte} 00 {REST}"));
        assert_eq!(Header { flags, ..HEADER }.encode(0)[..], bytes);
        assert_eq!(Packet::parse(&bytes).unwrap().header.flags, flags);
    }
    assert!(both.has(Flags::ACK_NOW) && !Flags::ACK_NOW.has(both));
}

#[test]
fn selective_acks_lie_behind_the_header() {
    let words = [0x0807_0605_0403_0201, 0x8000_0000_0000_0001];
    let datagram = unhex(&format!("22 02 02 {REST} 0102030405060708 0100000000000080 ab cd"));
    let header = Header { kind: PacketKind::Ack, flags: Flags::HAS_ECHO, ..HEADER };
    assert_eq!(header.encode(2)[..], datagram[..HEADER_BYTES]);
    let packet = Packet::parse(&datagram).unwrap();
    assert_eq!((packet.sealed_at, packet.sack_words()), (80, 2));
    assert_eq!(packet.sack(&datagram, &mut [0; MAX_SACK_WORDS]), words);
    assert_eq!(datagram[packet.sealed_at..], [0xab, 0xcd]);
    // Of bytes that were not parsed there may be fewer.
    assert_eq!(packet.sack(&datagram[..79], &mut [0; MAX_SACK_WORDS]), [0_u64; 0]);
}

#[test]
fn the_max_selective_acks_and_one_more() {
    let mut datagram = unhex(&format!("21 00 80 {REST}"));
    datagram.resize(HEADER_BYTES + 8 * MAX_SACK_WORDS, 0xee);
    let packet = Packet::parse(&datagram).unwrap();
    assert_eq!((packet.sealed_at, packet.sack_words()), (1088, 128));
    assert_eq!(
        packet.sack(&datagram, &mut [0; MAX_SACK_WORDS]),
        [u64::from_ne_bytes([0xee; 8]); 128]
    );
    assert_eq!(HEADER.encode(MAX_SACK_WORDS)[..], datagram[..HEADER_BYTES]);
    datagram[2] = 129;
    datagram.extend([0; 8]);
    assert_eq!(Packet::parse(&datagram).unwrap_err(), Refused::Malformed);
}

#[test]
fn what_is_no_packet() {
    let good = unhex(&format!("21 00 01 {REST} 0000000000000000"));
    assert!(Packet::parse(&good).is_ok());
    for bytes in 0..good.len() {
        assert_eq!(Packet::parse(&good[..bytes]).unwrap_err(), Refused::Short, "{bytes}");
    }
    for first in 0..=255_u8 {
        let mut other = good.clone();
        other[0] = first;
        let expected = match (first >> 4, first & 0xf) {
            (VERSION, 1..=8) => None,
            (VERSION, _) => Some(Refused::Malformed),
            _ => Some(Refused::Version),
        };
        assert_eq!(Packet::parse(&other).err(), expected, "{first:#x}");
    }
    for flags in 16..=255 {
        let mut other = good.clone();
        other[1] = flags;
        assert_eq!(Packet::parse(&other).unwrap_err(), Refused::Malformed, "flags {flags:#x}");
    }
}

const ROUTE: Route =
    Route { from: 0x0102_0304_0506_0708, to: 0x1112_1314_1516_1718, tag: 0x2122_2324_2526_2728 };
const ROUTE_BYTES: &str = "0807060504030201 1817161514131211 2827262524232221";

const HEAD: FrameHead = FrameHead {
    kind: frame::FrameKind::Short,
    reply: false,
    handler: 9,
    route: ROUTE,
    order: None,
    fragment: None,
};

/// Checks that the frame is written as `bytes`, after a frame with the same route if `same`, and
/// read back the same.
fn golden(head: FrameHead, same: bool, words: &[u64], payload: &[u8], bytes: &str) {
    let before = unhex(&format!("01 00 00 00 00000000 {ROUTE_BYTES}"));
    let bytes = unhex(bytes);
    let mut body = if same { before.clone() } else { Vec::new() };
    let start = body.len();
    frame::append(&mut body, &head, same, words, payload);
    assert_eq!(body[start..], bytes, "{head:?}");
    assert_eq!(frame::frame_bytes(&head, same, words.len(), payload.len()), bytes.len());
    let mut frames = Frames::new(&body);
    if same {
        assert!(frames.next().unwrap().is_ok());
    }
    let read = frames.next().unwrap().unwrap();
    assert_eq!((read.head, read.payload), (head, payload));
    assert_eq!(read.words(&mut [0; MAX_WORDS]), words);
    assert_eq!(read.word_count(), words.len());
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    assert_eq!(read.first_words(), [word(0), word(1)]);
    assert_eq!((frames.left(), frames.next().is_none()), (0, true));
}

#[test]
fn a_short_message() {
    let bytes = format!("01 00 09 02 00000000 {ROUTE_BYTES} 0500000000000000 ffffffffffffff7f");
    golden(HEAD, false, &[5, i64::MAX as u64], &[], &bytes);
}

#[test]
fn a_short_reply_on_the_route_of_the_frame_before() {
    golden(FrameHead { reply: true, ..HEAD }, true, &[], &[], "01 03 09 00 00000000");
}

#[test]
fn a_medium_message_is_padded_to_eight_bytes() {
    let head = FrameHead { kind: frame::FrameKind::Medium, ..HEAD };
    let bytes = format!("02 00 09 00 05000000 {ROUTE_BYTES} 6162636465 000000");
    golden(head, false, &[], b"abcde", &bytes);
    let bytes = format!("02 00 09 01 08000000 {ROUTE_BYTES} 0100000000000000 6162636465666768");
    golden(head, false, &[1], b"abcdefgh", &bytes);
}

#[test]
fn a_long_message_in_order_that_begins_with_its_first_piece() {
    let head = FrameHead {
        kind: frame::FrameKind::Long,
        order: Some(0x31),
        fragment: Some(MessageFragment { message: 0x41, at: 0x0001_0000 }),
        ..HEAD
    };
    let bytes = format!(
        "03 0c 09 02 04000000 {ROUTE_BYTES} 3100000000000000 4100000000000000 0000010000000000 \
         0010000000000000 0000010000000000 deadbeef 00000000"
    );
    golden(head, false, &[0x1000, 0x10000], &[0xde, 0xad, 0xbe, 0xef], &bytes);
}

#[test]
fn a_returned_request() {
    let head = FrameHead { kind: frame::FrameKind::Returned, reply: true, handler: 0, ..HEAD };
    let bytes = format!("04 01 00 01 00000000 {ROUTE_BYTES} 0300000000000000");
    golden(head, false, &[3], &[], &bytes);
}

#[test]
fn a_part_has_no_route() {
    let fragment = Some(MessageFragment { message: 0x41, at: 0x8000 });
    let head =
        FrameHead { kind: frame::FrameKind::Part, route: Route::default(), fragment, ..HEAD };
    let bytes = "05 0a 09 00 01000000 4100000000000000 0080000000000000 7a 00000000000000";
    golden(head, false, &[], b"z", bytes);
    golden(head, true, &[], b"z", bytes);
}

#[test]
fn credit_and_the_question_for_it() {
    let head = FrameHead { kind: frame::FrameKind::Credit, handler: 0, ..HEAD };
    golden(head, false, &[9], &[], &format!("06 00 00 01 00000000 {ROUTE_BYTES} 0900000000000000"));
    let head = FrameHead { kind: frame::FrameKind::Ask, ..head };
    golden(head, true, &[9], &[], "07 02 00 01 00000000 0900000000000000");
}

#[test]
fn what_is_no_frame() {
    let whole = format!("02 00 09 01 05000000 {ROUTE_BYTES} 0100000000000000 6162636465000000");
    let whole = unhex(&whole);
    assert_eq!(Frames::new(&whole).filter(Result::is_ok).count(), 1);
    for bytes in 1..whole.len() {
        let given: Vec<_> = Frames::new(&whole[..bytes]).collect();
        assert!(matches!(given[..], [Err(frame::Malformed)]), "cut to {bytes}");
    }
    let refused = |at: usize, byte: u8, why: &str| {
        let mut other = whole.clone();
        other[at] = byte;
        let given: Vec<_> = Frames::new(&other).collect();
        assert!(matches!(given[..], [Err(frame::Malformed)]), "{why}");
    };
    for kind in (9..=255).chain([0]) {
        refused(0, kind, "a kind that is none");
    }
    for flag in [16, 32, 64, 128] {
        refused(1, flag, "a flag that is none");
    }
    refused(1, 2, "the route of no frame");
    refused(0, 5, "a part of nothing");
    refused(3, 12, "too many words");
    refused(3, 255, "far too many words");
    refused(7, 255, "a payload of 4 GiB");
}

#[test]
fn protection_and_its_names() {
    for (security, bytes, name) in [(Security::Aead, 16, "aead"), (Security::Crc, 4, "crc")] {
        assert_eq!((security.trailer_bytes(), security.name()), (bytes, name));
        assert_eq!((name.parse(), security.to_string()), (Ok(security), name.to_owned()));
    }
    assert_eq!((Security::Aead as u8, Security::Crc as u8), (0, 1));
    assert!("none".parse::<Security>().unwrap_err().contains("aead and crc"));
}
