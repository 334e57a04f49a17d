//! Tests of requests that an engine forwards: split, joined, counted, delayed, refused in parts.

use super::services::{by_other, told, wire, word};
use super::{Bench, RANKS, Wire, engine, give, own, send};
use crate::engine::{Engine, EngineCounts};
use crate::service::Services;
use clump_onesided::protocol::{ask, atomic_handler, code, tell};
use clump_onesided::{AtomicOp, Refusal, SpreadUpdate, Width};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use zerocopy::IntoBytes;

const ADD: u64 = AtomicOp::Add as u64;

#[test]
fn a_spread_is_split_and_answered_when_all_parts_are() {
    let (mut engine, mut wire) = (engine(), Wire { ask_room: 1, ..Wire::default() });
    let far = |rank| SegmentName::new(rank, 0, 1);
    let updates = [
        SpreadUpdate::new(far(2), 4, 100),
        SpreadUpdate::new(far(0), 1, 7),
        SpreadUpdate::new(far(3), 5, 200),
        SpreadUpdate::new(far(2), 6, 300),
    ];
    let words = [0, 0, 9, AtomicOp::Add as u64];
    send(&mut engine, &mut wire, code::SPREAD, &words, updates.as_bytes());
    // Updates of others to a node in the same turn are sent with it.
    let more = [SpreadUpdate::new(far(2), 9, 1)];
    by_other(&mut engine, &mut wire, code::SPREAD, &[0, 0, 0, ADD], more.as_bytes());
    assert_eq!((word(&engine, 8), wire.asked.len()), (7, 0));
    engine.send_messages(&mut wire);
    engine.check_invariants();
    assert_eq!(wire.asked.len(), 1);
    // The second finds room later.
    assert!(engine.wants_room());
    wire.ask_room = 2;
    engine.handle_room(&mut wire);
    assert!(!engine.wants_room());
    let of_two = [updates[0], updates[3], more[0]];
    assert_eq!((wire.asked[0].0, wire.asked[0].1), (2, code::DELIVER));
    assert_eq!(wire.asked[0].3, of_two.as_bytes());
    let cookies: Vec<u64> = wire.asked.iter().map(|(_, _, words, _)| words[2]).collect();
    let quiet = |engine: &mut Engine<Bench>, wire: &mut Wire| {
        by_other(engine, wire, ask::QUIET | ask::AFTER, &[7, 1], &[]);
        told(wire).len()
    };
    assert_eq!(quiet(&mut engine, &mut wire), 0, "its only request is under way");
    engine.handle_answer(cookies[0], Ok(&[]), &mut wire);
    assert_eq!(told(&mut wire), [(tell::QUIET, vec![7, 1, 0, Refusal::Unknown as u64, 0, 0])]);
    engine.handle_answer(cookies[1], Err(Refusal::OutOfBounds), &mut wire);
    engine.check_invariants();
    let why = Refusal::OutOfBounds as u64;
    assert_eq!(told(&mut wire), [(tell::FAILED, vec![9, why, far(3).to_bits(), 0])]);
    assert_eq!(engine.memory_bytes(), 0);
    // Answers that come twice, or too late, change nothing.
    engine.handle_answer(cookies[1], Ok(&[]), &mut wire);
    assert!(told(&mut wire).is_empty());
    let counts = EngineCounts {
        executed: 3,
        refused: 1,
        services: 2,
        later: 2,
        asked: 2,
        joined: 1,
        delayed: 0,
    };
    assert_eq!(engine.counts(), counts);
}

#[test]
fn only_those_whose_segment_was_refused_are_told() {
    let (mut engine, mut wire) = (engine(), wire());
    let far = |index| SegmentName::new(2, index, 1);
    let (good, bad) = (
        [SpreadUpdate::new(far(0), 4, 1)],
        [far(0), far(1)].map(|name| SpreadUpdate::new(name, 4, 1)),
    );
    send(&mut engine, &mut wire, code::SPREAD, &[0, 0, 1, ADD], good.as_bytes());
    by_other(&mut engine, &mut wire, code::SPREAD, &[0, 0, 2, ADD], bad.as_bytes());
    engine.send_messages(&mut wire);
    let (words, load) = (wire.asked[0].2.clone(), wire.asked[0].3.clone());
    // The interface of the other node, which has the first segment.
    let mut other = super::engine().with_services(Services::default(), RANKS + 4);
    let shifted: Vec<_> = load
        .chunks(20)
        .map(|one| {
            let index = SegmentName::from_bits(u64::from_le_bytes(one[..8].try_into().unwrap()));
            let name = SegmentName::new(0, index.index(), 1);
            [&name.to_bits().to_le_bytes()[..], &one[8..]].concat()
        })
        .collect();
    let payload = shifted.concat();
    let (from, mut answers) = (Name::new(RANKS + 1, 0, 1), Wire::default());
    give(&mut other, &mut answers, from, (code::DELIVER, &words), &payload);
    assert_eq!(word(&other, 32), 2, "what is not refused is executed");
    assert_eq!(other.memory.woken, [0]);
    let answer = &answers.answers[0];
    assert_eq!((answer.handler, answer.payload.len()), (tell::BYTES, 16));
    let missing = Refusal::NoSuchSegment as u64;
    let named = [SegmentName::new(0, 1, 1).to_bits(), missing];
    assert_eq!(answer.payload, named.as_bytes());
    let of_two = [far(1).to_bits(), missing];
    engine.handle_answer(words[2], Ok(of_two.as_bytes()), &mut wire);
    let expected = [(tell::DONE, vec![1]), (tell::FAILED, vec![2, missing, far(1).to_bits(), 0])];
    assert_eq!(told(&mut wire), expected);
}

