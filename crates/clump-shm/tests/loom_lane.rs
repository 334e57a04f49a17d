//! A lane in every interleaving: messages arrive once, in order, intact, and none is overlooked.
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use crate::model;

use clump_os::fence::{self, FenceKind};
use clump_os::sync::{AtomicBool, AtomicU64, Ordering, Site};
use clump_shm::doorbell::Doorbell;
use clump_shm::lane::{CreditRequest, Creditor, LaneControl, LaneReceiver, LaneSender, Peek};
use clump_shm::park::Park;
use clump_shm::shared::{Shared, SharedSlice};
use clump_shm::slot::{Header, INLINE, Slot, SlotKind};
use loom::sync::Arc;
use loom::thread;
use model::{bell, bulk, holds, notices, until};

struct Lane {
    sender: LaneSender,
    receiver: LaneReceiver,
    control: Shared<LaneControl>,
    doorbell: Shared<Doorbell>,
    park: Shared<Park>,
}

/// Creates a lane of `slots` slots and `bytes` bulk bytes.
fn lane(slots: usize, bytes: usize) -> Lane {
    let control = Shared::private(LaneControl::default());
    let slots = SharedSlice::private((0..slots).map(|_| Slot::default()).collect());
    let (doorbell, park) = (Shared::private(Doorbell::default()), Shared::private(Park::default()));
    let bulk = bulk(bytes);
    let bell = bell(&doorbell, &park, 0);
    let sender = LaneSender::new(control.clone(), slots.clone(), bulk, bell);
    let receiver = LaneReceiver::new(control.clone(), slots, bulk);
    Lane { sender, receiver, control, doorbell, park }
}

fn words(message: u64, count: usize) -> Vec<u64> {
    (0..count as u64).map(|word| message * 100 + word + 1).collect()
}

/// Takes the next message if there is one: returns its words and its payload.
fn take(receiver: &mut LaneReceiver) -> Option<(Header, Vec<u64>, Vec<u8>)> {
    let mut all = [0; 2 * INLINE];
    match receiver.peek(&mut all) {
        Peek::Empty => None,
        Peek::Corrupt => panic!("nobody wrote nonsense"),
        Peek::Message(header) => {
            let mut bytes = vec![0; header.payload() as usize];
            receiver.payload(header).copy_to(&mut bytes);
            receiver.advance(header);
            Some((header, all[..header.words()].to_vec(), bytes))
        }
    }
}

/// Three messages of `count` words through two slots: the ring wraps and needs credit.
fn stream(count: usize) {
    let Lane { mut sender, mut receiver, .. } = lane(2, 128);
    receiver.disarm_notification();
    let consumed = Arc::new(AtomicU64::new(0));
    let seen = consumed.clone();
    let sending = thread::spawn(move || {
        for message in 0..3 {
            let header = Header::short(message as u8 + 1, count);
            until(|| sender.push(header, &words(message, count)).ok());
            let slots_per_message = if count > INLINE { 2 } else { 1 };
            // The slot was given back after its receiver wrote, so that write is seen here.
            let done = seen.load(Ordering::Relaxed);
            assert!((message + 1 - done) * slots_per_message <= 2, "credit came early");
        }
    });
    for message in 0..3 {
        let (header, got, _) = until(|| {
            let mut all = [0; 2 * INLINE];
            let Peek::Message(header) = receiver.peek(&mut all) else { return None };
            Some((header, all[..header.words()].to_vec(), ()))
        });
        assert_eq!(got, words(message, count));
        assert_eq!(u64::from(header.handler()), message + 1);
        consumed.store(message + 1, Ordering::Relaxed);
        receiver.advance(header);
    }
    assert!(take(&mut receiver).is_none());
    sending.join().unwrap();
}

fn one_word() {
    stream(1);
}

fn two_slots() {
    stream(INLINE + 1);
}

