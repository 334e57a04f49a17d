//! Stories of paths that carry less than they did while units are under way (RFC 8899, 4.3).

#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

mod pair;

use clump_net::Push;
use clump_wire::{Header, Kind, Packet, Security};
use pair::{MILLISECOND, Pair, Wire};

/// A pair that has found out that its path carries 8972 bytes.
fn wide(security: Security) -> Pair {
    let mut pair = Pair::over(security, 8972);
    let flow = pair.flow(0, false);
    for _ in 0..3 {
        assert_eq!(pair.send(flow, &[0], &[]), Push::Accepted);
        pair.settle();
    }
    pair.sides[0].wire.lock().unwrap().copies.clear();
    assert_eq!(pair.send(flow, &[0], &[1; 8000]), Push::Accepted);
    pair.settle();
    assert_eq!(longest(&pair), 8000 / 1000, "it is used");
    pair
}

/// Thousands of bytes of the longest packet with a unit that side 0 sent.
fn longest(pair: &Pair) -> usize {
    let data = |packet: &&Vec<u8>| Packet::parse(packet).unwrap().header.kind == Kind::Data;
    pair.sent(0).iter().filter(data).map(Vec::len).max().unwrap() / 1000
}

fn payload(number: u64) -> Vec<u8> {
    (0..7000).map(|at| (at * 3 + number) as u8).collect()
}

/// Sends ten messages over a path that `shrinks` when they are under way, and receives them once each.
fn survives(security: Security, shrinks: impl Fn(&mut Wire)) -> Pair {
    let mut pair = wide(security);
    let flow = pair.flow(0, true);
    shrinks(&mut pair.sides[0].wire.lock().unwrap());
    for number in 0..10 {
        assert_eq!(pair.send(flow, &[number], &payload(number)), Push::Accepted);
    }
    let mut got = Vec::new();
    for _ in 0..100 {
        let [_, mail] = pair.settle();
        got.extend(mail.into_iter().map(|mail| (mail.words[0], mail.payload.to_vec())));
        pair.now += 20 * MILLISECOND;
    }
    let sent: Vec<_> = (0..10).map(|number| (number, payload(number))).collect();
    assert!(got == sent, "{:?}", got.iter().map(|(number, _)| number).collect::<Vec<_>>());
    assert!(pair.sides[0].stack.is_quiet());
    pair
}

#[test]
fn units_that_have_become_too_long_for_their_path_arrive_in_slices() {
    for security in [Security::Aead, Security::Crc] {
        let pair = survives(security, |wire| wire.most = Some(1472));
        assert!(pair.sides[0].stack.stats().units_sliced >= 5);
    }
}

#[test]
fn what_the_card_refuses_is_sliced_at_once() {
    let pair = survives(Security::Aead, |wire| wire.card = Some(1472));
    // The first tells, and those behind it are made shorter.
    let sliced = pair.sides[0].stack.stats().units_sliced;
    assert!((1..5).contains(&sliced), "{sliced}");
}

#[test]
fn slices_that_are_lost_come_again_and_what_came_is_kept() {
    let pair = survives(Security::Aead, |wire| {
        wire.most = Some(1472);
        // Every third of what follows.
        wire.lose = (wire.sent..wire.sent + 2000).step_by(3).collect();
    });
    let slices = |packet: &Header| packet.kind == Kind::Slice;
    let headers =
        pair.sent(0).iter().map(|packet| Packet::parse(packet).unwrap().header).collect::<Vec<_>>();
    assert!(headers.iter().filter(|header| slices(header)).count() > 50);
}
