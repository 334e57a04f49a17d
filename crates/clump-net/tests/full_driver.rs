//! Drivers that take no more for a while: what they do not take waits, and is no loss.

use crate::pair;
use clump_net::Progress;
use clump_wire::{Security, SendResult};
use pair::{MILLISECOND, Pair, given};

/// Sets how many datagrams side 0's driver still takes.
fn set_room(pair: &mut Pair, room: Option<u64>) {
    pair.sides[0].wire.lock().unwrap().room = room;
}

/// Returns the calls of which side 0's driver has not taken all datagrams.
fn full_calls(pair: &Pair) -> u64 {
    pair.sides[0].wire.lock().unwrap().full
}

/// Polls both sides every 10 us for so long, with room for `each` datagrams more in each round;
/// returns the first words of what side 1 got.
fn run(pair: &mut Pair, time: u64, each: Option<u64>) -> Vec<u64> {
    let mut words = Vec::new();
    for _ in 0..time / 10_000 {
        if each.is_some() {
            set_room(pair, each);
        }
        words.extend(pair.look(1, Some(0)).iter().map(|message| given(message)[0]));
        pair.look(0, Some(0));
        pair.now += 10_000;
    }
    words
}

#[test]
fn what_a_full_driver_does_not_take_arrives_later_and_nothing_is_lost() {
    for security in [Security::Crc, Security::Aead] {
        let mut pair = Pair::new(security);
        let flow = pair.flow(0, true);
        set_room(&mut pair, Some(2));
        for number in 0..60 {
            assert_eq!(pair.send(flow, &[number], &[1; 2000]), SendResult::Sent);
        }
        let got = run(&mut pair, 5 * MILLISECOND, Some(3));
        assert_eq!(got, (0..60).collect::<Vec<_>>(), "all of it, in order");
        run(&mut pair, 5 * MILLISECOND, None);
        assert!(full_calls(&pair) > 10, "its driver was full");
        let stats = *pair.sides[0].stack.stats();
        assert_eq!(stats.units_resent, 0, "none was lost: {stats:?}");
        assert!(stats.sends_refused > 10, "it is counted: {stats:?}");
        assert_eq!(pair.sides[1].stack.stats().units_duplicate, 0);
        assert!(pair.sides[0].stack.is_quiet());
    }
}

#[test]
fn long_messages_wait_for_a_full_driver() {
    for security in [Security::Crc, Security::Aead] {
        let mut pair = Pair::with_credit(security, 9000, 1 << 20);
        let flow = pair.flow(0, false);
        let payload: Vec<u8> = (0..400_000_u32).map(|byte| (byte * 7 / 3) as u8).collect();
        let (words, mut progress) = ([0, payload.len() as u64], Progress::default());
        let mut got = Vec::new();
        for _ in 0..2000 {
            if pair.send_long(flow, &words, &payload, &mut progress) == SendResult::Sent {
                break;
            }
            got.extend(run(&mut pair, 20_000, Some(5)));
        }
        got.extend(run(&mut pair, 20 * MILLISECOND, Some(5)));
        assert_eq!(got, [0], "it has arrived");
        let mut memory = vec![0; payload.len()];
        for (offset, bytes) in pair.sides[1].endpoints.deposits.lock().unwrap().iter() {
            memory[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        assert!(memory == payload, "as it was sent");
        assert!(full_calls(&pair) > 5, "its driver was full");
        assert_eq!(pair.sides[0].stack.stats().units_resent, 0);
    }
}

#[test]
fn a_driver_that_takes_nothing_is_tried_at_times_that_are_known() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    set_room(&mut pair, Some(0));
    assert_eq!(pair.send(flow, &[1], &[]), SendResult::Sent);
    let end = pair.now + 40 * MILLISECOND;
    let mut wakes = 0;
    while pair.now < end {
        let stack = &mut pair.sides[0].stack;
        stack.service(pair.now, true);
        stack.acknowledge_all(pair.now);
        stack.check_invariants();
        let at = stack.next_timeout().unwrap();
        assert!(at > pair.now, "no busy loop: {at} at {}", pair.now);
        assert!(at <= pair.now + 2 * MILLISECOND, "no stall");
        pair.now = at;
        wakes += 1;
    }
    assert!((20..60).contains(&wakes), "{wakes} in 40 ms");
    assert!(full_calls(&pair) <= wakes + 1, "each wake tries once");
    let silent = pair.sides[0].stack.unanswered(pair.now);
    assert!(silent.is_some_and(|(peer, time)| peer == 1 && time > 30 * MILLISECOND), "{silent:?}");
    set_room(&mut pair, None);
    assert_eq!(run(&mut pair, 3 * MILLISECOND, None), [1], "once there is room");
}

#[test]
fn an_acknowledgement_that_was_not_taken_is_sent_later() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    pair.sides[1].wire.lock().unwrap().room = Some(0);
    assert_eq!(pair.send(flow, &[1], &[]), SendResult::Sent);
    pair.look(1, Some(0));
    let tries = |pair: &Pair| pair.sides[1].wire.lock().unwrap().full;
    assert_eq!(tries(&pair), 1, "it was tried");
    pair.look(1, Some(0));
    assert_eq!(tries(&pair), 1, "and not again at once");
    pair.sides[1].wire.lock().unwrap().room = None;
    for _ in 0..3 {
        pair.now += 20_000;
        pair.look(1, Some(0));
    }
    pair.look(0, Some(0));
    assert!(pair.sides[0].stack.is_quiet(), "by its own timer");
    assert_eq!(pair.sides[0].stack.stats().units_resent, 0);
}
