//! Waits are woken by the event they wait for, and a loop that polls in vain yields: counted, not
//! timed.

use clump_am::{Dest, Endpoint, Handler, Name, RankContext, Reason, Settings, Tag, WaitFor};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::node::NodeMemory;
use clump_shm::rank::WaitReason;
use clump_trace::{Counter, Counters};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const TAG: Tag = Tag(0x5eed);
const SINK: Handler = Handler(1);
/// Number of turns; in each, a wait that is never woken sleeps out its nap.
const TURNS: usize = 20;
const LIMIT_NS: u64 = 20_000_000_000;

/// Waits until the thread of `rank` sleeps in the kernel, or is about to.
fn until_asleep(node: &NodeMemory, rank: u32) {
    let block = node.rank(rank).unwrap();
    let start = clock::now_ns();
    while !block.park().anyone_asleep() {
        assert!(clock::now_ns() - start < LIMIT_NS, "rank {rank} never went to sleep");
        clock::yield_now();
    }
}

/// Performs `wait` on rank 0 with an endpoint of rank 1 in each turn; rank 1 reads nothing before
/// rank 0 sleeps. Returns how often rank 1 woke it.
fn wakes(settings: Settings, wait: impl Fn(&Endpoint, Dest) + Send + 'static) -> u64 {
    let node = clump_test_bed::node(2, true);
    let (to_sender, go) = std::sync::mpsc::channel::<()>();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let there = clump_test_bed::context(&node, 1, settings);
    let reader = Endpoint::open(&there, TAG).unwrap();
    reader.set_handler(SINK, |_, _, _| ()).unwrap();
    let name = reader.name();
    let memory = node.clone();
    let sending = std::thread::spawn(move || {
        let ep = Endpoint::open(&clump_test_bed::context(&memory, 0, settings), TAG).unwrap();
        let dest = ep.map(&name, TAG).unwrap();
        while go.recv().is_ok() {
            wait(&ep, dest);
            done.send(()).unwrap();
        }
    });
    for _ in 0..TURNS {
        to_sender.send(()).unwrap();
        until_asleep(&node, 0);
        while ended.try_recv().is_err() {
            reader.poll().unwrap();
        }
    }
    drop(to_sender);
    sending.join().unwrap();
    // Waits count polls that are not counted yet.
    reader.drain().unwrap();
    let block = node.endpoint_block(1, usize::from(name.index())).unwrap();
    Counters::over(block.counters()).get(Counter::CreditWakes)
}

fn both_ways() -> [Settings; 2] {
    [Settings::default(), Settings { lanes: false, ..Settings::default() }]
}

#[test]
fn whoever_reads_the_last_message_wakes_whoever_drains() {
    for settings in both_ways() {
        let wakes = wakes(settings, |ep, dest| {
            ep.request(dest, SINK, &[1]).unwrap();
            ep.drain().unwrap();
        });
        assert!(wakes > 0, "each drain slept out its nap");
    }
}

#[test]
fn whoever_makes_room_wakes_whoever_waits_for_it() {
    for settings in both_ways() {
        let wakes = wakes(settings, |ep, dest| {
            (0..200).for_each(|i| ep.request(dest, SINK, &[i]).unwrap());
        });
        assert!(wakes > 0, "each sender slept out its nap");
    }
}

#[test]
fn room_for_payloads_wakes_too() {
    let wakes = wakes(Settings::default(), |ep, dest| {
        let bytes = vec![1; ep.max_medium()];
        (0..9).for_each(|_| ep.request_bulk(dest, SINK, &bytes, &[]).unwrap());
    });
    assert!(wakes > 0, "each sender slept out its nap");
}

#[test]
fn an_endpoint_that_closes_wakes_whoever_waits_for_it_to_read() {
    for settings in both_ways() {
        let node = clump_test_bed::node(2, true);
        let here = clump_test_bed::context(&node, 0, settings);
        let there = clump_test_bed::context(&node, 1, settings);
        let back = |here: &Arc<RankContext>, name: Name| {
            let ep = Endpoint::open(here, TAG).unwrap();
            let reasons = Rc::new(RefCell::new(Vec::new()));
            let log = reasons.clone();
            ep.on_returned(move |back| log.borrow_mut().push(back.reason)).unwrap();
            let dest = ep.map(&name, TAG).unwrap();
            ep.request(dest, SINK, &[1]).unwrap();
            ep.drain().unwrap();
            reasons.take()
        };
        for _ in 0..TURNS {
            let reader = Endpoint::open(&there, TAG).unwrap();
            let name = reader.name();
            let context = here.clone();
            let draining = std::thread::spawn(move || back(&context, name));
            until_asleep(&node, 0);
            drop(reader);
            assert_eq!(draining.join().unwrap(), [Reason::EndpointGone]);
        }
        let woken = here.counters().get(Counter::WakesReceived);
        assert!(woken > 0, "each drain slept out its nap");
    }
}

/// Returns the number of polls that yielded or slept.
fn gave_way(context: &RankContext) -> u64 {
    let counters = context.counters();
    counters.get(Counter::PollYields) + counters.get(Counter::PollSleeps)
}

#[test]
fn a_loop_that_polls_in_vain_gives_way() {
    let node = clump_test_bed::node(1, false);
    let context = clump_test_bed::context(&node, 0, Settings::default());
    let ep = Endpoint::open(&context, TAG).unwrap();
    let start = clock::now_ns();
    while gave_way(&context) == 0 {
        ep.poll().unwrap();
        assert!(clock::now_ns() - start < LIMIT_NS, "it never gave way");
    }
    let shared = Endpoint::open_shared(&context, TAG).unwrap();
    let before = gave_way(&context);
    while gave_way(&context) == before {
        shared.poll().unwrap();
        assert!(clock::now_ns() - start < LIMIT_NS, "it never gave way");
    }
}

