//! Indices of closed endpoints: when they are used again.

use super::{Log, PING, PONG, TAG};
use clump_am::{Endpoint, Reason, Settings};
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn an_index_is_used_again_under_another_name() {
    let node = clump_test_bed::node(1, false);
    let context = clump_test_bed::context(&node, 0, Settings::default());
    let first = Endpoint::open(&context, TAG).unwrap();
    let old = first.name();
    drop(first);
    let second = Endpoint::open(&context, TAG).unwrap();
    assert_ne!(second.name(), old);
    assert_eq!(second.name().index(), old.index());
    let log = Log::on(&second);
    let dest = second.map(&old, TAG).unwrap();
    second.request(dest, PING, &[]).unwrap();
    assert_eq!(log.reasons(), [Reason::NoSuchEndpoint]);
}

#[test]
fn endpoints_may_come_and_go_while_their_peers_stay_alive() {
    let node = clump_test_bed::node(2, false);
    let settings = Settings::default();
    let (a, b) =
        (clump_test_bed::context(&node, 0, settings), clump_test_bed::context(&node, 1, settings));
    let staying = Endpoint::open(&b, TAG).unwrap();
    let hits = Rc::new(Cell::new(0));
    let count = hits.clone();
    staying
        .set_handler(PING, move |token, words, _| {
            count.set(count.get() + 1);
            token.reply(PONG, words)
        })
        .unwrap();
    // Each endpoint sends and receives requests, and closes with a reply to its own unread.
    for round in 0..100u64 {
        let passing = Endpoint::open(&a, TAG).unwrap();
        passing.set_handler(PONG, |_, _, _| ()).unwrap();
        let to = passing.map(&staying.name(), TAG).unwrap();
        let back = staying.map(&passing.name(), TAG).unwrap();
        let log = Log::on(&staying);
        staying.request(back, PING, &[round]).unwrap();
        passing.request(to, PING, &[round]).unwrap();
        passing.drain().unwrap();
        assert_eq!(log.reasons(), [Reason::BadHandler]);
        let _ = passing.try_request(to, PING, &[round]).unwrap();
        while hits.get() < 2 * (round + 1) {
            staying.poll().unwrap();
        }
        drop(passing);
        staying.drain().unwrap();
        staying.unmap(back).unwrap();
        staying.drain().unwrap();
    }
}

#[test]
fn an_endpoint_that_unmaps_before_it_closes_is_let_go() {
    let node = clump_test_bed::node(2, false);
    let settings = Settings::default();
    let (a, b) =
        (clump_test_bed::context(&node, 0, settings), clump_test_bed::context(&node, 1, settings));
    let staying = Endpoint::open(&b, TAG).unwrap();
    staying.set_handler(PING, |token, words, _| token.reply(PONG, words)).unwrap();
    // More than there are indices.
    for round in 0..100 {
        let passing = Endpoint::open(&a, TAG).unwrap();
        let answered = Rc::new(Cell::new(false));
        let seen = answered.clone();
        passing.set_handler(PONG, move |_, _, _| seen.set(true)).unwrap();
        let to = passing.map(&staying.name(), TAG).unwrap();
        passing.request(to, PING, &[round]).unwrap();
        while !answered.get() {
            staying.poll().unwrap();
            passing.poll().unwrap();
        }
        // It has read the reply, and reports it.
        passing.try_drain().unwrap();
        passing.unmap(to).unwrap();
        // The other sees the lane retired, and the endpoint still open.
        staying.drain().unwrap();
        staying.try_drain().unwrap();
    }
}

#[test]
fn the_next_endpoint_at_an_index_keeps_its_lane_when_the_last_is_unmapped() {
    let node = clump_test_bed::node(2, false);
    let settings = Settings::default();
    let (a, b) =
        (clump_test_bed::context(&node, 0, settings), clump_test_bed::context(&node, 1, settings));
    let sender = Endpoint::open(&a, TAG).unwrap();
    let log = Log::on(&sender);
    let first = Endpoint::open(&b, TAG).unwrap();
    let to_first = sender.map(&first.name(), TAG).unwrap();
    sender.request(to_first, PING, &[0]).unwrap();
    let old = first.name();
    drop(first);
    sender.drain().unwrap();
    assert_eq!(log.reasons(), [Reason::EndpointGone]);
    let second = Endpoint::open(&b, TAG).unwrap();
    assert_eq!(second.name().index(), old.index(), "lanes belong to indices");
    let hits = Rc::new(Cell::new(0));
    let count = hits.clone();
    second.set_handler(PING, move |_, _, _| count.set(count.get() + 1)).unwrap();
    let to_second = sender.map(&second.name(), TAG).unwrap();
    sender.request(to_second, PING, &[1]).unwrap();
    sender.unmap(to_first).unwrap();
    // Reads what has come, and frees lanes that are retired.
    let handle = || (0..4).for_each(|_| assert!(second.try_drain().unwrap()));
    handle();
    assert_eq!(hits.get(), 1);
    sender.request(to_second, PING, &[2]).unwrap();
    handle();
    assert_eq!((hits.get(), log.reasons().len()), (2, 1), "handled, and returned");
}
