//! Real threads on lanes, queues, doorbells and parking, at full load; also under ThreadSanitizer
//! (`cargo xtask tsan`), so threads are joined by hand.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use clump_os::alarm::Alarm;
use clump_os::clock;
use clump_os::fence::{self, FenceKind};
use clump_os::map::{Mapping, PAGE};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::bulk::Bulk;
use clump_shm::doorbell::{Doorbell, DoorbellHandle, REQUEST_QUEUE, Tally};
use clump_shm::geometry::ENDPOINT_HEADER;
use clump_shm::inbox::Inbox;
use clump_shm::job::{Death, DeathCause};
use clump_shm::lane::{LaneControl, LaneReceiver, LaneSender, Peek};
use clump_shm::name::Name;
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::park::Park;
use clump_shm::path::Path;
use clump_shm::queue::{BlockState, Blocks, Queue, QueueReceiver, QueueSlot, QueueTail, Take};
use clump_shm::shared::{Shared, SharedSlice};
use clump_shm::slot::{Header, INLINE, Slot, SlotKind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Deadline of a test: one that waits for longer has lost a message or a wake-up.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Pseudorandom numbers, the same in every run.
struct Sampler(u64);

impl Sampler {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Tries until it works; yields, because threads share few cores.
fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = clock::now_ns();
    loop {
        for _ in 0..50 {
            if let Some(got) = attempt() {
                return got;
            }
        }
        assert!(u128::from(clock::now_ns() - start) < TIME_LIMIT.as_nanos(), "no {what}");
        clock::yield_now();
    }
}

/// Message `number` of a sender: up to ten words and up to `most` bytes, all derived from the
/// number.
fn message(sender: u64, number: u64, most: u64) -> (Header, Vec<u64>, Vec<u8>) {
    let mut sampler = Sampler((sender << 32 | number) + 1);
    sampler.below(2);
    let words =
        (0..1 + sampler.below(10)).map(|i| sender << 56 | number << 8 | i).collect::<Vec<_>>();
    let len = if sampler.below(3) == 0 { sampler.below(most + 1) } else { 0 };
    let bytes = (0..len).map(|i| (number + i) as u8).collect::<Vec<_>>();
    let kind = if len == 0 { SlotKind::Short } else { SlotKind::Medium };
    (Header::new(kind, sender as u8 + 1, words.len(), len as u32), words, bytes)
}

/// Fails unless this is the next message of its sender.
fn check(next: &mut [u64], got: Header, words: &[u64], bytes: &[u8], most: u64) {
    let sender = usize::from(got.handler() - 1);
    let (header, expected, payload) = message(sender as u64, next[sender], most);
    assert_eq!((got, &words[..got.words()]), (header, expected.as_slice()));
    assert!(bytes == payload, "altered: {got:?} of {sender}");
    next[sender] += 1;
}

fn raw(bytes: usize) -> NonNull<u8> {
    NonNull::from(Box::leak(vec![0u8; bytes].into_boxed_slice())).cast()
}

struct Room {
    doorbell: Shared<Doorbell>,
    park: Shared<Park>,
}

impl Room {
    fn new() -> Self {
        let (doorbell, park) = (Doorbell::default(), Park::default());
        Self { doorbell: Shared::private(doorbell), park: Shared::private(park) }
    }

    fn bell(&self, bit: u32) -> DoorbellHandle {
        let (doorbell, park) = (self.doorbell.clone(), self.park.clone());
        DoorbellHandle {
            doorbell,
            park,
            alarm: None,
            bit,
            fence: fence::register(),
            tally: Tally::default().into(),
        }
    }

    fn lane(&self, bit: u32, slots: usize, bytes: usize) -> (LaneSender, LaneReceiver) {
        let control = Shared::private(LaneControl::default());
        let slots = SharedSlice::private((0..slots).map(|_| Slot::default()).collect());
        // SAFETY: `raw` leaks, so the ring stays mapped.
        let bulk = unsafe { Bulk::new(raw(bytes), bytes) };
        let sender = LaneSender::new(control.clone(), slots.clone(), bulk, self.bell(bit));
        (sender, LaneReceiver::new(control, slots, bulk))
    }
}

fn send_on_lane(lane: &mut LaneSender, sender: u64, number: u64, most: u64) {
    let (header, words, bytes) = message(sender, number, most);
    until("room in the lane", || {
        if bytes.is_empty() {
            lane.push(header, &words).ok()
        } else {
            lane.push_payload(header, &words, &bytes).ok()
        }
    });
}

/// Takes the next message of a lane.
fn take_from_lane(lane: &mut LaneReceiver) -> Option<(Header, [u64; 2 * INLINE], Vec<u8>)> {
    let mut words = [0; 2 * INLINE];
    match lane.peek(&mut words) {
        Peek::Empty => None,
        Peek::Corrupt => panic!("nobody wrote nonsense"),
        Peek::Message(header) => {
            let mut bytes = Vec::new();
            lane.payload(header).append_to(&mut bytes);
            lane.advance(header);
            Some((header, words, bytes))
        }
    }
}

#[test]
fn a_lane_carries_everything_in_order() {
    const MESSAGES: u64 = 100_000;
    let (mut sender, mut receiver) = Room::new().lane(0, 8, 4096);
    receiver.disarm_notification();
    let sending = thread::spawn(move || {
        (0..MESSAGES).for_each(|number| send_on_lane(&mut sender, 0, number, 1024));
    });
    let mut next = [0];
    while next[0] < MESSAGES {
        let (header, words, bytes) = until("message", || take_from_lane(&mut receiver));
        check(&mut next, header, &words, &bytes, 1024);
    }
    assert!(take_from_lane(&mut receiver).is_none());
    sending.join().unwrap();
}

#[test]
fn a_queue_carries_everything_of_many_senders() {
    const SENDERS: u64 = 4;
    const MESSAGES: u64 = 10_000;
    const BLOCK: usize = 1024;
    let room = Room::new();
    let slots = SharedSlice::private((0..8).map(|_| QueueSlot::default()).collect());
    let states = SharedSlice::private((0..3).map(|_| BlockState::default()).collect());
    // SAFETY: `raw` leaks, so the blocks stay mapped.
    let blocks = unsafe { Blocks::new(states, raw(3 * BLOCK), BLOCK) };
    let queue = Queue::new(slots, Shared::private(QueueTail::default()), blocks);
    let most = BLOCK as u64 - 88;
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let (queue, bell) = (queue.clone(), room.bell(REQUEST_QUEUE));
            thread::spawn(move || {
                for number in 0..MESSAGES {
                    let (header, words, bytes) = message(sender, number, most);
                    let from = (sender as u32, sender + 500);
                    until("room", || queue.push(from, header, &words, &bytes, &bell).ok());
                }
            })
        })
        .collect();
    let mut receiver = QueueReceiver::new(queue);
    let mut next = [0; SENDERS as usize];
    while next.iter().sum::<u64>() < SENDERS * MESSAGES {
        let mut words = [0; 2 * INLINE];
        let taken = until("message", || match receiver.take(&mut words, |_| false) {
            Take::Message(taken) => Some(taken),
            Take::Empty => None,
            Take::Skipped => panic!("nobody died"),
        });
        let mut bytes = Vec::new();
        taken.payload.append_to(&mut bytes);
        assert_eq!(taken.source, u64::from(taken.header.handler()) + 499);
        check(&mut next, taken.header, &words, &bytes, most);
        receiver.done(&taken);
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}