#[test]
fn a_loop_that_sends_or_handles_messages_does_not_give_way() {
    let node = clump_test_bed::node(2, false);
    let context = clump_test_bed::context(&node, 0, Settings::default());
    let there = clump_test_bed::context(&node, 1, Settings::default());
    let (ep, reader) =
        (Endpoint::open(&context, TAG).unwrap(), Endpoint::open(&there, TAG).unwrap());
    reader.set_handler(SINK, |_, _, _| ()).unwrap();
    let dest = ep.map(&reader.name(), TAG).unwrap();
    for i in 0..10_000 {
        assert_eq!(ep.try_request(dest, SINK, &[i]).unwrap(), clump_am::SendAttempt::Sent);
        ep.poll().unwrap();
        ep.poll().unwrap();
        assert_eq!(reader.poll().unwrap(), 1);
    }
    assert_eq!((gave_way(&context), gave_way(&there)), (0, 0));
}

#[test]
fn a_wait_counts_messages_whichever_poll_of_it_finds_them() {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let context =
            clump_test_bed::context(&clump_test_bed::node(1, false), 0, Settings::default());
        // Polled first: a message to it makes it send to the endpoint that waits, which is polled
        // next.
        let relay = Endpoint::open(&context, TAG).unwrap();
        let sender = Endpoint::open(&context, TAG).unwrap();
        let ep = Endpoint::open(&context, TAG).unwrap();
        let (to_relay, to_ep) =
            (sender.map(&relay.name(), TAG).unwrap(), sender.map(&ep.name(), TAG).unwrap());
        ep.set_handler(SINK, |_, _, _| ()).unwrap();
        let (through, sent) = (sender.clone(), Cell::new(0));
        relay
            .set_handler(SINK, move |_, _, _| {
                sent.set(sent.get() + 1);
                let _ = through.try_request(to_ep, SINK, &[sent.get()]).unwrap();
            })
            .unwrap();
        let _ = sender.try_request(to_relay, SINK, &[]).unwrap();
        done.send(ep.wait().unwrap()).unwrap();
    });
    assert_eq!(ended.recv_timeout(Duration::from_nanos(LIMIT_NS)), Ok(1), "the wait never ended");
}

#[test]
fn whoever_handles_a_message_at_a_shared_endpoint_wakes_the_threads_that_wait_for_it() {
    let node = clump_test_bed::node(1, false);
    let context = clump_test_bed::context(&node, 0, Settings::default());
    let ep = Endpoint::open_shared(&context, TAG).unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let sees = seen.clone();
    ep.on_returned(move |message| sees.store(message.words[0], Ordering::Release)).unwrap();
    // A message that is refused comes back in the call, and rings no doorbell.
    let refused = ep.map(&ep.name(), Tag(TAG.0 + 1)).unwrap();
    for turn in 1..=TURNS as u64 {
        let (waiting, shows) = (ep.clone(), seen.clone());
        let waiter = std::thread::spawn(move || {
            waiting.poll_until(|| shows.load(Ordering::Acquire) == turn).unwrap();
        });
        until_asleep(&node, 0);
        ep.request(refused, SINK, turn).unwrap();
        waiter.join().unwrap();
    }
    let woken = context.counters().get(Counter::WakesReceived);
    assert!(woken > 0, "each wait slept out its nap");
}

/// A wait for a word that a handler changes, on behalf of rank 0. Records that `depends_on` was
/// called: just before the last check.
struct FromTheGone<'a> {
    seen: &'a AtomicU64,
    asked: &'a AtomicU64,
}

impl WaitFor for FromTheGone<'_> {
    fn done(&mut self) -> clump_am::Result<bool> {
        Ok(self.seen.load(Ordering::Acquire) == 1)
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Message
    }

    fn depends_on(&self) -> Option<u32> {
        self.asked.store(1, Ordering::Release);
        Some(0)
    }
}

#[test]
fn the_last_message_of_a_rank_counts_although_another_thread_is_handling_it() {
    let node = clump_test_bed::node(2, false);
    let [gone, there] =
        [0, 1].map(|rank| clump_test_bed::context(&node, rank, Settings::default()));
    let ep = Endpoint::open_shared(&there, TAG).unwrap();
    let [seen, asked, begun] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let (sees, was_asked, begins) = (seen.clone(), asked.clone(), begun.clone());
    ep.set_handler(SINK, move |_, _, _| {
        begins.store(1, Ordering::Release);
        while was_asked.load(Ordering::Acquire) == 0 {
            clock::yield_now();
        }
        // Time for the other thread to give up, which it must not.
        (0..1000).for_each(|_| clock::yield_now());
        sees.store(1, Ordering::Release);
    })
    .unwrap();
    let from = Endpoint::open(&gone, TAG).unwrap();
    from.request(from.map(&ep.name(), TAG).unwrap(), SINK, &[]).unwrap();
    drop((from, gone));
    node.finalize(0);
    let (handling, begins) = (ep.clone(), begun.clone());
    let handler = std::thread::spawn(move || while handling.poll().unwrap() == 0 {});
    while begins.load(Ordering::Acquire) == 0 {
        clock::yield_now();
    }
    ep.block_on(&mut FromTheGone { seen: &seen, asked: &asked }).unwrap();
    handler.join().unwrap();
}
