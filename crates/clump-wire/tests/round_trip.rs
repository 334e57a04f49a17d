//! Everything written is read back the same, by the crate and by the naive reader.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_wire::frame::{
    self, FrameHead, Frames, MAX_HEAD_BYTES, MAX_WORDS, MessageFragment, Route,
};
use clump_wire::{Flags, HEADER_BYTES, Header, MAX_SACK_WORDS, Packet, PacketKind};
use proptest::prelude::*;

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::model;

fn headers() -> impl Strategy<Value = Header> {
    use PacketKind::{Ack, Close, CloseAck, Data, Fragment, Heartbeat, Probe, ProbeAck};
    let kinds = vec![Data, Ack, Probe, ProbeAck, Heartbeat, Close, CloseAck, Fragment];
    let flags = vec![Flags::NONE, Flags::ACK_NOW, Flags::HAS_ECHO];
    let flags = (prop::sample::select(flags.clone()), prop::sample::select(flags));
    let words = any::<([u32; 9], [u64; 3], u8)>();
    (prop::sample::select(kinds), flags, words).prop_map(|(kind, (one, other), words)| {
        let ([job, source, target, epoch, target_epoch, window, sent, echo, held], long, ce) =
            words;
        let [number, unit, ack] = long;
        let flags = one.with(other);
        Header {
            kind,
            flags,
            ce,
            job,
            source,
            target,
            epoch,
            target_epoch,
            number,
            unit,
            ack,
            window,
            sent,
            echo,
            held,
        }
    })
}

fn sacks() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), 0..=MAX_SACK_WORDS)
}

/// A frame to write.
#[derive(Debug, Clone)]
struct Given {
    head: FrameHead,
    words: Vec<u64>,
    payload: Vec<u8>,
}

/// Generates few routes, so that neighbours often share one.
fn routes() -> impl Strategy<Value = Route> {
    let routes = [[1, 2, 3], [1, 2, 4], [u64::MAX, 0, u64::MAX]];
    prop::sample::select(routes.map(|[from, to, tag]| Route { from, to, tag }).to_vec())
}

fn frames() -> impl Strategy<Value = Given> {
    use frame::FrameKind::{Ask, Credit, Long, Medium, Part, Returned, Short};
    let kinds = prop::sample::select(vec![Short, Medium, Long, Returned, Part, Credit, Ask]);
    let order = prop::option::of(any::<u64>());
    let fragment = prop::option::of((any::<u64>(), any::<u64>()));
    let words = prop::collection::vec(any::<u64>(), 0..=MAX_WORDS);
    let payload = prop::collection::vec(any::<u8>(), 0..100);
    let head = (kinds, any::<bool>(), any::<u8>(), routes(), order, fragment);
    (head, words, payload).prop_map(|(head, words, payload)| {
        let (kind, reply, handler, route, order, fragment) = head;
        let route = if kind == Part { Route::default() } else { route };
        // A fragment always names its message.
        let fragment = fragment.or((kind == Part).then_some((0, 0)));
        let fragment = fragment.map(|(message, at)| MessageFragment { message, at });
        Given { head: FrameHead { kind, reply, handler, route, order, fragment }, words, payload }
    })
}

proptest! {
    #[test]
    fn a_packet(header in headers(), sack in sacks(), sealed in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut datagram = header.encode(sack.len()).to_vec();
        sack.iter().for_each(|word| datagram.extend(word.to_le_bytes()));
        let sealed_at = datagram.len();
        datagram.extend(&sealed);
        let packet = Packet::parse(&datagram).unwrap();
        prop_assert_eq!((packet.header, packet.sealed_at), (header, sealed_at));
        let mut words = [0; MAX_SACK_WORDS];
        prop_assert_eq!(packet.sack(&datagram, &mut words), &sack[..]);
        prop_assert_eq!(model::packet(&datagram).unwrap(), (model::fields(&header), sack, sealed_at));
    }

    /// Checks that every bit of a header is significant: no change on the way goes unnoticed.
    #[test]
    fn no_two_headers_look_alike(header in headers(), bit in 0..8 * HEADER_BYTES) {
        let mut bytes = header.encode(0);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let long_enough = [&bytes[..], &[0; 8 * MAX_SACK_WORDS]].concat();
        if let Ok(packet) = Packet::parse(&long_enough) {
            prop_assert_ne!((packet.header, packet.sealed_at), (header, HEADER_BYTES));
        }
    }

    #[test]
    fn a_body_of_several_frames(given in prop::collection::vec(frames(), 0..12)) {
        let mut body = Vec::new();
        let mut last = None;
        for Given { head, words, payload } in &given {
            let before = body.len();
            let routed = head.kind != frame::FrameKind::Part;
            let same = routed && last == Some(head.route);
            frame::append(&mut body, head, same, words, payload);
            let bytes = frame::frame_bytes(head, same, words.len(), payload.len());
            prop_assert_eq!(body.len() - before, bytes);
            prop_assert!(bytes <= MAX_HEAD_BYTES + 8 * words.len() + payload.len() + 7);
            last = if routed { Some(head.route) } else { last };
        }
        let (expected, whole) = model::frames(&body);
        prop_assert!(whole);
        let mut read = Vec::new();
        for (frame, given) in Frames::new(&body).zip(&given) {
            let frame = frame.unwrap();
            prop_assert_eq!((frame.head, frame.payload), (given.head, &given.payload[..]));
            let mut words = [0; MAX_WORDS];
            prop_assert_eq!(frame.words(&mut words), &given.words[..]);
            read.push(model::as_message(&frame));
        }
        prop_assert_eq!(read.len(), given.len());
        prop_assert_eq!(read, expected);
    }
}