#[test]
fn messages_arrive_once_in_order_and_intact() {
    holds(3, one_word);
}

#[test]
fn messages_of_two_slots_arrive_whole() {
    holds(2, two_slots);
}

#[test]
fn publishing_must_release() {
    notices(Site::LanePublish, 3, one_word);
    notices(Site::LanePublish, 2, two_slots);
}

#[test]
fn giving_back_must_release() {
    notices(Site::LaneCredit, 3, one_word);
}

/// Payloads through a bulk ring that holds two of them, while four slots are free.
fn payloads() {
    let Lane { mut sender, mut receiver, .. } = lane(4, 128);
    receiver.disarm_notification();
    let sending = thread::spawn(move || {
        for message in 0..3u8 {
            let header = Header::new(SlotKind::Medium, 1, 1, 20);
            let payload = [message + 1; 20];
            until(|| sender.push_payload(header, &[u64::from(message)], &payload).ok());
        }
    });
    for message in 0..3u8 {
        let (_, words, bytes) = until(|| take(&mut receiver));
        assert_eq!((words, bytes), (vec![u64::from(message)], vec![message + 1; 20]));
    }
    sending.join().unwrap();
}

#[test]
fn payloads_are_not_overwritten_before_they_are_read() {
    holds(2, payloads);
}

/// A receiver that arms notification, and sleeps on the doorbell alone.
fn cold() {
    let Lane { mut sender, mut receiver, doorbell, .. } = lane(2, 128);
    receiver.disarm_notification();
    let sending = thread::spawn(move || {
        for message in 0..2 {
            until(|| sender.push(Header::short(1, 1), &words(message, 1)).ok());
        }
    });
    let mut next = 0;
    while next < 2 {
        while let Some((_, got, _)) = take(&mut receiver) {
            assert_eq!(got, words(next, 1));
            next += 1;
        }
        if next == 2 {
            break;
        }
        receiver.arm_notification();
        fence::heavy(FenceKind::Asymmetric);
        if !receiver.has_message() {
            until(|| doorbell.rung().then_some(()));
        }
        doorbell.collect(|bit| assert_eq!(bit, 0));
        receiver.disarm_notification();
    }
    sending.join().unwrap();
}

#[test]
fn a_cold_lane_rings() {
    holds(3, cold);
}

#[test]
fn disarming_must_fence() {
    notices(Site::ParkFence, 3, cold);
}

/// A receiver that closes while messages come in: the sender takes back what it did not read.
fn closing() {
    let Lane { mut sender, mut receiver, .. } = lane(2, 128);
    receiver.disarm_notification();
    let closed = Arc::new(AtomicBool::new(false));
    let close = closed.clone();
    let reading = thread::spawn(move || {
        let read = take(&mut receiver).map(|(_, got, _)| got);
        receiver.give_back();
        close.store(true, Ordering::Release);
        read
    });
    let (mut sent, mut back) = (Vec::new(), Vec::new());
    for message in 0..2 {
        if sender.push(Header::short(1, 1), &words(message, 1)).is_ok() {
            sent.push(words(message, 1));
        }
    }
    until(|| closed.load(Ordering::Acquire).then_some(()));
    sender.take_back(|_, words, _| back.push(words.to_vec()));
    sender.take_back(|_, _, _| panic!("taken back twice"));
    let mut all: Vec<Vec<u64>> = reading.join().unwrap().into_iter().collect();
    all.extend(back);
    assert_eq!(all, sent);
}

#[test]
fn what_a_closing_receiver_leaves_is_taken_back_once() {
    holds(3, closing);
}

