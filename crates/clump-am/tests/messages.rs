//! Active messages as a program sees them: requests, replies, payloads, and returned messages.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

mod itself;
mod reuse;

use clump_am::{
    Endpoint, Error, ErrorKind, Handler, Name, RankContext, Reason, Returned, Settings, Tag,
};
use clump_os::sync::AtomicU64;
use clump_os::sync::Ordering::Relaxed;
use clump_test_bed::{Shape, each_rank};
use clump_wire::Security;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const TAG: Tag = Tag(0x5eed);
const PING: Handler = Handler(1);
const PONG: Handler = Handler(2);

fn name_of(rank: u32) -> Name {
    Name::new(rank, 0, 1)
}

/// Runs `test` by lanes, and by the shared queues.
fn both_ways(test: impl Fn(Settings)) {
    test(Settings::default());
    test(Settings { lanes: false, ..Settings::default() });
}

/// Runs `body` with every transport between the ranks of a job: in one memory, and between nodes.
fn every_way<R: Send + 'static>(
    ranks: usize,
    body: impl Fn(Arc<RankContext>) -> R + Send + Sync + Clone + 'static,
    check: impl Fn(Vec<R>),
) {
    both_ways(|settings| check(each_rank(&Shape::of(ranks, 1).with(settings), body.clone())));
    for security in [Security::Crc, Security::Aead] {
        for nodes in [2, ranks] {
            let shape = Shape::of_messages(ranks, nodes, security);
            check(each_rank(&shape, body.clone()));
        }
    }
}

#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<Returned>>>);

impl Log {
    fn on(ep: &Endpoint) -> Self {
        let log = Self::default();
        let sink = log.clone();
        ep.on_returned(move |m| sink.0.borrow_mut().push(m.clone())).unwrap();
        log
    }

    fn reasons(&self) -> Vec<Reason> {
        self.0.borrow().iter().map(|m| m.reason).collect()
    }
}

/// Opens an endpoint that answers pings until a message for handler 9 arrives.
fn serve(context: &Arc<RankContext>) {
    let ep = Endpoint::open(context, TAG).unwrap();
    let stop = Rc::new(Cell::new(false));
    let end = stop.clone();
    ep.set_handler(PING, |token, words, payload| {
        if payload.is_empty() {
            token.reply(PONG, words)
        } else {
            token.reply_bulk(PONG, &payload.to_vec(), words)
        }
    })
    .unwrap();
    ep.set_handler(Handler(9), move |_, _, _| end.set(true)).unwrap();
    ep.poll_until(|| stop.get()).unwrap();
}

#[test]
fn words_and_payloads_of_every_size_come_back_unchanged() {
    every_way(
        2,
        |context| {
            if context.rank() == 1 {
                return serve(&context);
            }
            let ep = Endpoint::open(&context, TAG).unwrap();
            let got = Rc::new(RefCell::new(None));
            let sink = got.clone();
            ep.set_handler(PONG, move |_, words, payload| {
                *sink.borrow_mut() = Some((words.to_vec(), payload.to_vec()));
            })
            .unwrap();
            let to = ready(&ep, name_of(1));
            for words in 0..=8 {
                let args: Vec<u64> = (0..words).map(|w| w * 77 + 1).collect();
                for len in [0, 1, 63, 64, 65, 4096, ep.max_medium()] {
                    let data: Vec<u8> = (0..len).map(|i| (i * 7 + words as usize) as u8).collect();
                    ep.request_bulk(to, PING, &data, &args).unwrap();
                    ep.poll_until(|| got.borrow().is_some()).unwrap();
                    assert_eq!(got.borrow_mut().take().unwrap(), (args.clone(), data));
                }
            }
            ep.request(to, Handler(9), &[]).unwrap();
        },
        drop,
    );
}

/// Maps `name` once its endpoint is open.
fn ready(ep: &Endpoint, name: Name) -> clump_am::Dest {
    let log = Log::on(ep);
    loop {
        let dest = ep.map(&name, TAG).unwrap();
        ep.request(dest, Handler(250), &[]).unwrap();
        ep.poll_until(|| !log.0.borrow().is_empty()).unwrap();
        if log.reasons() == [Reason::BadHandler] {
            return dest;
        }
        log.0.borrow_mut().clear();
        ep.unmap(dest).unwrap();
        clump_os::clock::yield_now();
    }
}

