//! Tests of requests that wait for locks and flags.

use super::{Engine, Wire, asker, engine, give, own, send};
use crate::engine::tests::{Bench, RANKS};
use clump_onesided::protocol::{ask, tell};
use clump_onesided::{Comparison, Refusal};
use clump_os::sync::Ordering;

#[test]
fn a_lock_granted_without_room_is_told_when_there_is() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    for (from, cookie) in [(1, 11), (2, 12)] {
        let words = [own(), 64, cookie, 0];
        give(&mut engine, &mut wire, asker(from), (ask::LOCK, &words), &[]);
    }
    send(&mut engine, &mut wire, ask::UNLOCK, &[own(), 64, 0, 0, 5, 0], &[]);
    wire.room = Some(0);
    engine.handle_waits(&mut wire);
    assert!(wire.answers.len() == 1 && !engine.has_waits() && engine.wants_room());
    wire.room = None;
    engine.handle_room(&mut wire);
    assert_eq!(wire.answers.last().unwrap().words, [12, 1, 5]);
}

#[test]
fn a_rank_that_is_gone_leaves_its_place_in_the_queue() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let lock = |from: u32, cookie: u64| (asker(from), [own(), 64, cookie, 0]);
    for (from, words) in [lock(1, 11), lock(2, 12), lock(3, 13)] {
        give(&mut engine, &mut wire, from, (ask::LOCK, &words), &[]);
    }
    assert_eq!(wire.answers.len(), 1);
    assert_eq!(wire.answers[0].words, [11, 0, 0]);
    engine.forget(2);
    send(&mut engine, &mut wire, ask::UNLOCK, &[own(), 64, 0, 0, 5, 0], &[]);
    engine.handle_waits(&mut wire);
    let last = wire.answers.last().unwrap();
    assert_eq!(
        (last.to, last.handler, last.words.as_slice()),
        (asker(3), tell::GRANTED, &[13, 2, 5][..])
    );
    assert!(!engine.has_waits());
    // The holder dies: waiting ranks are notified, now and later.
    let words = lock(1, 14).1;
    send(&mut engine, &mut wire, ask::LOCK, &words, &[]);
    engine.memory.dead.push(3);
    engine.handle_waits(&mut wire);
    let told = wire.answers.last().unwrap();
    assert_eq!((told.handler, told.words[1]), (tell::FAILED, Refusal::HolderDied as u64));
}

#[test]
fn a_try_says_that_a_lock_is_taken_until_the_death_of_its_holder_is_known() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let mut ask = |engine: &mut Engine<Bench>, from: u32, tries: u64| {
        let words = [own(), 64, 10 + u64::from(from), tries];
        give(engine, &mut wire, asker(from), (ask::LOCK, &words), &[]);
        let told = wire.answers.pop().map(|answer| (answer.handler, answer.words[1]));
        told.unwrap_or((0, 0))
    };
    assert_eq!(ask(&mut engine, 1, 1), (tell::GRANTED, 0));
    // Rank 1 may have died by now; until the home is notified, it has the lock.
    let (busy, died) = (Refusal::LockBusy as u64, Refusal::HolderDied as u64);
    assert_eq!(ask(&mut engine, 2, 1), (tell::FAILED, busy));
    assert_eq!(ask(&mut engine, 3, 1), (tell::FAILED, busy));
    engine.memory.dead.push(1);
    engine.forget(1);
    for rank in [2, 3, 2] {
        assert_eq!(ask(&mut engine, rank, 1), (tell::FAILED, died));
    }
    assert_eq!(ask(&mut engine, 3, 0), (tell::FAILED, died));
}

#[test]
fn a_try_passes_over_who_died_waiting() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    // Rank 2, of the home's node, claims after rank 1 and dies; rank 1 releases the lock.
    send(&mut engine, &mut wire, ask::LOCK, &[own(), 64, 11, 0], &[]);
    let count = clump_shm::queue_lock::lock_words(RANKS as usize);
    let cells = engine.memory.cells.clone();
    let lock = clump_shm::queue_lock::QueueLock::over(cells.words(64, count).unwrap()).unwrap();
    assert_eq!(lock.claim(2), clump_shm::queue_lock::Claim::At(1));
    send(&mut engine, &mut wire, ask::UNLOCK, &[own(), 64, 0, 0, 5, 0], &[]);
    send(&mut engine, &mut wire, ask::LOCK, &[own(), 64, 12, 1], &[]);
    let told = wire.answers.last().unwrap();
    assert_eq!((told.handler, told.words[1]), (tell::FAILED, Refusal::LockBusy as u64));
    engine.memory.dead.push(2);
    send(&mut engine, &mut wire, ask::LOCK, &[own(), 64, 13, 1], &[]);
    let told = wire.answers.last().unwrap();
    assert_eq!((told.handler, told.words.as_slice()), (tell::GRANTED, &[13, 2, 5][..]));
}

#[test]
fn a_wait_too_many_leaves_a_flag_as_it_was() {
    let (mut engine, mut wire) = (engine(), Wire::default());
    let waiters =
        |engine: &Engine<Bench>| engine.memory.cells.word(64 + 8).unwrap().load(Ordering::SeqCst);
    for cookie in 1..=70 {
        let words = [own(), 64, cookie, Comparison::Equal as u64, 9];
        send(&mut engine, &mut wire, ask::WAIT, &words, &[]);
        assert_eq!(waiters(&engine), cookie.min(64));
    }
    let busy = |answer: &super::Answer| {
        (answer.handler, answer.words[1]) == (tell::FAILED, Refusal::LockBusy as u64)
    };
    assert!(wire.answers.len() == 6 && wire.answers.iter().all(busy));
    engine.forget(1);
    assert_eq!(waiters(&engine), 0);
}
