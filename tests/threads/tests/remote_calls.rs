//! Remote calls: results, failures, objects of every rank, and the detection of their end.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_coll::{Sum, Team};
use clump_pgas::{ErrorKind, Layout, Pgas, PgasOptions, RemoteCalls};
use clump_test_bed::{Seat, Shape, run};
use clump_trace::Counter;
use clump_transport::Dispatch;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn open(seat: &Seat, options: &PgasOptions) -> Pgas {
    let team = Arc::new(Team::form(&seat.context).unwrap());
    Pgas::with(&seat.context, &team, options).unwrap()
}

/// Runs `body` on one node and on several.
fn everywhere(body: impl Fn(&Pgas, &RemoteCalls) + Clone + Send + 'static) {
    let shapes = [
        Shape::of(1, 1),
        Shape::of(3, 1),
        Shape::of(4, 2).troubled(),
        Shape::of(3, 3),
        Shape::of(4, 2).by_proxies(1, Dispatch::Fixed),
    ];
    for (seed, shape) in (1..).zip(shapes) {
        let bounds = [PgasOptions::default(), tight(), alone()];
        let first = seed as usize % bounds.len();
        let several = clump_test_tier::pick(1, bounds.len());
        for options in bounds.into_iter().cycle().skip(first).take(several) {
            let body = body.clone();
            run(&shape, seed, move |seat| {
                let pgas = open(seat, &options);
                let calls = pgas.remote_calls().unwrap();
                body(&pgas, &calls);
                pgas.barrier().unwrap();
            });
        }
    }
}

/// Each call travels by itself.
fn alone() -> PgasOptions {
    PgasOptions { aggregates: false, ..PgasOptions::default() }
}

/// Batches are of few calls, are few, and wait for ever.
fn tight() -> PgasOptions {
    let delay = Duration::from_secs(1000);
    PgasOptions { batch_updates: 10, memory_bytes: 200, delay, ..PgasOptions::default() }
}

#[test]
fn calls_to_other_nodes_travel_together() {
    let shape = Shape::of(4, 2);
    run(&shape, 9, |seat| {
        let pgas = open(seat, &PgasOptions { delay: Duration::MAX, ..PgasOptions::default() });
        let calls = pgas.remote_calls().unwrap();
        let sum = Rc::new(Cell::new(0_u64));
        let here = sum.clone();
        let add = calls
            .register("add", move |_, value: u64| {
                here.set(here.get() + value);
                Ok(here.get())
            })
            .unwrap();
        let counts = || {
            let counters = seat.context.counters();
            let batches = [
                Counter::PgasBatchesFull,
                Counter::PgasBatchesOld,
                Counter::PgasBatchesDisplaced,
                Counter::PgasBatchesFlushed,
            ];
            let batches = batches.map(|counter| counters.get(counter)).iter().sum::<u64>();
            (counters.get(Counter::PgasCollected), batches)
        };
        // Ranks 0 and 1 share a node, 2 and 3 another.
        let (me, before) = (pgas.rank(), counts());
        for value in 0..1000 {
            calls.send(add, value as usize % 4, &value).unwrap();
        }
        let answers: Vec<_> = (0..4).map(|rank| calls.call(add, rank, &0).unwrap()).collect();
        let (collected, batches) = (counts().0 - before.0, counts().1 - before.1);
        assert_eq!((collected, batches), (0, 0), "nothing is full, old or awaited");
        answers.into_iter().for_each(|pending| assert!(pending.wait().unwrap() > 0));
        let (collected, batches) = (counts().0 - before.0, counts().1 - before.1);
        // Of this rank's own and of two of another node.
        assert_eq!((collected, batches), (753, 3), "rank {me}: one message for each");
        calls.detect_termination(|| Ok(false)).unwrap();
        let expected: u64 = (0..1000).filter(|value| value % 4 == me as u64).sum();
        assert_eq!(sum.get(), 4 * expected);
    });
}

