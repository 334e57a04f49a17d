//! Opening of an endpoint against the arrival of a message for it, in every interleaving.
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use crate::model;

use clump_shm::access::{AccessLine, Openness};
use loom::sync::Arc;
use loom::thread;
use model::holds;

const TAG: u64 = 7;

/// Opens the first endpoint of an index while `arrives` decides about a message for it.
fn opening_against(arrives: impl FnOnce(&AccessLine) -> Openness) {
    let line = Arc::new(AccessLine::default());
    let owner = line.clone();
    let opening = thread::spawn(move || owner.open(1, TAG));
    let state = arrives(&line);
    assert!(matches!(state, Openness::Awaited | Openness::Open), "a message was sent back");
    assert!(state != Openness::Open || line.tag() == TAG, "open before its tag was set");
    opening.join().unwrap();
}

#[test]
fn a_message_that_arrives_while_an_endpoint_opens_finds_it_awaited_or_open() {
    holds(3, || opening_against(|line| line.openness(1)));
}

/// The decision by two loads, as a message sees an endpoint that opens in between.
fn by_two_loads(line: &AccessLine) -> Openness {
    if line.openness(1) == Openness::Open {
        return Openness::Open;
    }
    match line.openness(1) {
        Openness::Awaited => Openness::Awaited,
        _ => Openness::Absent,
    }
}

#[test]
#[should_panic(expected = "a message was sent back")]
fn two_loads_send_a_message_back() {
    holds(3, || opening_against(by_two_loads));
}
