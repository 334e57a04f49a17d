//! Units of which only the encrypted packet is kept, in virtual time: retransmitted, and returned.

use crate::pair;
use clump_net::Progress;
use clump_wire::frame::FrameKind;
use clump_wire::{Packet, Security};
use clump_wire::{Reason, SendResult};
use pair::{Pair, given};
use std::collections::HashSet;

/// Returns bytes that are different in any two units.
fn payload(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ (at >> 8).wrapping_mul(31)) as u8).collect()
}

#[test]
fn what_is_lost_is_sent_again_out_of_its_packet_under_a_number_of_its_own() {
    let mut pair = Pair::new(Security::Aead);
    pair.sides[0].wire.lock().unwrap().lose = vec![0, 3, 17, 18, 19, 44, 100];
    let flow = pair.flow(0, false);
    let payload = payload(200_000);
    let words = [0, payload.len() as u64];
    let mut progress = Progress::default();
    assert_eq!(pair.send_long(flow, &words, &payload, &mut progress), SendResult::Sent);
    let [_, got] = pair.drain();
    assert_eq!(got.len(), 1);
    assert!(pair.sides[0].stack.stats().units_resent >= 5);
    let mut segment = vec![0; payload.len()];
    for (offset, data) in pair.sides[1].endpoints.deposits.lock().unwrap().iter() {
        let at = *offset as usize;
        segment[at..at + data.len()].copy_from_slice(data);
    }
    assert!(segment == payload, "byte by byte");
    let mut numbers = HashSet::new();
    for packet in pair.sent(0) {
        assert!(numbers.insert(Packet::parse(&packet).unwrap().header.number), "none twice");
    }
    assert_eq!(pair.sides[1].stack.stats().packets_forged, 0);
}

#[test]
fn what_did_not_arrive_comes_back_out_of_its_packet() {
    for from in (0..150).step_by(10) {
        let mut pair = Pair::new(Security::Aead);
        pair.sides[0].wire.lock().unwrap().lose_from = Some(from);
        let flow = pair.flow(0, false);
        let payload = payload(40_000);
        let mut sent = Vec::new();
        while pair.send(flow, &[sent.len() as u64], &payload) == SendResult::Sent {
            sent.push(sent.len() as u64);
        }
        let [_, got] = pair.drain();
        pair.sides[0].stack.lose(1, Reason::PeerLost);
        let [back, _] = pair.drain();
        let asks = |queued: &&clump_wire::OwnedMessage| queued.kind == FrameKind::Ask;
        let all = || got.iter().chain(&back).filter(|queued| !asks(queued));
        assert!(all().all(|queued| queued.payload == payload), "cut before datagram {from}");
        let mut numbers: Vec<_> = all().map(|queued| given(queued)[0]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers, sent, "cut before datagram {from}");
    }
}
