//! Control messages that go ahead of data (paper 003, section 4), in virtual time.

use crate::pair;
use clump_wire::Security;
use clump_wire::{Reason, SendResult};
use pair::{MILLISECOND, Pair, given, name};

fn first_words(queued: &[clump_wire::OwnedMessage]) -> Vec<u64> {
    queued.iter().filter_map(|queued| given(queued).first().copied()).collect()
}

/// Polls both sides for 20 ms; returns the first words of the messages that side 1 got.
fn arrivals(pair: &mut Pair) -> Vec<u64> {
    let mut words = Vec::new();
    for _ in 0..2000 {
        words.extend(first_words(&pair.look(1, Some(0))));
        pair.look(0, Some(0));
        pair.now += MILLISECOND / 100;
    }
    words
}

#[test]
fn control_goes_ahead_of_data_that_waits_and_data_goes_on() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    let bulk = vec![1; 2000];
    // More than the first window admits.
    for number in 0..80 {
        assert_eq!(pair.send(flow, &[number], &bulk), SendResult::Sent);
    }
    let under_way = pair.sides[0].stack.stats().units_sent;
    assert_eq!(pair.send(flow, &[1000], &[]), SendResult::Sent);
    assert_eq!(
        pair.sides[0].stack.stats().units_sent,
        under_way + 1,
        "it went at once, beyond the window"
    );
    let got = arrivals(&mut pair);
    let at = got.iter().position(|&word| word == 1000).unwrap();
    assert!(
        at as u64 <= under_way && at < 60,
        "{at} messages came before it, {under_way} were under way"
    );
    assert_eq!(got.len(), 81, "and everything came");
    assert_eq!(pair.sides[0].stack.stats().units_ahead, 1);
}

#[test]
fn control_finds_room_where_data_finds_none() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    let mut number = 0;
    // From another endpoint, so that the credit of this one is not the limit.
    let other = pair.sides[0].stack.open_flow(name(0, 1), name(1, 1), 1, false);
    while pair.send(other, &[number], &[1; 4000]) == SendResult::Sent
        || pair.send(flow, &[number], &[1; 4000]) == SendResult::Sent
    {
        number += 1;
    }
    assert_eq!(pair.send(flow, &[7, 7], &[]), SendResult::Sent);
    let kept = pair.sides[0].stack.memory_bytes();
    assert!(kept >= 256 << 10, "what waits was the limit, not credit: {kept}");
}

#[test]
fn a_flood_of_control_leaves_data_its_share() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    let mut bulk = (0..60).map(|number| pair.send(flow, &[number], &[1; 2000]));
    assert!(bulk.all(|pushed| pushed == SendResult::Sent));
    // As many small ones as find room, at every moment.
    let (mut small, mut last_bulk, mut got) = (1000, 0, Vec::new());
    for round in 0..400 {
        while pair.send(flow, &[small], &[]) == SendResult::Sent && small < 200_000 {
            small += 1;
        }
        let came = first_words(&pair.look(1, Some(0)));
        if came.iter().any(|&word| word < 60) {
            last_bulk = round;
        }
        got.extend(came);
        pair.look(0, Some(0));
        pair.now += MILLISECOND / 10;
        let consumed = got.iter().map(|&word| if word < 60 { 2064 } else { 64 }).sum();
        let now = pair.now;
        pair.sides[1].stack.report(|| now, 0, (name(1, 0), name(0, 0)), [consumed, 0]);
    }
    let data = got.iter().filter(|&&word| word < 60).count();
    assert_eq!(data, 60, "the last of it in round {last_bulk}");
    assert!(last_bulk < 20, "data had to wait for {last_bulk} rounds");
    assert!(small > 5000, "and there were {small} small ones");
}

#[test]
fn what_goes_ahead_disturbs_no_message_of_several_packets_when_the_peer_is_lost() {
    for from in 0..260 {
        let (security, from) = ([Security::Crc, Security::Aead][from % 2], from as u64 / 2);
        let mut pair = Pair::new(security);
        pair.sides[0].wire.lock().unwrap().lose_from = Some(from);
        let flow = pair.flow(0, false);
        // More than the window admits; control messages ahead of the rest then take numbers that
        // the rest would have had.
        for number in 0..12 {
            let len = 3000 + number as usize * 1000;
            let payload = vec![number as u8; len];
            assert_eq!(pair.send(flow, &[number, len as u64], &payload), SendResult::Sent);
        }
        for number in 100..112 {
            assert_eq!(pair.send(flow, &[number, 0], &[]), SendResult::Sent);
        }
        assert!(pair.sides[0].stack.stats().units_ahead > 5);
        let [_, got] = pair.drain();
        pair.sides[0].stack.lose(1, Reason::PeerLost);
        let [back, _] = pair.drain();
        let whole =
            |queued: &clump_wire::OwnedMessage| queued.payload.len() as u64 == given(queued)[1];
        assert!(got.iter().chain(&back).all(whole), "cut before datagram {from}");
        let mut all = first_words(&got);
        all.extend(first_words(&back));
        all.sort_unstable();
        // Messages that had arrived without being acknowledged may be returned too.
        all.dedup();
        let sent: Vec<u64> = (0..12).chain(100..112).collect();
        assert_eq!(all, sent, "cut before datagram {from}");
    }
}
