//! Parts for irregular programs: copies of objects of other nodes, arrays of locks, tasks that
//! ranks steal, one-way sends.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_coll::Team;
use clump_pgas::{
    BulkChannel, Error, ErrorKind, Layout, LockArray, LockKind, ObjectCache, Pgas, PgasOptions,
    WorkQueues,
};
use clump_test_bed::{Sampler, Seat, Shape, run};
use clump_test_tier::pick;
use clump_transport::Dispatch;
use std::sync::Arc;

fn shapes() -> [Shape; 5] {
    [
        Shape::of(2, 1),
        Shape::of(2, 2),
        Shape::of(4, 2).troubled(),
        Shape::of(3, 3),
        Shape::of(4, 2).by_proxies(1, Dispatch::Fixed),
    ]
}

/// Runs `body` in all shapes, with aggregation and without.
fn everywhere(body: impl Fn(&Seat, &Pgas) + Clone + Send + 'static) {
    for (seed, shape) in (1..).zip(shapes()) {
        for aggregates in [true, false] {
            let (body, options) = (body.clone(), PgasOptions { aggregates, ..Default::default() });
            run(&shape, seed, move |seat| {
                let team = Arc::new(Team::form(&seat.context).unwrap());
                body(seat, &Pgas::with(&seat.context, &team, &options).unwrap());
            });
        }
    }
}

/// Value of an object in a round.
fn record(round: u64, index: usize) -> [u64; 5] {
    std::array::from_fn(|at| round << 40 | (index as u64) << 8 | at as u64)
}

#[test]
fn copies_are_those_of_the_round_in_any_memory() {
    const OBJECTS: usize = 300;
    let rounds = pick(3, 10);
    everywhere(move |_, pgas| {
        let large = pgas.spread::<[u64; 5]>(OBJECTS, Layout::Block).unwrap();
        let small = pgas.spread::<u64>(OBJECTS, Layout::Cyclic).unwrap();
        // None, fewer than are looked up together, all.
        for capacity in [0, 500, 1 << 20] {
            let cache = ObjectCache::new(pgas, capacity);
            let (records, words) = (cache.class(), cache.class());
            let mut sampler = Sampler::new(capacity as u64 + pgas.rank() as u64);
            for round in 0..rounds {
                for local in 0..large.local().len() {
                    let index = large.local().index(local).unwrap();
                    large.local().set(local, record(round, index)).unwrap();
                }
                for local in 0..small.local().len() {
                    let index = small.local().index(local).unwrap();
                    small.local().set(local, round + index as u64).unwrap();
                }
                pgas.barrier().unwrap();
                cache.invalidate();
                let many: Vec<usize> = (0..40).map(|_| sampler.index(OBJECTS)).collect();
                let found = records.get_many(&large, &many).unwrap();
                let due: Vec<_> = many.iter().map(|&index| record(round, index)).collect();
                assert_eq!(found, due);
                // Both classes in one round, each until it is found.
                let mut left: Vec<usize> = (0..60).map(|_| sampler.index(OBJECTS)).collect();
                while !left.is_empty() {
                    left.retain(|&index| {
                        let record_there = records.find(large.at(index)).unwrap();
                        let word_there = words.find(small.at(index)).unwrap();
                        assert!(record_there.is_none_or(|it| it == record(round, index)));
                        assert!(word_there.is_none_or(|it| it == round + index as u64));
                        // One of both may have to give way to the other, for ever.
                        record_there.is_none() && word_there.is_none()
                    });
                    cache.fetch().unwrap();
                    assert!(!cache.has_missing());
                }
                assert_eq!(words.get(&small, 7).unwrap(), round + 7);
                pgas.barrier().unwrap();
            }
            let (counts, requests) = (records.counts(), cache.requests());
            assert!(counts.hits + counts.misses + counts.near > 0, "{counts:?}");
            assert!(requests.rounds <= requests.batches && requests.batches <= requests.objects);
            if capacity == 1 << 20 {
                assert_eq!((counts.evicted, words.counts().evicted), (0, 0));
            }
            assert!(records.get(&large, OBJECTS).is_err(), "none beyond the end");
        }
        pgas.all_store_sync().unwrap();
    });
}

