//! A shared queue under random steps of many senders and one receiver: everything arrives once, in
//! order and intact, and the words stay consistent.

use super::*;
use crate::doorbell::{Doorbell, DoorbellHandle, REQUEST_QUEUE, Tally};
use crate::park::Park;
use crate::slot::SlotKind;
use clump_os::fence::FenceKind;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ptr::NonNull;

const SLOTS: usize = 4;
const BLOCKS: usize = 2;
const BLOCK: usize = 256;

fn queue() -> Queue {
    let slots = SharedSlice::private((0..SLOTS).map(|_| QueueSlot::default()).collect());
    let states = SharedSlice::private((0..BLOCKS).map(|_| BlockState::default()).collect());
    let memory = Box::leak(vec![0u8; BLOCKS * BLOCK].into_boxed_slice());
    // SAFETY: the blocks are leaked, so they stay mapped.
    let blocks = unsafe { Blocks::new(states, NonNull::from(memory).cast(), BLOCK) };
    Queue::new(slots, Shared::private(QueueTail::default()), blocks)
}

fn bell() -> DoorbellHandle {
    DoorbellHandle {
        doorbell: Shared::private(Doorbell::default()),
        park: Shared::private(Park::default()),
        alarm: None,
        bit: REQUEST_QUEUE,
        fence: FenceKind::Symmetric,
        tally: Tally::default().into(),
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Rank, words, bytes of payload.
    Push(u32, usize, usize),
    Take,
    /// The receiver is made anew.
    Reopen,
}

fn any_step() -> impl Strategy<Value = Step> {
    let most = BLOCK - MAX_WORDS * 8;
    prop_oneof![
        4 => (0..3u32, 0..=MAX_WORDS, prop_oneof![Just(0), 1..=most])
            .prop_map(|(rank, words, payload)| Step::Push(rank, words, payload)),
        4 => Just(Step::Take),
        1 => Just(Step::Reopen),
    ]
}

type Message = (u64, Vec<u64>, Vec<u8>);

fn take(receiver: &mut QueueReceiver) -> Option<Message> {
    let mut words = [0; 2 * INLINE];
    let Take::Message(taken) = receiver.take(&mut words, |_| false) else { return None };
    let mut bytes = Vec::new();
    taken.payload.append_to(&mut bytes);
    receiver.done(&taken);
    Some((taken.source, words[..taken.header.words()].to_vec(), bytes))
}

proptest! {
    #[test]
    fn everything_arrives_in_order_and_no_slot_or_block_is_lost(
        steps in prop::collection::vec(any_step(), 1..300))
    {
        let (queue, bell) = (queue(), bell());
        let mut receiver = QueueReceiver::new(queue.clone());
        let mut in_flight: VecDeque<Message> = VecDeque::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(rank, count, len) => {
                    let words: Vec<u64> = (0..count).map(|at| (number * 100 + at) as u64).collect();
                    let bytes: Vec<u8> = (0..len).map(|at| (number + at) as u8).collect();
                    let kind = if len == 0 { SlotKind::Short } else { SlotKind::Medium };
                    let header = Header::new(kind, 1, count, len as u32);
                    let from = (rank, u64::from(rank) + 100);
                    if queue.push(from, header, &words, &bytes, &bell).is_ok() {
                        in_flight.push_back((from.1, words, bytes));
                    } else {
                        prop_assert!(in_flight.len() >= BLOCKS, "room was refused");
                    }
                }
                Step::Take => prop_assert_eq!(take(&mut receiver), in_flight.pop_front()),
                Step::Reopen => receiver = QueueReceiver::new(queue.clone()),
            }
            receiver.check_invariants();
        }
        // Unread messages are returned to their senders.
        for source in 100..103 {
            let mut returned = 0;
            queue.take_back(source, |header, words, bytes| {
                returned += usize::from(header.words() == words.len() && header.payload() as usize == bytes.len());
            });
            prop_assert_eq!(returned, in_flight.iter().filter(|one| one.0 == source).count());
        }
        prop_assert!(queue.is_unused(|_| false));
    }
}
