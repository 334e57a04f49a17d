//! A lane under random steps of both halves: everything arrives once, in order and intact, and
//! their states stay consistent.

use super::{LaneControl, LaneReceiver, LaneSender, Peek};
use crate::bulk::Bulk;
use crate::doorbell::{Doorbell, DoorbellHandle, Tally};
use crate::park::Park;
use crate::shared::{Shared, SharedSlice};
use crate::slot::{Header, INLINE, MAX_WORDS, Slot, SlotKind};
use clump_os::fence::FenceKind;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ptr::NonNull;

const SLOTS: usize = 8;
const RING: usize = 1024;

fn lane() -> (LaneSender, LaneReceiver) {
    let control = Shared::private(LaneControl::default());
    let slots = SharedSlice::private((0..SLOTS).map(|_| Slot::default()).collect());
    let ring = Box::leak(vec![0u8; RING].into_boxed_slice());
    // SAFETY: the ring is leaked, so it stays mapped.
    let bulk = unsafe { Bulk::new(NonNull::from(ring).cast(), RING) };
    let bell = DoorbellHandle {
        doorbell: Shared::private(Doorbell::default()),
        park: Shared::private(Park::default()),
        alarm: None,
        bit: 0,
        fence: FenceKind::Symmetric,
        tally: Tally::default().into(),
    };
    let sender = LaneSender::new(control.clone(), slots.clone(), bulk, bell);
    (sender, LaneReceiver::new(control, slots, bulk))
}

#[derive(Debug, Clone)]
enum Step {
    /// Words, and bytes of payload.
    Push(usize, usize),
    Read,
    GiveBack,
    /// Both halves are made anew at the positions that the last ones left.
    Reopen,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..=MAX_WORDS, prop_oneof![Just(0), 1..=RING / 4]).prop_map(|(w, p)| Step::Push(w, p)),
        4 => Just(Step::Read),
        1 => Just(Step::GiveBack),
        1 => Just(Step::Reopen),
    ]
}

type Message = (Vec<u64>, Vec<u8>);

fn push(sender: &mut LaneSender, (words, payload): &Message) -> bool {
    let kind = if payload.is_empty() { SlotKind::Short } else { SlotKind::Medium };
    let header = Header::new(kind, 1, words.len(), payload.len() as u32);
    let pushed = if payload.is_empty() {
        sender.push(header, words)
    } else {
        sender.push_payload(header, words, payload)
    };
    pushed.is_ok()
}

fn read(receiver: &mut LaneReceiver) -> Option<Message> {
    let mut words = [0; 2 * INLINE];
    let Peek::Message(header) = receiver.peek(&mut words) else { return None };
    let mut bytes = Vec::new();
    receiver.payload(header).append_to(&mut bytes);
    receiver.advance(header);
    Some((words[..header.words()].to_vec(), bytes))
}

proptest! {
    #[test]
    fn everything_arrives_in_order_and_both_halves_stay_consistent(
        steps in prop::collection::vec(any_step(), 1..400))
    {
        let (mut sender, mut receiver) = lane();
        let mut in_flight = VecDeque::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(count, len) => {
                    let words = (0..count).map(|word| (number * 100 + word) as u64).collect();
                    let message = (words, (0..len).map(|at| (number + at) as u8).collect());
                    if push(&mut sender, &message) {
                        in_flight.push_back(message);
                    }
                }
                Step::Read => prop_assert_eq!(read(&mut receiver), in_flight.pop_front()),
                Step::GiveBack => receiver.give_back(),
                Step::Reopen if in_flight.is_empty() => {
                    receiver.give_back();
                    let (control, slots) = (sender.control.clone(), sender.slots.clone());
                    let (bulk, bell) = (sender.bulk, sender.bell.clone());
                    receiver = LaneReceiver::new(control.clone(), slots.clone(), bulk);
                    sender = LaneSender::new(control, slots, bulk, bell);
                }
                Step::Reopen => {}
            }
            sender.check_invariants();
            receiver.check_invariants();
            prop_assert!(sender.outstanding_slots() as usize >= in_flight.len());
        }
        // Unread messages are returned to their sender.
        receiver.give_back();
        let mut returned = VecDeque::new();
        sender.take_back(|_, words, bytes| returned.push_back((words.to_vec(), bytes.to_vec())));
        prop_assert_eq!(returned, in_flight);
    }
}

#[test]
fn a_message_of_two_slots_counts_once() {
    let (mut sender, _receiver) = lane();
    for words in [INLINE, INLINE + 1, MAX_WORDS] {
        let words = vec![5; words];
        assert!(push(&mut sender, &(words, Vec::new())));
    }
    assert_eq!(sender.take_counts(), (3, (INLINE + INLINE + 1 + MAX_WORDS) as u64));
    assert_eq!(sender.take_counts(), (0, 0));
}