/// Two endpoints want the same lane; the second gets it after the first is done with it.
fn claims() {
    let Lane { sender, mut receiver, control, doorbell, .. } = lane(2, 128);
    drop(sender);
    let rival = control.clone();
    let (slots_of_rival, won) = (rival.clone(), Arc::new(AtomicU64::new(0)));
    let wins = won.clone();
    let other = thread::spawn(move || {
        if slots_of_rival.claim(2, 7) {
            wins.fetch_add(1, Ordering::Relaxed);
        }
    });
    if control.claim(1, 5) {
        won.fetch_add(1, Ordering::Relaxed);
    }
    other.join().unwrap();
    assert_eq!(won.load(Ordering::Relaxed), 1);
    let link = if rival.owner() == 1 { 4 } else { 6 };
    assert_eq!(rival.link(), Some(link));
    rival.retire();
    assert!(rival.retired() && take(&mut receiver).is_none());
    rival.free();
    assert!(rival.claim(3, 0) && rival.link().is_none() && !rival.retired());
    assert!(!doorbell.rung());
}

#[test]
fn a_lane_has_one_owner() {
    holds(3, claims);
}

/// A receiver that sleeps as deeply as it can: notification armed, announced, parked.
fn asleep() {
    let Lane { mut sender, mut receiver, doorbell, park, .. } = lane(2, 128);
    receiver.disarm_notification();
    let sending = thread::spawn(move || {
        until(|| sender.push(Header::short(1, 1), &words(0, 1)).ok());
    });
    loop {
        if let Some((_, got, _)) = take(&mut receiver) {
            assert_eq!(got, words(0, 1));
            break;
        }
        receiver.arm_notification();
        let announced = park.announce(FenceKind::Asymmetric);
        if receiver.has_message() || doorbell.rung() {
            park.withdraw(announced);
        } else {
            park.sleep(announced, None);
        }
        doorbell.collect(|bit| assert_eq!(bit, 0));
        receiver.disarm_notification();
    }
    sending.join().unwrap();
}

#[test]
fn a_sleeping_receiver_is_woken() {
    holds(3, asleep);
}

#[test]
fn going_to_sleep_must_fence() {
    notices(Site::ParkFence, 3, asleep);
}

/// A sender that sleeps until all it sent is read, or until there is room (`full`: for that it
/// fills the lane first); the receiver would return no credit by itself.
fn waiting_for_credit(full: bool, what: CreditRequest) {
    let Lane { mut sender, mut receiver, doorbell, .. } = lane(8, 128);
    receiver.disarm_notification();
    let (park, over) = (Shared::private(Park::default()), Arc::new(AtomicBool::new(false)));
    let (bed, end) = (park.clone(), over.clone());
    let sending = thread::spawn(move || {
        let messages = if full { 8 } else { 1 };
        (0..messages).for_each(|m| sender.push(Header::short(1, 1), &words(m, 1)).unwrap());
        let is_there = |sender: &mut LaneSender| match what {
            CreditRequest::Room => sender.has_room(),
            CreditRequest::Drained => sender.outstanding_slots() == 0,
        };
        while !is_there(&mut sender) {
            let announced = bed.announce(FenceKind::Asymmetric);
            sender.request_credit(what);
            if is_there(&mut sender) {
                bed.withdraw(announced);
            } else {
                bed.sleep(announced, None);
            }
        }
        end.store(true, Ordering::Release);
    });
    let mut read = 0;
    while !over.load(Ordering::Acquire) {
        let mut rang = false;
        doorbell.collect(|_| rang = true);
        if rang {
            let creditor = || Creditor::new(park.clone(), None, FenceKind::Asymmetric);
            receiver.take_request(|| Some(creditor()));
        }
        if take(&mut receiver).is_some() {
            read += 1;
        } else {
            thread::yield_now();
        }
    }
    sending.join().unwrap();
    assert!(read >= 1);
}

fn drained() {
    waiting_for_credit(false, CreditRequest::Drained);
}

fn room() {
    waiting_for_credit(true, CreditRequest::Room);
}

#[test]
fn a_sender_is_woken_when_all_is_read() {
    holds(3, drained);
}

#[test]
fn a_sender_is_woken_when_there_is_room() {
    holds(2, room);
}