#[test]
fn long_messages_land_in_the_segment_and_nowhere_else() {
    every_way(
        2,
        |context| {
            let ep = Endpoint::open(&context, TAG).unwrap();
            let segment = ep.export_segment(100_000).unwrap();
            let arrived = Rc::new(Cell::new(0));
            let (seen, mine) = (arrived.clone(), segment.clone());
            ep.set_handler(PING, move |_, words, payload| {
                assert_eq!(words, &[1, 2, 3, 4, 5, 6, 7, 8]);
                assert_eq!(payload.offset(), Some(7));
                assert_eq!(payload.to_vec(), vec![9; 90_000]);
                let mut before = [1; 7];
                mine.bytes(0, 7).unwrap().copy_to(&mut before);
                assert_eq!(before, [0; 7]);
                seen.set(seen.get() + 1);
            })
            .unwrap();
            // Messages of the other rank find this endpoint open.
            let over = Rc::new(Cell::new(false));
            let told = over.clone();
            ep.set_handler(PONG, move |_, _, _| told.set(true)).unwrap();
            let log = Log::default();
            let to = ready(&ep, name_of(1 - context.rank()));
            let sink = log.clone();
            ep.on_returned(move |m| sink.0.borrow_mut().push(m.clone())).unwrap();
            let data = vec![9; 90_000];
            ep.request_long(to, PING, 7, &data, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
            ep.request_long(to, PING, 200_000, &data, &[]).unwrap();
            ep.request_long(to, PING, 50_000, &data, &[5]).unwrap();
            ep.poll_until(|| arrived.get() == 1 && log.0.borrow().len() == 2).unwrap();
            assert_eq!(log.reasons(), [Reason::BadOffset, Reason::BadLength]);
            assert_eq!(log.0.borrow()[1].words, [5]);
            assert_eq!(log.0.borrow()[1].deposit, Some((50_000, 90_000)));
            ep.request(to, PONG, &[]).unwrap();
            ep.poll_until(|| over.get()).unwrap();
            ep.drain().unwrap();
        },
        drop,
    );
}

#[test]
fn every_refusal_comes_back_with_its_reason() {
    every_way(
        2,
        |context| {
            if context.rank() == 1 {
                return serve(&context);
            }
            let ep = Endpoint::open(&context, TAG).unwrap();
            let to = ready(&ep, name_of(1));
            let log = Log::on(&ep);
            let foreign = ep.map(&name_of(1), Tag(1)).unwrap();
            let nobody = ep.map(&Name::new(1, 5, 1), TAG).unwrap();
            let nowhere = ep.map(&Name::from_bits(u64::MAX), TAG).unwrap();
            ep.request(foreign, PING, &[1]).unwrap();
            ep.request(nobody, PING, &[2]).unwrap();
            ep.request_bulk(nowhere, PING, b"abc", &[3]).unwrap();
            ep.request(to, Handler(0), &[4]).unwrap();
            ep.request_bulk(to, Handler(200), b"payload", &[5, 6]).unwrap();
            ep.poll_until(|| log.0.borrow().len() == 5).unwrap();
            let expected = [
                Reason::BadTag,
                Reason::NoSuchEndpoint,
                Reason::NoSuchEndpoint,
                Reason::BadArguments,
                Reason::BadHandler,
            ];
            let sorted = |mut all: Vec<Reason>| {
                all.sort_by_key(|reason| *reason as u8);
                all
            };
            assert_eq!(sorted(log.reasons()), sorted(expected.to_vec()));
            let all = log.0.borrow().clone();
            let last = all.iter().find(|m| m.reason == Reason::BadHandler).unwrap().clone();
            assert_eq!(
                (last.words.as_slice(), last.payload.as_slice()),
                (&[5, 6][..], &b"payload"[..])
            );
            assert_eq!((last.handler, last.reply, last.dest), (Handler(200), false, name_of(1)));
            let refused = ep.request(to, PING, &[0; 9]).unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::TooManyWords(9)));
            ep.request(to, Handler(9), &[]).unwrap();
            ep.drain().unwrap();
        },
        drop,
    );
}