#[test]
fn locks_of_every_kind_let_one_in_at_a_time() {
    let turns = pick(12, 60);
    everywhere(move |_, pgas| {
        let ranks = pgas.nranks();
        for kind in [LockKind::Queue, LockKind::Spin, LockKind::Served(u64::MAX)] {
            let cells = pgas.spread::<u64>(5, Layout::Cyclic).unwrap();
            let locks = LockArray::create(pgas, 5, kind).unwrap();
            assert_eq!((locks.len(), locks.home(5)), (5, None));
            for turn in 0..turns {
                let cell = (turn + pgas.rank()) % 5;
                let add = || {
                    let before = cells.at(cell).read()?;
                    locks.serve()?;
                    cells.at(cell).put(before + 1)
                };
                locks.with(cell, add).unwrap();
            }
            pgas.all_store_sync().unwrap();
            let sum: u64 = (0..5).map(|cell| cells.at(cell).read().unwrap()).sum();
            assert_eq!(sum, (turns * ranks) as u64, "{kind:?}");
            assert_eq!(locks.attempts().acquired, turns as u64);
            assert!(kind != LockKind::Queue || locks.attempts().failed == 0);
            let beyond = locks.with(5, || Ok::<_, Error>(())).unwrap_err();
            assert!(matches!(beyond.kind(), ErrorKind::NoSuchElement { index: 5, len: 5 }));
            pgas.barrier().unwrap();
        }
    });
}

#[test]
fn a_home_that_serves_attempts_without_end_gives_up() {
    run(&Shape::of(3, 2), 1, |seat| {
        let team = Arc::new(Team::form(&seat.context).unwrap());
        let pgas = Pgas::open(&seat.context, &team).unwrap();
        let locks = LockArray::create(&pgas, 1, LockKind::Served(0)).unwrap();
        if pgas.rank() == 0 {
            let given_up = locks.with(0, || -> Result<(), Error> {
                pgas.barrier()?;
                loop {
                    locks.serve()?;
                }
            });
            let error = given_up.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Livelock { attempts: 1.., .. }), "{error}");
            assert!(error.to_string().contains("livelock"));
        } else {
            pgas.barrier().unwrap();
            // Rank 0 gives the lock back with the error.
            locks.with(0, || Ok::<_, Error>(())).unwrap();
        }
        pgas.barrier().unwrap();
    });
}

#[test]
fn every_task_is_done_once_wherever_it_begins() {
    let depth = pick(7, 11);
    everywhere(move |_, pgas| {
        // With little room for others to steal from, and with much.
        for capacity in [3, 1 << 12] {
            let queues = WorkQueues::<[u64; 2]>::create(pgas, capacity).unwrap();
            let done = pgas.spread::<u64>(2 << depth, Layout::Cyclic).unwrap();
            for run in 1..3 {
                if pgas.rank() == run % pgas.nranks() {
                    queues.push([depth, 1]).unwrap();
                }
                let work = |queues: &WorkQueues<[u64; 2]>, [depth, number]: [u64; 2]| {
                    done.at(number as usize).add(1)?;
                    if depth == 0 {
                        return Ok(());
                    }
                    queues.push_all(&[[depth - 1, 2 * number], [depth - 1, 2 * number + 1]])
                };
                queues.run(work).unwrap();
                pgas.all_store_sync().unwrap();
                let local = done.local();
                for at in 0..local.len() {
                    let due = if local.index(at) == Some(0) { 0 } else { run as u64 };
                    assert_eq!(local.get(at).unwrap(), due, "task {:?}", local.index(at));
                }
                pgas.barrier().unwrap();
            }
            let counts = queues.counts();
            assert!(counts.stolen >= counts.steals, "{counts:?}");
            let all = pgas.team().all_reduce(counts.done, clump_coll::Sum).unwrap();
            assert_eq!(all, 2 * ((2 << depth) - 1));
        }
    });
}