#[test]
fn calls_to_this_rank_run_at_its_next_poll() {
    run(&Shape::of(1, 1), 9, |seat| {
        let pgas = open(seat, &PgasOptions { delay: Duration::MAX, ..PgasOptions::default() });
        let calls = pgas.remote_calls().unwrap();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let here = seen.clone();
        let note = calls
            .register("note", move |context, text: String| {
                here.borrow_mut().push(text.clone());
                if text == "again" { context.again(0, &"once more".to_owned()) } else { Ok(()) }
            })
            .unwrap();
        let messages = || seat.context.counters().get(Counter::PgasCollected);
        let before = messages();
        for text in ["one", "two", "again"] {
            calls.send_borrowed(note, 0, text).unwrap();
        }
        assert!(seen.borrow().is_empty(), "no function runs inside a call that sends");
        calls.poll().unwrap();
        assert_eq!(seen.borrow()[..3], ["one", "two", "again"]);
        assert_eq!(messages() - before, 3, "they were collected");
        calls.detect_termination(|| Ok(false)).unwrap();
        assert_eq!(*seen.borrow(), ["one", "two", "again", "once more"]);
    });
}

#[test]
fn answers_that_do_not_fit_into_one_message() {
    everywhere(|pgas, calls| {
        let fill = calls
            .register("fill", |_, (length, value): (usize, u8)| Ok(vec![value; length]))
            .unwrap();
        let to = (pgas.rank() + pgas.nranks() - 1) % pgas.nranks();
        let call = |value| calls.call(fill, to, &(3000 + usize::from(value), value)).unwrap();
        let begun: Vec<_> = (0..64).map(call).collect();
        for (value, pending) in (0..).zip(begun) {
            assert_eq!(pending.wait().unwrap(), vec![value; 3000 + usize::from(value)]);
        }
    });
}

#[test]
fn functions_of_elements_are_executed_where_they_lie() {
    everywhere(|pgas, calls| {
        let (me, ranks) = (pgas.rank() as u64, pgas.nranks() as u64);
        // Sum, largest and number of the values given.
        let cells = pgas.spread::<[u64; 3]>(7, Layout::Cyclic).unwrap();
        let give = calls
            .register_atomic("give", |cell: &mut [u64; 3], value: u64| {
                *cell = [cell[0] + value, cell[1].max(value), cell[2] + 1];
                if value == 1_000_000 {
                    return Err(ErrorKind::BadArguments.into());
                }
                Ok(cell[2])
            })
            .unwrap();
        let values = |rank: u64| (0..70).map(move |n| 1 + n * ranks + rank);
        let at = |value: u64| cells.ptr((value / ranks) as usize % 7).unwrap();
        let begun: Vec<_> =
            values(me).map(|value| calls.atomic(give, at(value), &value).unwrap()).collect();
        let turns: Vec<u64> = begun.into_iter().map(|it| it.wait().unwrap()).collect();
        assert!(turns.iter().all(|&turn| 0 < turn && turn <= 70 * ranks));
        pgas.barrier().unwrap();
        calls.send_atomic(give, cells.ptr(0).unwrap(), &0).unwrap();
        assert!(calls.atomic(give, cells.ptr(3).unwrap(), &1_000_000).unwrap().wait().is_err());
        calls.detect_termination(|| Ok(false)).unwrap();
        let turns = pgas.team().all_reduce(turns.iter().sum::<u64>(), Sum).unwrap();
        let mut expected = [[0, 0, 0]; 7];
        for value in (0..ranks).flat_map(values) {
            let cell: &mut [u64; 3] = &mut expected[(value / ranks) as usize % 7];
            *cell = [cell[0] + value, cell[1].max(value), cell[2] + 1];
        }
        // Each value had a turn of its own at its cell.
        assert_eq!(turns, expected.iter().map(|cell| cell[2] * (cell[2] + 1) / 2).sum::<u64>());
        expected[0][2] += ranks;
        for (index, cell) in expected.iter().enumerate() {
            assert_eq!(cells.at(index).read().unwrap(), *cell, "cell {index}");
        }
        let outside = cells.ptr(0).unwrap().offset_by(1000);
        assert!(calls.atomic(give, outside, &1).is_err());
        pgas.barrier().unwrap();
    });
}