#[test]
fn what_a_closed_endpoint_did_not_read_comes_back_and_the_rest_does_not() {
    both_ways(|settings| {
        let node = clump_test_bed::node(2, true);
        let (a, b) = (
            clump_test_bed::context(&node, 0, settings),
            clump_test_bed::context(&node, 1, settings),
        );
        // Shared endpoints are in no thread's bundle, so only this test polls it.
        let (from, to) =
            (Endpoint::open(&a, TAG).unwrap(), Endpoint::open_shared(&b, TAG).unwrap());
        let read = Arc::new(AtomicU64::new(0));
        let count = read.clone();
        to.set_handler(PING, move |_, _, _| {
            count.fetch_add(1, Relaxed);
        })
        .unwrap();
        let log = Log::on(&from);
        let dest = from.map(&to.name(), TAG).unwrap();
        for i in 0..10 {
            from.request(dest, PING, &[i]).unwrap();
        }
        while read.load(Relaxed) < 10 {
            to.poll().unwrap();
        }
        for i in 10..17u64 {
            from.request_bulk(dest, PING, &i.to_le_bytes(), &[i]).unwrap();
        }
        drop(to);
        from.drain().unwrap();
        from.request(dest, PING, &[17]).unwrap();
        let back: Vec<u64> = log.0.borrow().iter().map(|m| m.words[0]).collect();
        assert_eq!(back, (10..18).collect::<Vec<u64>>());
        assert!(log.0.borrow().iter().all(|m| m.reason == Reason::EndpointGone));
        assert_eq!(log.0.borrow()[3].payload, 13u64.to_le_bytes());
        assert_eq!(read.load(Relaxed), 10);
    });
}

#[test]
fn messages_to_a_dead_rank_come_back_where_survivors_go_on() {
    both_ways(|settings| {
        use clump_shm::job::{Death, DeathCause};
        let node = clump_test_bed::node(2, true);
        let (a, b) = (
            clump_test_bed::context(&node, 0, settings),
            clump_test_bed::context(&node, 1, settings),
        );
        // Shared endpoints are in no thread's bundle, so only this test polls it.
        let (from, to) =
            (Endpoint::open(&a, TAG).unwrap(), Endpoint::open_shared(&b, TAG).unwrap());
        let log = Log::on(&from);
        let dest = from.map(&to.name(), TAG).unwrap();
        for i in 0..5 {
            from.request(dest, PING, &[i]).unwrap();
        }
        node.declare_dead(Death { rank: 1, how: DeathCause::Signal(9) });
        from.drain().unwrap();
        from.request(dest, PING, &[5]).unwrap();
        from.drain().unwrap();
        assert_eq!(log.reasons(), [Reason::PeerLost; 6]);
        std::mem::forget(to);
    });
}

#[test]
fn a_blocking_call_names_the_dead_rank() {
    use clump_shm::job::{Death, DeathCause};
    let node = clump_test_bed::node(2, false);
    let context = clump_test_bed::context(&node, 0, Settings::default());
    let ep = Endpoint::open(&context, TAG).unwrap();
    let killer = std::thread::spawn({
        let node = node.clone();
        move || node.declare_dead(Death { rank: 1, how: DeathCause::Signal(9) })
    });
    let error = ep.poll_until(|| false).unwrap_err();
    assert!(error.to_string().contains("rank 1 was killed by signal 9"), "{error}");
    killer.join().unwrap();
}

