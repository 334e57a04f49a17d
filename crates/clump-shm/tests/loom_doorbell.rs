//! The doorbell in every interleaving: no ring is lost, and what was published before a ring is
//! seen.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use crate::model;

use clump_os::sync::{AtomicU64, Ordering, Site};
use clump_shm::doorbell::{Doorbell, REPLY_QUEUE};
use clump_shm::shared::Shared;
use loom::sync::Arc;
use loom::thread;
use model::{holds, notices, until};

/// Two senders publish and ring `bits`; the receiver collects until it has received both.
fn two_rings(bits: [u32; 2]) {
    let doorbell = Shared::private(Doorbell::default());
    let data = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let ringers: Vec<_> = [0, 1]
        .into_iter()
        .map(|at| {
            let (doorbell, data) = (doorbell.clone(), data.clone());
            thread::spawn(move || {
                data[at].store(1, Ordering::Relaxed);
                doorbell.ring(bits[at]);
            })
        })
        .collect();
    let mut heard = Vec::new();
    while heard.len() < 2 {
        until(|| doorbell.rung().then_some(()));
        doorbell.collect(|bit| {
            let at = bits.iter().position(|&b| b == bit).expect("a bit that nobody rang");
            assert_eq!(data[at].load(Ordering::Relaxed), 1, "rung for nothing");
            assert!(!heard.contains(&bit), "heard twice");
            heard.push(bit);
        });
    }
    for ringer in ringers {
        ringer.join().unwrap();
    }
}

fn neighbours() {
    two_rings([3, 4]);
}

fn foreign() {
    two_rings([3, REPLY_QUEUE]);
}

#[test]
fn rings_in_one_word_are_all_heard() {
    holds(2, neighbours);
}

#[test]
fn rings_in_two_words_are_all_heard() {
    holds(2, foreign);
}

#[test]
fn ringing_must_release() {
    notices(Site::DoorbellRing, 2, neighbours);
    notices(Site::DoorbellRing, 2, foreign);
}