/// Sleeps until the doorbell rang, and fails if that takes for ever.
fn sleep_for_bell(room: &Room, lanes: &mut [LaneReceiver], kind: FenceKind) {
    lanes.iter().for_each(LaneReceiver::arm_notification);
    let announced = room.park.announce(kind);
    let busy = lanes.iter().any(LaneReceiver::has_message) || room.doorbell.rung();
    if busy {
        room.park.withdraw(announced);
    } else {
        let before = clock::now_ns();
        room.park.sleep(announced, Some(TIME_LIMIT));
        let slept = u128::from(clock::now_ns() - before);
        assert!(slept < TIME_LIMIT.as_nanos(), "nobody woke the sleeper");
    }
    room.doorbell.collect(|bit| assert!((bit as usize) < lanes.len()));
    lanes.iter().for_each(LaneReceiver::disarm_notification);
}

#[test]
fn a_sleeping_receiver_misses_nothing() {
    const SENDERS: usize = 3;
    const MESSAGES: u64 = 5_000;
    let (room, kind) = (Room::new(), fence::register());
    let (senders, mut lanes): (Vec<_>, Vec<_>) =
        (0..SENDERS).map(|bit| room.lane(bit as u32, 4, 1024)).unzip();
    let senders: Vec<_> = senders
        .into_iter()
        .zip(0..)
        .map(|(mut lane, sender)| {
            thread::spawn(move || {
                for number in 0..MESSAGES {
                    send_on_lane(&mut lane, sender, number, 256);
                    if number % 7 == sender {
                        clock::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut next = [0; SENDERS];
    while next.iter().sum::<u64>() < SENDERS as u64 * MESSAGES {
        let mut idle = true;
        for lane in &mut lanes {
            while let Some((header, words, bytes)) = take_from_lane(lane) {
                check(&mut next, header, &words, &bytes, 256);
                idle = false;
            }
            lane.give_back();
        }
        if idle {
            sleep_for_bell(&room, &mut lanes, kind);
        }
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}

/// Takes and checks all messages in `inbox`; returns how many messages, and how many slots were
/// passed over.
fn drain(inbox: &mut Inbox<()>, node: &NodeMemory, next: &mut [u64], most: u64) -> (u64, u64) {
    let (mut taken, mut skipped) = (0, 0);
    inbox.process_doorbells().unwrap();
    for lane in &mut inbox.hot {
        while let Some((header, words, bytes)) = take_from_lane(&mut lane.receiver) {
            check(next, header, &words, &bytes, most);
            taken += 1;
        }
    }
    if inbox.pending[0] {
        let mut words = [0; 2 * INLINE];
        match inbox.requests.take(&mut words, |rank| node.death_of(rank).is_some()) {
            Take::Message(one) => {
                let mut bytes = Vec::new();
                one.payload.append_to(&mut bytes);
                check(next, one.header, &words, &bytes, most);
                inbox.requests.done(&one);
                taken += 1;
            }
            Take::Skipped => skipped += 1,
            Take::Empty => inbox.pending[0] = inbox.requests.has_message(),
        }
    }
    (taken, skipped)
}

/// Claims the next free slot of the request queue of rank 0 as `rank`, and dies there.
fn claim_and_die(node: &NodeMemory, rank: u32) {
    let at = node.geometry().endpoint(0, 0) + ENDPOINT_HEADER as u64;
    let map = Mapping::shared(node.fd(), at, PAGE).unwrap();
    until("free slot", || {
        (0..PAGE / 64).find(|slot| {
            // SAFETY: the page holds the queue's slots, a cache line each, which begin with their
            // state; all processes reach it by atomics.
            let state = unsafe { map.base().add(slot * 64).cast::<AtomicU64>().as_ref() };
            let free = state.load(Ordering::Acquire);
            let claimed = free | 1 << 24 | u64::from(rank);
            let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
            free & 0xffff_ffff == 0 && state.compare_exchange(free, claimed, new, old).is_ok()
        })
    });
    node.declare_dead(Death { rank, how: DeathCause::Signal(9) });
}

#[test]
fn the_dead_block_nobody_and_everybody_else_is_heard() {
    const SENDERS: u32 = 4;
    const DOOMED: u32 = 8;
    const MESSAGES: u64 = 4_000;
    let ranks = (1 + SENDERS + DOOMED) as usize;
    let config = NodeConfig {
        job_id: 3,
        survive: true,
        spin_ns: 100,
        yield_ns: 1000,
        ..NodeConfig::new(ranks)
    };
    let node = NodeMemory::create(&config).unwrap();
    let mut inbox: Inbox<()> = Inbox::open(&node, 0, 5).unwrap();
    let (to, most) = (inbox.name(), node.geometry().max_medium() as u64);
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let node = node.clone();
            thread::spawn(move || {
                // Half of them have lanes, half share the queue.
                let reply = (sender % 2 == 0).then_some(0);
                let from = Name::new(sender + 1, 0, 1);
                let mut path = Path::for_requests(&node, from, to, reply).unwrap();
                assert_eq!(path.has_lane(), reply.is_some());
                for number in 0..MESSAGES {
                    let (header, words, bytes) = message(u64::from(sender), number, most);
                    until("room", || match bytes.as_slice() {
                        [] => path.push(header, &words).ok(),
                        bytes => path.push_payload(header, &words, bytes).ok(),
                    });
                }
                until("everything to be read", || path.is_drained().then_some(()));
            })
        })
        .collect();
    let mut next = [0; SENDERS as usize];
    let (mut taken, mut doomed) = (0, 1 + SENDERS..1 + SENDERS + DOOMED);
    let all = u64::from(SENDERS) * MESSAGES;
    let start = clock::now_ns();
    let mut killing: Option<thread::JoinHandle<()>> = None;
    while taken < all || killing.is_some() {
        taken += drain(&mut inbox, &node, &mut next, most).0;
        inbox.give_back_all();
        if killing.as_ref().is_none_or(thread::JoinHandle::is_finished) {
            killing.take().into_iter().for_each(|killed| killed.join().unwrap());
            let more = if taken < all { doomed.next() } else { None };
            killing = more.map(|rank| {
                let node = node.clone();
                thread::spawn(move || claim_and_die(&node, rank))
            });
        }
        assert!(u128::from(clock::now_ns() - start) < TIME_LIMIT.as_nanos(), "only {next:?}");
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(next, [MESSAGES; SENDERS as usize]);
}

#[test]
fn a_call_wakes_an_interface_that_has_announced_its_sleep() {
    const CALLS: u64 = 20_000;
    let config =
        NodeConfig { job_id: 4, survive: true, spin_ns: 100, yield_ns: 1000, ..NodeConfig::new(2) };
    let node = NodeMemory::create(&config).unwrap();
    let (alarm, taken) = (Arc::new(Alarm::new().unwrap()), Arc::new(AtomicU64::new(0)));
    let caller = {
        let (node, alarm, taken) = (node.clone(), alarm.clone(), taken.clone());
        thread::spawn(move || {
            let block = node.rank(0).unwrap();
            for number in 1..=CALLS {
                block.call_interface(1, Some(&alarm));
                until("the call to be taken", || {
                    (taken.load(Ordering::Acquire) == number).then_some(())
                });
            }
        })
    };
    let block = node.rank(0).unwrap();
    while taken.load(Ordering::Relaxed) < CALLS {
        if block.take_called() != 0 {
            taken.fetch_add(1, Ordering::Release);
            continue;
        }
        let announced = block.park().announce(FenceKind::Symmetric);
        if block.has_calls() {
            block.park().withdraw(announced);
        } else {
            let woken = block.park().sleep_on(announced, &alarm, None, Some(TIME_LIMIT));
            assert!(woken.rung, "call {} was missed", taken.load(Ordering::Relaxed) + 1);
        }
    }
    caller.join().unwrap();
    assert_eq!(block.take_called(), 0);
}