#[test]
fn handlers_defer_requests_but_may_not_use_the_endpoint() {
    let node = clump_test_bed::node(1, false);
    let context = clump_test_bed::context(&node, 0, Settings::default());
    let ep = Endpoint::open(&context, TAG).unwrap();
    let dest = ep.map(&ep.name(), TAG).unwrap();
    let (count, refused) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(false)));
    let (hits, no, inner) = (count.clone(), refused.clone(), ep.clone());
    ep.set_handler(PING, move |mut token, words, _| {
        hits.set(hits.get() + 1);
        let answer = inner.request(dest, PING, &[]);
        no.set(answer.is_err_and(|e| matches!(e.kind(), ErrorKind::InHandler)));
        if words[0] > 0 {
            token.defer(dest, PING, &[words[0] - 1])?;
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    ep.request(dest, PING, &[1000]).unwrap();
    ep.poll_until(|| count.get() == 1001).unwrap();
    assert!(refused.get());
}

#[test]
fn deferred_requests_wait_for_room_and_keep_their_order() {
    const ALL: u64 = 5000;
    both_ways(|settings| {
        let node = clump_test_bed::node(2, false);
        let [a, b] = [0, 1].map(|rank| clump_test_bed::context(&node, rank, settings));
        // Shared endpoints are in no thread's bundle, so only this test polls it.
        let (from, to) =
            (Endpoint::open(&a, TAG).unwrap(), Endpoint::open_shared(&b, TAG).unwrap());
        let [here, there] = [from.name(), to.name()].map(|name| from.map(&name, TAG).unwrap());
        from.set_handler(PONG, move |mut token, _, _| {
            (0..ALL).try_for_each(|number| token.defer(there, PING, &[number]))
        })
        .unwrap();
        let next = Arc::new(AtomicU64::new(0));
        let count = next.clone();
        to.set_handler(PING, move |_, words, _| assert_eq!(words, [count.fetch_add(1, Relaxed)]))
            .unwrap();
        from.request(here, PONG, &[]).unwrap();
        for _ in 0..100_000 {
            from.poll().unwrap();
            to.poll().unwrap();
        }
        assert_eq!(next.load(Relaxed), ALL);
    });
}

#[test]
fn a_request_without_room_is_returned_after_the_send_timeout() {
    both_ways(|settings| {
        let send_timeout = Some(std::time::Duration::from_millis(5));
        let settings = Settings { send_timeout, ..settings };
        let node = clump_test_bed::node(2, false);
        let (a, b) = (
            clump_test_bed::context(&node, 0, settings),
            clump_test_bed::context(&node, 1, settings),
        );
        // Shared endpoints are in no thread's bundle, so only this test polls it.
        let (from, to) =
            (Endpoint::open(&a, TAG).unwrap(), Endpoint::open_shared(&b, TAG).unwrap());
        let log = Log::on(&from);
        let dest = from.map(&to.name(), TAG).unwrap();
        let mut sent = 0u64;
        while log.0.borrow().is_empty() {
            from.request(dest, PING, &[sent]).unwrap();
            sent += 1;
        }
        assert_eq!(log.reasons(), [Reason::Congestion]);
        let got = Arc::new(AtomicU64::new(0));
        let count = got.clone();
        to.set_handler(PING, move |_, _, _| {
            count.fetch_add(1, Relaxed);
        })
        .unwrap();
        while to.poll().unwrap() > 0 {}
        assert_eq!(got.load(Relaxed), sent - 1);
    });
}

#[test]
fn everybody_floods_everybody_and_nobody_is_stuck() {
    every_way(
        4,
        |context| {
            let ep = Endpoint::open(&context, TAG).unwrap();
            let (asked, answered) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let (a, b) = (asked.clone(), answered.clone());
            ep.set_handler(PING, move |token, words, payload| {
                a.set(a.get() + 1);
                token.reply_bulk(PONG, &payload.to_vec(), words)
            })
            .unwrap();
            ep.set_handler(PONG, move |_, _, _| b.set(b.get() + 1)).unwrap();
            let peers: Vec<_> = (0..4).map(|r| ready(&ep, name_of(r))).collect();
            for i in 0..3000u64 {
                let data = vec![i as u8; (i % 3000) as usize];
                ep.request_bulk(peers[(i % 4) as usize], PING, &data, &[i; 8]).unwrap();
            }
            ep.poll_until(|| answered.get() == 3000 && asked.get() == 3000).unwrap();
            // A reply that found no room yet would be lost with the endpoint.
            ep.drain().unwrap();
            asked.get()
        },
        |counts| assert_eq!(counts, [3000; 4]),
    );
}

#[test]
fn a_program_that_only_polls_sees_what_comes_from_other_nodes() {
    const MAX_POLLS: u64 = 200_000_000;
    each_rank(&Shape::of_messages(2, 2, Security::Crc), |context| {
        if context.rank() == 1 {
            return serve(&context);
        }
        let ep = Endpoint::open(&context, TAG).unwrap();
        let answers = Rc::new(Cell::new(0));
        let count = answers.clone();
        let to = ready(&ep, name_of(1));
        ep.set_handler(PONG, move |_, _, _| count.set(count.get() + 1)).unwrap();
        for i in 1..200 {
            // Sends skip the poll at which the network would have been polled.
            for _ in 0..i % 5 {
                ep.request(to, PING, &[i]).unwrap();
            }
            let asked: u64 = (1..=i).map(|i| i % 5).sum();
            let mut polls = 0;
            while answers.get() < asked {
                ep.poll().unwrap();
                polls += 1;
                assert!(polls < MAX_POLLS, "answer {asked} never came");
            }
        }
        ep.request(to, Handler(9), &[]).unwrap();
        ep.drain().unwrap();
    });
}

#[test]
fn who_drains_is_told_by_an_endpoint_that_closes() {
    for round in 0..20 {
        each_rank(&Shape::of_messages(2, 2, Security::Crc), move |context| {
            if context.rank() == 1 {
                // Ends, and closes, with a request that the other rank still waits to be consumed.
                return serve(&context);
            }
            let ep = Endpoint::open(&context, TAG).unwrap();
            let to = ready(&ep, name_of(1));
            ep.set_handler(PONG, |_, _, _| ()).unwrap();
            for i in 0..round {
                ep.request(to, PING, &[i]).unwrap();
            }
            ep.request(to, Handler(9), &[]).unwrap();
            ep.drain().unwrap();
        });
    }
}
