//! Locks and flags: exclusion, fairness, words, time limits, deaths.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_os::sync::{AtomicU64, Ordering};
use clump_rma::{Comparison, Refusal, Rma};
use clump_shm::job::{Death, DeathCause};
use clump_test_bed::{Shape, hang, run};
use clump_test_tier::pick;
use clump_transport::Dispatch;
use std::sync::Arc;
use std::time::Duration;

fn shapes() -> Vec<Shape> {
    vec![
        Shape::of(3, 1),
        Shape::of(2, 2),
        Shape::of(4, 2),
        Shape::of(4, 4),
        Shape::of(4, 2).troubled(),
        Shape::of(4, 2).by_proxies(2, Dispatch::LeastLoaded),
    ]
}

#[test]
fn ranks_exclude_each_other_and_the_word_counts_them() {
    let turns: u64 = pick(15, 100);
    for (seed, shape) in (1..).zip(shapes()) {
        run(&shape, seed, move |seat| {
            let rma = Rma::open(&seat.context).unwrap();
            let locks = rma.export_locks(2).unwrap();
            let names = seat.exchange(locks.name());
            let (_mine, all) = seat.allocate(&rma, 64);
            let lock = rma.lock(names[0], 1).unwrap();
            // The counter lies elsewhere than the lock, and is changed by two operations.
            let counter = all.last().unwrap();
            for turn in 0..turns {
                let mut guard = match turn % 3 {
                    0 => lock.acquire().unwrap(),
                    1 => loop {
                        if let Some(guard) = lock.try_acquire().unwrap() {
                            break guard;
                        }
                    },
                    _ => lock.acquire_within(Duration::from_secs(30)).unwrap().unwrap(),
                };
                let value = counter.get::<u64>(0).unwrap();
                counter.put(0, value + 1).unwrap();
                rma.quiet().unwrap();
                let word = guard.word();
                assert_eq!(word, value);
                guard.set_word(word + 1);
                guard.release().unwrap();
            }
            rma.quiet().unwrap();
            seat.meet();
            assert_eq!(lock.acquire().unwrap().word(), turns * seat.ranks() as u64);
            seat.meet();
        });
    }
}

#[test]
fn a_lock_goes_from_rank_to_rank_past_its_home() {
    let turns: u64 = pick(30, 150);
    let shapes = [
        Shape::of(4, 4),
        Shape::of(4, 2), // the contenders are on one node, the home on the other
        Shape::of(4, 4).troubled(),
        Shape::of(6, 3).by_proxies(2, Dispatch::LeastLoaded),
    ];
    for (seed, shape) in (1..).zip(shapes) {
        let passed = Arc::new(AtomicU64::new(0));
        let sum = passed.clone();
        run(&shape, seed, move |seat| {
            let rma = Rma::open(&seat.context).unwrap();
            let locks = rma.export_locks(1).unwrap();
            let names = seat.exchange(locks.name());
            let (_mine, all) = seat.allocate(&rma, 64);
            let lock = rma.lock(names[0], 0).unwrap();
            let counter = &all[0];
            for _ in 0..turns {
                // A rank of the home takes part now and then.
                let mut guard = lock.acquire().unwrap();
                let value = counter.get::<u64>(0).unwrap();
                counter.put(0, value + 1).unwrap();
                rma.quiet().unwrap();
                assert_eq!(guard.word(), value);
                guard.set_word(value + 1);
                guard.release().unwrap();
            }
            sum.fetch_add(rma.locks_passed(), Ordering::Relaxed);
            rma.quiet().unwrap();
            seat.meet();
            // Every holder has released it: the lock is free.
            if seat.rank() == 1 {
                let guard = lock.try_acquire().unwrap().unwrap();
                assert_eq!(guard.word(), turns * seat.ranks() as u64);
            }
            seat.meet();
        });
        // While one rank works, its successor has asked the home and been named.
        assert_ne!(passed.load(Ordering::Relaxed), 0, "{shape:?}");
    }
}

#[test]
fn what_was_put_before_a_fence_is_there_for_the_next_holder() {
    let turns = pick(20, 100);
    for (seed, shape) in (1..).zip([Shape::of(4, 4), Shape::of(4, 4).troubled()]) {
        run(&shape, seed, move |seat| {
            let rma = Rma::open(&seat.context).unwrap();
            let locks = rma.export_locks(1).unwrap();
            let names = seat.exchange(locks.name());
            let (_mine, all) = seat.allocate(&rma, 64);
            let lock = rma.lock(names[0], 0).unwrap();
            let counter = &all[0];
            for _ in 0..turns {
                let mut guard = lock.acquire().unwrap();
                assert_eq!(counter.get::<u64>(0).unwrap(), guard.word());
                let next = guard.word() + 1;
                guard.set_word(next);
                counter.put(0, next).unwrap();
                rma.fence();
                guard.release().unwrap();
            }
            rma.quiet().unwrap();
            seat.meet();
        });
    }
}

#[test]
fn who_waits_too_long_gives_up_and_does_not_stand_in_the_way() {
    for (seed, shape) in (1..).zip(shapes()) {
        run(&shape, seed, |seat| {
            let rma = Rma::open(&seat.context).unwrap();
            let locks = rma.export_locks(1).unwrap();
            let names = seat.exchange(locks.name());
            let lock = rma.lock(names[0], 0).unwrap();
            let guard = (seat.rank() == 0).then(|| lock.acquire().unwrap());
            seat.meet();
            if seat.rank() != 0 {
                for _ in 0..5 {
                    assert!(lock.try_acquire().unwrap().is_none());
                    assert!(lock.acquire_within(Duration::from_millis(2)).unwrap().is_none());
                }
            }
            seat.meet();
            drop(guard);
            drop(lock.acquire().unwrap());
            seat.meet();
        });
    }
}

