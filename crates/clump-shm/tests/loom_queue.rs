//! A shared queue in every interleaving: many senders, one receiver, and senders that die.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use crate::model;

use clump_os::sync::{AtomicBool, AtomicU64, Ordering, Site};
use clump_shm::doorbell::{Doorbell, REQUEST_QUEUE};
use clump_shm::lane::Full;
use clump_shm::park::Park;
use clump_shm::queue::{BlockState, Blocks, Queue, QueueReceiver, QueueSlot, QueueTail, Take};
use clump_shm::shared::{Shared, SharedSlice};
use clump_shm::slot::{Header, INLINE, SlotKind};
use loom::sync::Arc;
use loom::thread;
use model::{bell, holds, notices, raw, until};

#[derive(Clone)]
struct Parts {
    queue: Queue,
    slots: SharedSlice<QueueSlot>,
    doorbell: Shared<Doorbell>,
    park: Shared<Park>,
}

const BLOCK: usize = 128;

fn parts(slots: usize, blocks: usize) -> Parts {
    let slots = SharedSlice::private((0..slots).map(|_| QueueSlot::default()).collect());
    let states = SharedSlice::private((0..blocks).map(|_| BlockState::default()).collect());
    let tail = Shared::private(QueueTail::default());
    // SAFETY: `raw` leaks, so the blocks stay mapped.
    let blocks = unsafe { Blocks::new(states, raw(blocks * BLOCK), BLOCK) };
    let queue = Queue::new(slots.clone(), tail, blocks);
    let (doorbell, park) = (Shared::private(Doorbell::default()), Shared::private(Park::default()));
    Parts { queue, slots, doorbell, park }
}

impl Parts {
    /// Sends one word; its source is the rank with a mark.
    fn push(&self, rank: u32, word: u64) -> Result<(), Full> {
        let bell = bell(&self.doorbell, &self.park, REQUEST_QUEUE);
        let from = (rank, u64::from(rank) + 1000);
        self.queue.push(from, Header::short(rank as u8, 1), &[word], &[], &bell)
    }

    fn push_payload(&self, rank: u32, payload: &[u8]) -> Result<(), Full> {
        let bell = bell(&self.doorbell, &self.park, REQUEST_QUEUE);
        let header = Header::new(SlotKind::Medium, rank as u8, 1, payload.len() as u32);
        self.queue.push((rank, u64::from(rank) + 1000), header, &[7], payload, &bell)
    }

    /// Leaves the first slot as a sender of `rank` does that dies between claim and publication.
    fn claim_and_die(&self, rank: u64) {
        // SAFETY: a slot is laid out in C's order and begins with its state, an atomic word.
        let state = unsafe { &*std::ptr::from_ref(&self.slots[0]).cast::<AtomicU64>() };
        let claimed = 1 << 24 | rank;
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        state.compare_exchange(0, claimed, new, old).unwrap();
    }
}

/// Takes one message: rank and first word.
fn take(receiver: &mut QueueReceiver, dead: impl Fn(u32) -> bool) -> Option<(u64, u64)> {
    let mut words = [0; 2 * INLINE];
    match receiver.take(&mut words, dead) {
        Take::Message(taken) => {
            assert_eq!(taken.source, 1000 + u64::from(taken.header.handler()));
            receiver.done(&taken);
            Some((u64::from(taken.header.handler()), words[0]))
        }
        Take::Empty | Take::Skipped => None,
    }
}

const NOBODY: fn(u32) -> bool = |_| false;

/// Two senders meet at two slots.
fn two_senders() {
    let parts = parts(2, 1);
    let mut receiver = QueueReceiver::new(parts.queue.clone());
    let senders: Vec<_> = (1..=2)
        .map(|rank| {
            let parts = parts.clone();
            thread::spawn(move || parts.push(rank, u64::from(rank) * 10).unwrap())
        })
        .collect();
    let mut got = vec![until(|| take(&mut receiver, NOBODY))];
    got.push(until(|| take(&mut receiver, NOBODY)));
    got.sort_unstable();
    assert_eq!(got, [(1, 10), (2, 20)]);
    assert!(take(&mut receiver, NOBODY).is_none());
    for sender in senders {
        sender.join().unwrap();
    }
}

#[test]
fn every_sender_is_heard_once() {
    holds(2, two_senders);
}

/// Three messages through two slots: the third waits until a slot was freed.
fn wrap_around() {
    let parts = parts(2, 1);
    let mut receiver = QueueReceiver::new(parts.queue.clone());
    let taken = Arc::new(AtomicU64::new(0));
    let seen = taken.clone();
    let sending = thread::spawn(move || {
        for message in 0..3 {
            until(|| parts.push(1, message + 5).ok());
            // A slot is free only after its receiver wrote, so that write is seen here.
            assert!(message + 1 - seen.load(Ordering::Relaxed) <= 2, "a slot was freed early");
        }
    });
    let mut words = [0; 2 * INLINE];
    for message in 0..3 {
        let one = until(|| match receiver.take(&mut words, NOBODY) {
            Take::Message(one) => Some(one),
            _ => None,
        });
        assert_eq!((one.source, words[0]), (1001, message + 5));
        taken.store(message + 1, Ordering::Relaxed);
        receiver.done(&one);
    }
    sending.join().unwrap();
}

#[test]
fn a_full_queue_pushes_back_and_goes_on() {
    holds(3, wrap_around);
}

#[test]
fn publishing_must_release() {
    notices(Site::QueuePublish, 3, wrap_around);
}

