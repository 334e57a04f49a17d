//! Memory of connections that are idle.

use crate::pair::{MILLISECOND, Pair};
use clump_wire::Security;
use clump_wire::SendResult;

const SECOND: u64 = 1000 * MILLISECOND;

/// Sends `count` messages of 1000 bytes, all of which arrive.
fn bulk(pair: &mut Pair, flow: clump_net::FlowId, count: u64) {
    let mut arrived = 0;
    for number in 0..count {
        while pair.send(flow, &[number], &[number as u8; 1000]) == SendResult::Full {
            pair.look(0, Some(0));
            arrived += pair.look(1, Some(0)).len() as u64;
        }
    }
    arrived += pair.drain()[1].len() as u64;
    assert_eq!(arrived, count);
}

#[test]
fn an_idle_connection_gives_back_what_bulk_has_made_it_keep_and_serves_again() {
    for security in [Security::Crc, Security::Aead] {
        let mut pair = Pair::with_credit(security, 1472, 64 << 20);
        let flow = pair.flow(0, true);
        for _ in 0..3 {
            bulk(&mut pair, flow, 500);
            assert!(pair.sides[0].stack.spare_bytes() > 100 << 10, "bulk takes buffers");
            pair.now += SECOND;
            pair.drain();
            assert_eq!(pair.sides[0].stack.spare_bytes(), 0);
            assert_eq!(pair.sides[1].stack.spare_bytes(), 0);
            let wakes = pair.sides.iter().filter_map(|side| side.stack.next_timeout()).count();
            assert_eq!(wakes, 0, "an idle stack sleeps");
        }
        // A message to an idle peer, one after the other.
        for number in 0..3 {
            assert_eq!(pair.send(flow, &[number], &[]), SendResult::Sent);
            assert_eq!(pair.drain()[1].len(), 1);
            pair.now += 2 * SECOND;
            pair.drain();
        }
    }
}

#[test]
fn an_idle_connection_under_loss_keeps_what_is_not_acknowledged() {
    let mut pair = Pair::with_credit(Security::Aead, 1472, 64 << 20);
    let flow = pair.flow(0, true);
    bulk(&mut pair, flow, 500);
    pair.sides[0].wire.lock().unwrap().cut = true;
    assert_eq!(pair.send(flow, &[7], &[1; 1000]), SendResult::Sent);
    for _ in 0..20 {
        pair.now += SECOND;
        pair.look(0, Some(0));
        assert!(pair.sides[0].stack.spare_bytes() > 0, "the message is in flight");
    }
    pair.sides[0].wire.lock().unwrap().cut = false;
    pair.now += SECOND;
    let [_, arrived] = pair.drain();
    assert_eq!(arrived.iter().map(|message| message.payload.len()).sum::<usize>(), 1000);
    pair.now += SECOND;
    pair.drain();
    assert_eq!(pair.sides[0].stack.spare_bytes(), 0);
}

#[test]
fn a_connection_with_pauses_keeps_its_buffers() {
    let mut pair = Pair::with_credit(Security::Crc, 1472, 64 << 20);
    let flow = pair.flow(0, true);
    bulk(&mut pair, flow, 500);
    let kept = pair.sides[0].stack.spare_bytes();
    for number in 0..30 {
        // 100 ms to deliver it, and as long a pause.
        assert_eq!(pair.send(flow, &[number], &[]), SendResult::Sent);
        pair.drain();
        pair.now += 100 * MILLISECOND;
        assert!(pair.sides[0].stack.spare_bytes() >= kept / 2, "after {number} messages");
    }
}