#[test]
fn what_cannot_be_forwarded_now_waits_and_what_is_behind_it() {
    let (mut engine, mut wire) = (engine(), wire());
    let update = [SpreadUpdate::new(SegmentName::new(2, 0, 1), 0, 1)];
    let mut sent = 0;
    while !engine.wants_room() {
        send(&mut engine, &mut wire, code::SPREAD, &[0, 0, 0, ADD], update.as_bytes());
        engine.send_messages(&mut wire);
        sent += 1;
    }
    assert_eq!((wire.asked.len(), engine.counts().delayed), (sent - 1, 1));
    // Behind it two more, which are delayed again when the one before has been sent.
    for _ in 0..2 {
        send(&mut engine, &mut wire, code::SPREAD, &[0, 0, 0, ADD], update.as_bytes());
        sent += 1;
    }
    let add = atomic_handler(AtomicOp::Add, Width::Word, false);
    send(&mut engine, &mut wire, add, &[own(), 8, 5], &[]);
    send(&mut engine, &mut wire, ask::QUIET | ask::AFTER, &[3, sent as u64 + 1], &[]);
    engine.handle_room(&mut wire);
    engine.check_invariants();
    assert_eq!((word(&engine, 8), wire.asked.len()), (0, sent - 3), "nothing has ended");
    // Another endpoint's requests that are not forwarded go on.
    by_other(&mut engine, &mut wire, add, &[own(), 8, 2], &[]);
    assert_eq!(word(&engine, 8), 2);
    for at in 0..sent {
        let cookie = wire.asked[at].2[2];
        engine.handle_answer(cookie, Ok(&[]), &mut wire);
        engine.handle_room(&mut wire);
        engine.send_messages(&mut wire);
        engine.check_invariants();
        let all_gone = wire.asked.len() == sent;
        assert_eq!(word(&engine, 8), if all_gone { 7 } else { 2 }, "nothing overtakes");
    }
    assert_eq!(engine.counts().delayed, 3);
    let none = Refusal::Unknown as u64;
    assert_eq!(told(&mut wire), [(tell::QUIET, vec![3, sent as u64 + 1, 0, none, 0, 0])]);
    assert!(!engine.wants_room() && engine.memory_bytes() == 0);
}

#[test]
fn what_a_dead_rank_shared_with_others_is_still_answered() {
    let (mut engine, mut wire) = (engine(), wire());
    let update = [SpreadUpdate::new(SegmentName::new(2, 0, 1), 0, 1)];
    for _ in 0..2 {
        send(&mut engine, &mut wire, code::SPREAD, &[0, 0, 0, ADD], update.as_bytes());
        by_other(&mut engine, &mut wire, code::SPREAD, &[0, 0, 8, ADD], update.as_bytes());
        if wire.asked.is_empty() {
            engine.send_messages(&mut wire);
        }
    }
    engine.forget(1);
    engine.check_invariants();
    engine.send_messages(&mut wire);
    assert_eq!(wire.asked[1].3.len(), 40, "it may be executed");
    for at in 0..2 {
        let cookie = wire.asked[at].2[2];
        engine.handle_answer(cookie, Ok(&[]), &mut wire);
    }
    assert_eq!(told(&mut wire), [(tell::DONE, vec![8]), (tell::DONE, vec![8])]);
    assert_eq!(engine.memory_bytes(), 0);
}

#[test]
fn what_an_interface_asks_is_not_forwarded_again() {
    let (mut engine, mut wire) = (engine(), wire());
    engine = engine.with_services(Services::default(), RANKS + 4);
    let updates = [SpreadUpdate::new(SegmentName::new(2, 0, 1), 0, 1)];
    let (from, words) = (Name::new(RANKS + 1, 0, 1), [0, 0, 9, AtomicOp::Add as u64]);
    give(&mut engine, &mut wire, from, (code::SPREAD, &words), updates.as_bytes());
    let why = Refusal::Overloaded as u64;
    assert_eq!(told(&mut wire), [(tell::FAILED, vec![9, why, 0, 0])]);
    assert!(wire.asked.is_empty());
}