#[test]
fn others_do_the_tasks_of_a_rank_that_fails() {
    for (seed, shape) in (1..).zip(shapes()) {
        run(&shape, seed, |seat| {
            let team = Arc::new(Team::form(&seat.context).unwrap());
            let pgas = Pgas::open(&seat.context, &team).unwrap();
            let queues = WorkQueues::<u64>::create(&pgas, 100).unwrap();
            if pgas.rank() == 0 {
                queues.push_all(&(0..100).collect::<Vec<_>>()).unwrap();
            }
            let ended = queues.run(|_, _| match pgas.rank() {
                0 => Err(ErrorKind::BadArguments.into()),
                _ => Ok(()),
            });
            // Others may have been faster than the first task of rank 0.
            let took_part = ended.as_ref().is_err_and(Error::took_part);
            assert!(ended.is_ok() || pgas.rank() == 0 && took_part, "{ended:?}");
            let done = pgas.team().all_reduce(queues.counts().done, clump_coll::Sum).unwrap();
            assert_eq!(done, 100);
        });
    }
}

#[test]
fn work_that_others_send_ends_when_nothing_is_in_flight() {
    everywhere(move |_, pgas| {
        let (me, ranks) = (pgas.rank(), pgas.nranks());
        for (capacity, depth) in [(1, 6), (64, pick(8, 12))] {
            let channel = BulkChannel::<u64>::open(pgas, capacity).unwrap();
            for _ in 0..2 {
                // Each number makes two that are one less, at ranks that it chooses.
                let waiting = std::cell::RefCell::new(vec![depth; usize::from(me == 0)]);
                let done = std::cell::Cell::new(0_u64);
                let receive = |_: usize, items: &[u64]| {
                    waiting.borrow_mut().extend(items);
                    Ok(())
                };
                let work = || {
                    let Some(next) = waiting.borrow_mut().pop() else { return Ok(false) };
                    done.set(done.get() + 1);
                    for child in (0..2_usize).filter(|_| next > 0) {
                        let to = (me * 3 + done.get() as usize + child) % ranks;
                        channel.send(to, &[next - 1], receive)?;
                    }
                    Ok(true)
                };
                channel.run(work, receive).unwrap();
                assert!(waiting.borrow().is_empty(), "nothing is left");
                let all = pgas.team().all_reduce(done.get(), clump_coll::Sum).unwrap();
                assert_eq!(all, (2 << depth) - 1);
            }
            // An error of one rank ends the run of all.
            let failed = channel.run(
                || if me == 0 { Err(ErrorKind::BadArguments.into()) } else { Ok(false) },
                |_, _| Ok(()),
            );
            assert_eq!(failed.is_err(), me == 0, "{failed:?}");
            channel.finish(|_, _| Ok(())).unwrap();
        }
    });
}

#[test]
fn items_of_each_sender_arrive_once_and_in_order() {
    let rounds = pick(15, 80);
    everywhere(move |_, pgas| {
        let (me, ranks) = (pgas.rank(), pgas.nranks());
        for capacity in [1, 50, 1000] {
            let channel = BulkChannel::<[u64; 3]>::open(pgas, capacity).unwrap();
            for turn in 0..2 {
                let mut sampler = Sampler::new((me * 10 + turn) as u64);
                let (mut sent, mut received) = (vec![0; ranks], vec![0; ranks]);
                let mut receive = |from: usize, items: &[[u64; 3]]| {
                    for item in items {
                        assert_eq!(*item, [from as u64, me as u64, received[from]]);
                        received[from] += 1;
                    }
                    Ok(())
                };
                for _ in 0..rounds {
                    let (to, count) = (sampler.index(ranks), sampler.below(2 * capacity as u64));
                    let first = sent[to];
                    let items: Vec<_> =
                        (first..first + count).map(|at| [me as u64, to as u64, at]).collect();
                    sent[to] += count;
                    channel.send(to, &items, &mut receive).unwrap();
                }
                channel.finish(&mut receive).unwrap();
                let all: Vec<u64> = pgas.team().all_gather(sent[0]).unwrap();
                assert!(me > 0 || received == all);
                assert!(channel.try_send(ranks, &[[0; 3]]).is_err());
                pgas.barrier().unwrap();
            }
        }
    });
}