#[test]
fn flags_are_set_and_waited_for_from_anywhere() {
    for (seed, shape) in (1..).zip(shapes()) {
        run(&shape, seed, |seat| {
            let rma = Rma::open(&seat.context).unwrap();
            let flags = rma.export_flags(2).unwrap();
            let names = seat.exchange(flags.name());
            // A token is passed round through a flag of rank 0, and counted by another.
            let turn = rma.flag(names[0], 1).unwrap();
            let sum = rma.flag(*names.last().unwrap(), 0).unwrap();
            let (rank, ranks) = (seat.rank() as u64, seat.ranks() as u64);
            for round in 0..30 {
                let mine = round * ranks + rank;
                assert_eq!(turn.wait(Comparison::Equal, mine).unwrap(), mine);
                sum.add(2).unwrap();
                turn.set(mine + 1).unwrap();
            }
            let all = 2 * 30 * ranks;
            assert_eq!(sum.wait(Comparison::AtLeast, all).unwrap(), all);
            let never = sum.wait_within(Comparison::NotEqual, all, Duration::from_millis(3));
            assert_eq!(never.unwrap(), None);
            // The last of all is on its way still.
            rma.quiet().unwrap();
            seat.meet();
            assert_eq!(turn.get().unwrap(), 30 * ranks);
            seat.meet();
        });
    }
}

#[test]
fn a_holder_that_dies_is_reported_to_all_who_wait() {
    for (seed, shape) in (1..).zip(shapes()) {
        if shape.ranks < 3 {
            continue;
        }
        run(&shape.surviving(), seed, |seat| {
            let rma = Rma::open(&seat.context).unwrap();
            let locks = rma.export_locks(1).unwrap();
            let names = seat.exchange(locks.name());
            let lock = rma.lock(names[1], 0).unwrap();
            let last = seat.ranks() - 1;
            if seat.rank() == last {
                std::mem::forget(lock.acquire().unwrap());
            }
            seat.meet();
            if seat.rank() == last {
                let rank = last as u32;
                // Others wait by then, or ask later: both get the error.
                seat.declare_dead(Death { rank, how: DeathCause::Signal(9) });
            } else {
                for _ in 0..2 {
                    let error = lock.acquire().unwrap_err();
                    assert_eq!(error.why(), Some(Refusal::HolderDied), "{error}");
                }
                // The home knows by now, wherever it is.
                let tried = lock.try_acquire().map(drop).map_err(|e| e.why());
                assert_eq!(tried, Err(Some(Refusal::HolderDied)));
            }
            seat.meet();
        });
    }
}

#[test]
fn who_waits_in_the_segment_of_a_rank_that_dies_is_told() {
    for (seed, shape) in (1..).zip(shapes()) {
        if shape.ranks < 4 || shape.nodes != 2 {
            continue;
        }
        run(&shape.surviving(), seed, |seat| {
            let rma = Rma::open(&seat.context).unwrap();
            let locks = rma.export_locks(1).unwrap();
            let names = seat.exchange(locks.name());
            let flags = rma.export_flags(1).unwrap();
            let flag_names = seat.exchange(flags.name());
            let (lock, flag) =
                (rma.lock(names[0], 0).unwrap(), rma.flag(flag_names[0], 0).unwrap());
            if seat.rank() == 3 {
                // On another node, so that it cannot release it once rank 0 is dead.
                std::mem::forget(lock.acquire().unwrap());
            }
            seat.meet();
            match seat.rank() {
                0 => seat.declare_dead(Death { rank: 0, how: DeathCause::Signal(9) }),
                1 | 2 => {
                    let error = lock.acquire().unwrap_err();
                    assert_eq!(error.why(), Some(Refusal::OwnerDead), "{error}");
                    let error = flag.wait(Comparison::AtLeast, 1).unwrap_err();
                    assert_eq!(error.why(), Some(Refusal::OwnerDead), "{error}");
                }
                _ => {}
            }
            seat.meet();
        });
    }
}

/// Checks that a job that hangs says which rank waits for what, and where its thread is.
#[test]
fn a_rank_that_waits_is_seen_with_its_wait_and_its_thread() {
    run(&Shape::of(2, 1), 1, |seat| {
        let rma = Rma::open(&seat.context).unwrap();
        let (mine, all) = seat.allocate(&rma, 64);
        seat.meet();
        if seat.context.rank() == 1 {
            mine.wait_until(0, Comparison::Equal, 7_u64).unwrap();
            return;
        }
        let give_up_ns = clump_os::clock::now_ns() + 30_000_000_000;
        loop {
            let report = hang::report(std::slice::from_ref(seat.context.node()));
            let waits = report.lines().find(|line| line.starts_with("rank 1: "));
            if waits.unwrap().contains("PublishedWait") {
                assert!(report.contains("thread `rank 1`: S"), "it sleeps: {report}");
                break;
            }
            assert!(clump_os::clock::now_ns() < give_up_ns, "{report}");
            clump_os::clock::yield_now();
        }
        all[1].put(0, 7_u64).unwrap();
        rma.quiet().unwrap();
    });
}