#[test]
fn freeing_must_release() {
    notices(Site::QueueFree, 3, wrap_around);
}

/// A receiver that polls only when its doorbell rang, as endpoints do.
fn rung() {
    let parts = parts(2, 1);
    let mut receiver = QueueReceiver::new(parts.queue.clone());
    let sender = parts.clone();
    let sending = thread::spawn(move || sender.push(1, 10).unwrap());
    until(|| parts.doorbell.rung().then_some(()));
    let mut bits = Vec::new();
    parts.doorbell.collect(|bit| bits.push(bit));
    if bits.is_empty() {
        // Seen between the two halves of a ring.
        until(|| parts.doorbell.rung().then_some(()));
        parts.doorbell.collect(|bit| bits.push(bit));
    }
    assert_eq!(bits, [REQUEST_QUEUE]);
    assert_eq!(take(&mut receiver, NOBODY), Some((1, 10)), "rung for nothing");
    sending.join().unwrap();
}

#[test]
fn what_was_rung_for_is_there() {
    holds(3, rung);
}

#[test]
fn ringing_must_release() {
    notices(Site::DoorbellRing, 3, rung);
}

/// A sender claims the first slot and dies; another one sends behind it, before or after the news
/// of its death.
fn death_in_a_claim(news_first: bool) {
    let parts = parts(2, 1);
    let mut receiver = QueueReceiver::new(parts.queue.clone());
    parts.claim_and_die(9);
    let dead = Arc::new(AtomicBool::new(false));
    let (other, agent) = (parts.clone(), dead.clone());
    let sending = thread::spawn(move || {
        agent.store(news_first, Ordering::Release);
        other.push(1, 10).unwrap();
        agent.store(true, Ordering::Release);
    });
    let is_dead = |rank: u32| rank == 9 && dead.load(Ordering::Acquire);
    assert_eq!(until(|| take(&mut receiver, is_dead)), (1, 10));
    sending.join().unwrap();
    parts.push(2, 30).unwrap();
    parts.push(2, 31).unwrap();
    assert_eq!(take(&mut receiver, is_dead), Some((2, 30)));
    assert_eq!(take(&mut receiver, is_dead), Some((2, 31)));
}

#[test]
fn a_dead_claimer_is_passed_over() {
    holds(3, || death_in_a_claim(false));
    holds(3, || death_in_a_claim(true));
    holds(0, death_before_the_tail_moved);
}

/// The claimer died before it moved the tail, and the receiver passed over its slot before the next
/// message was sent.
fn death_before_the_tail_moved() {
    let parts = parts(2, 1);
    let mut receiver = QueueReceiver::new(parts.queue.clone());
    parts.claim_and_die(9);
    assert_eq!(take(&mut receiver, |rank| rank == 9), None);
    for message in 0..5 {
        parts.push(1, message).unwrap();
        // A receiver that opens the queue anew starts at its current head.
        let mut fresh = QueueReceiver::new(parts.queue.clone());
        assert_eq!(take(&mut fresh, NOBODY), Some((1, message)));
    }
}

/// A sender publishes a payload and dies at once; the receiver learns of the death in the middle of
/// a poll. The payload's block must not go to the next sender before it was read.
fn death_behind_a_payload() {
    let parts = parts(2, 1);
    let mut receiver = QueueReceiver::new(parts.queue.clone());
    let dead = Arc::new(AtomicBool::new(false));
    let (dying, agent, next) = (parts.clone(), dead.clone(), parts.clone());
    let sending = thread::spawn(move || {
        dying.push_payload(9, &[9; 8]).unwrap();
        agent.store(true, Ordering::Release);
        // Another sender, as soon as there is a block.
        let _ = next.push_payload(1, &[1; 8]);
    });
    let is_dead = |rank: u32| rank == 9 && dead.load(Ordering::Acquire);
    let mut words = [0; 2 * INLINE];
    let first = until(|| match receiver.take(&mut words, is_dead) {
        Take::Message(taken) => Some(taken),
        Take::Skipped => panic!("a published message was passed over"),
        Take::Empty => None,
    });
    let mut bytes = [0; 8];
    first.payload.copy_to(&mut bytes);
    assert_eq!((first.source, bytes), (1009, [9; 8]));
    receiver.done(&first);
    sending.join().unwrap();
    if let Take::Message(second) = receiver.take(&mut words, is_dead) {
        second.payload.copy_to(&mut bytes);
        assert_eq!((second.source, bytes), (1001, [1; 8]));
        receiver.done(&second);
    }
}

#[test]
fn the_last_words_of_the_dead_are_read() {
    holds(3, death_behind_a_payload);
}

/// A sender takes back what a closed receiver left, while another one does the same.
fn take_back() {
    let parts = parts(2, 1);
    parts.push(1, 10).unwrap();
    parts.push(2, 20).unwrap();
    let other = parts.clone();
    let taking = thread::spawn(move || {
        let mut back = Vec::new();
        other.queue.take_back(1002, |_, words, _| back.push(words[0]));
        back
    });
    let mut back = Vec::new();
    parts.queue.take_back(1001, |_, words, _| back.push(words[0]));
    assert_eq!((back, taking.join().unwrap()), (vec![10], vec![20]));
    assert!(!parts.queue.holds(1001) && !parts.queue.holds(1002));
    assert!(parts.queue.is_unused(NOBODY));
}

#[test]
fn everybody_takes_back_their_own() {
    holds(3, take_back);
}