#[test]
fn calls_of_a_rank_that_has_left_fail() {
    for (seed, shape) in (1..).zip([Shape::of(2, 1), Shape::of(2, 2)]) {
        run(&shape, seed, |seat| {
            let pgas = open(seat, &PgasOptions::default());
            let calls = pgas.remote_calls().unwrap();
            let echo = calls.register("echo", |_, value: u64| Ok(value)).unwrap();
            if pgas.rank() == 1 {
                drop(calls);
                pgas.barrier().unwrap();
                pgas.barrier().unwrap();
                return;
            }
            pgas.barrier().unwrap();
            let begun: Vec<_> = (0..50).map(|n| calls.call(echo, 1, &n).unwrap()).collect();
            for pending in begun {
                let error = pending.wait().unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::CallFailed { rank: 1, .. }), "{error}");
            }
            pgas.barrier().unwrap();
        });
    }
}

#[test]
fn a_hash_table_over_all_ranks() {
    everywhere(|pgas, calls| {
        let (me, ranks) = (pgas.rank() as u64, pgas.nranks() as u64);
        let map = calls.dist(HashMap::<u64, String>::new()).unwrap();
        let insert = calls
            .register("insert", |context, (map, key, value): (_, u64, String)| {
                context.with(map, |map: &mut HashMap<u64, String>| map.insert(key, value).is_none())
            })
            .unwrap();
        let find = calls
            .register("find", |context, (map, key): (_, u64)| {
                let found =
                    context.with(map, |map: &mut HashMap<u64, String>| map.get(&key).cloned());
                found.map(|found| (context.from(), found))
            })
            .unwrap();
        let owner = |key: u64| (key % ranks) as usize;
        let call = |key: u64| {
            let arguments = (map.name(), key, format!("value {key}"));
            calls.call(insert, owner(key), &arguments).unwrap()
        };
        let begun: Vec<_> = (0..50).map(|i| call(i * ranks + me + 1)).collect();
        assert!(begun.into_iter().all(|pending| pending.wait().unwrap()), "all are new");
        pgas.barrier().unwrap();
        assert!(!call(1).wait().unwrap(), "it was there");
        for key in (1..=50 * ranks).step_by(7) {
            let found = calls.call(find, owner(key), &(map.name(), key)).unwrap().wait().unwrap();
            assert_eq!(found, (me as usize, Some(format!("value {key}"))));
        }
        let missing = calls.call(find, owner(0), &(map.name(), 0)).unwrap().wait().unwrap();
        assert_eq!(missing.1, None);
        let here = map.with(|map| map.len() as u64).unwrap();
        assert_eq!(pgas.team().all_reduce(here, Sum).unwrap(), 50 * ranks);
    });
}

#[test]
fn failures_are_told_to_their_callers() {
    everywhere(|pgas, calls| {
        let next = (pgas.rank() + 1) % pgas.nranks();
        let object = calls.dist(5_u32).unwrap();
        let fails = calls
            .register("fails", |context, name| {
                context.with(name, |_: &mut u32| ())?;
                Err::<u8, _>(ErrorKind::NoSuchRank { rank: 77 }.into())
            })
            .unwrap();
        let long = calls.register("long", |_, bytes: u64| Ok(vec![0_u8; bytes as usize])).unwrap();
        let text = |error: clump_pgas::Error| match error.kind() {
            ErrorKind::CallFailed { rank, text } if *rank == next => text.clone(),
            other => panic!("{other}"),
        };
        let failed = calls.call(fails, next, &object.name()).unwrap().wait().unwrap_err();
        assert!(text(failed).contains("rank 77"));
        let failed = calls.call(long, next, &1_000_000).unwrap().wait().unwrap_err();
        assert!(text(failed).contains("do not fit into a message"));
        assert_eq!(calls.call(long, next, &100).unwrap().wait().unwrap().len(), 100);
        let nobody = calls.call(long, pgas.nranks(), &1).unwrap_err();
        assert!(matches!(nobody.kind(), ErrorKind::NoSuchRank { .. }));
        let much = calls.register("much", |_, bytes: Vec<u8>| Ok(bytes.len() as u64)).unwrap();
        let refused = calls.call(much, next, &vec![1; 1 << 20]).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::CallTooLong { .. }));
        assert_eq!(calls.call(much, next, &vec![1; 1000]).unwrap().wait().unwrap(), 1000);
        // Nothing of those that could not be sent is waited for.
        calls.detect_termination(|| Ok(false)).unwrap();
        let in_use = object.with(|_| object.with(|_| ())).unwrap().unwrap_err();
        assert!(matches!(in_use.kind(), ErrorKind::ObjectInUse));
        pgas.barrier().unwrap();
        if pgas.nranks() > 1 {
            let name = if pgas.rank() == 0 { "this" } else { "that" };
            let differs = calls.register(name, |_, n: u64| Ok(n)).unwrap_err();
            assert!(matches!(differs.kind(), ErrorKind::DifferentFunctions { .. }));
        }
    });
}

/// Returns the children of a node of a tree that all ranks know.
fn children(node: u64, depth: u64) -> impl Iterator<Item = u64> {
    let count = if depth == 0 { 0 } else { node.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 };
    (0..count).map(move |n| (node ^ n << 7).wrapping_mul(0xd129_9c8b_41d7_5e65) + n)
}

fn size(node: u64, depth: u64) -> u64 {
    1 + children(node, depth).map(|child| size(child, depth - 1)).sum::<u64>()
}

#[test]
fn calls_that_make_calls_are_waited_for() {
    everywhere(|pgas, calls| {
        let (me, ranks) = (pgas.rank(), pgas.nranks());
        let visited = Rc::new(Cell::new(0_u64));
        let count = visited.clone();
        let visit = calls
            .register("visit", move |context, (node, depth): (u64, u64)| {
                count.set(count.get() + 1);
                let at = |child: u64| (child % ranks as u64) as usize;
                children(node, depth)
                    .try_for_each(|child| context.again(at(child), &(child, depth - 1)))
            })
            .unwrap();
        for round in 0..3 {
            visited.set(0);
            pgas.barrier().unwrap();
            let roots = |rank: usize| (0..8).map(move |n| 1000 * round + 8 * rank as u64 + n);
            roots(me).for_each(|root| calls.send(visit, (me + 1) % ranks, &(root, 9)).unwrap());
            calls.detect_termination(|| Ok(false)).unwrap();
            let all = pgas.team().all_reduce(visited.get(), Sum).unwrap();
            let expected: u64 = (0..ranks).flat_map(roots).map(|root| size(root, 9)).sum();
            assert_eq!(all, expected);
        }
    });
}

#[test]
fn work_of_ranks_is_waited_for() {
    everywhere(|pgas, calls| {
        let (me, ranks) = (pgas.rank(), pgas.nranks());
        let queue = Rc::new(RefCell::new(VecDeque::new()));
        let accepted = queue.clone();
        let give = calls
            .register("give", move |_, task: (u64, u64)| {
                accepted.borrow_mut().push_back(task);
                Ok(())
            })
            .unwrap();
        if me == 0 {
            queue.borrow_mut().push_back((42, 12));
        }
        let mut done = 0_u64;
        calls
            .detect_termination(|| {
                let Some((node, depth)) = queue.borrow_mut().pop_front() else { return Ok(false) };
                done += 1;
                for child in children(node, depth) {
                    calls.send(give, (child % ranks as u64) as usize, &(child, depth - 1))?;
                }
                Ok(true)
            })
            .unwrap();
        assert!(queue.borrow().is_empty());
        assert_eq!(pgas.team().all_reduce(done, Sum).unwrap(), size(42, 12));
    });
}
