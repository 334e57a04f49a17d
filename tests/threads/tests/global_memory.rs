//! The global address space: words of four bytes, strided transfers, values under locks.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_coll::Team;
use clump_pgas::{BlockStride, ErrorKind, Layout, Pgas, PgasOptions};
use clump_test_bed::{Seat, Shape, run};
use clump_transport::{Dispatch, FaultPlan};
use std::sync::Arc;
use std::time::Duration;

fn open(seat: &Seat, options: &PgasOptions) -> Pgas {
    Pgas::with(&seat.context, &Arc::new(Team::form(&seat.context).unwrap()), options).unwrap()
}

/// Runs `body` on one node and on several.
fn everywhere(body: impl Fn(&Pgas) + Clone + Send + 'static) {
    let shapes = [
        Shape::of(1, 1),
        Shape::of(3, 1),
        Shape::of(4, 2).troubled(),
        Shape::of(3, 3),
        Shape::of(4, 2).by_proxies(1, Dispatch::Fixed),
    ];
    for (seed, shape) in (1..).zip(shapes) {
        let body = body.clone();
        run(&shape, seed, move |seat| body(&open(seat, &PgasOptions::default())));
    }
}

#[test]
fn words_of_four_bytes_are_collected_too() {
    let counts = run(&Shape::of(2, 2), 9, |seat| {
        let pgas = open(seat, &PgasOptions { delay: Duration::MAX, ..PgasOptions::default() });
        let table = pgas.spread::<i32>(64, Layout::Block).unwrap();
        let other = (1 - pgas.rank()) * 32;
        for i in 0..32 {
            table.at(other + i).store(i as i32 - 16).unwrap();
        }
        pgas.store_sync(32 * 4).unwrap();
        assert!(table.local().to_vec().unwrap().into_iter().eq(-16..16));
        pgas.barrier().unwrap();
        (0..32).for_each(|i| table.at(other + i).add(-1).unwrap());
        pgas.all_store_sync().unwrap();
        assert!(table.local().to_vec().unwrap().into_iter().eq(-17..15));
        pgas.barrier().unwrap();
        pgas.aggregation()
    });
    assert!(
        counts.iter().all(|counts| (counts.updates, counts.batches()) == (64, 2)),
        "{counts:?}"
    );
}

#[test]
fn columns_of_a_matrix_are_strided() {
    const ROWS: usize = 50;
    const COLUMNS: usize = 7;
    everywhere(|pgas| {
        let (me, ranks) = (pgas.rank(), pgas.nranks());
        let matrix = pgas.spread::<u32>(ROWS * COLUMNS * ranks, Layout::Block).unwrap();
        let next = matrix.on((me + 1) % ranks).unwrap();
        let column = |number: usize| next.offset_by(number as isize);
        let two = BlockStride { block: 2, step: COLUMNS };
        let values: Vec<u32> = (0..2 * ROWS as u32).map(|n| n + 1000 * me as u32).collect();
        pgas.strided_put(column(3), two, &values).unwrap();
        pgas.all_store_sync().unwrap();
        let before = (me + ranks - 1) % ranks;
        for (at, value) in matrix.local().to_vec().unwrap().into_iter().enumerate() {
            let (row, column) = (at / COLUMNS, at % COLUMNS);
            let written = [3, 4].contains(&column);
            let expected = if written { row * 2 + column - 3 + 1000 * before } else { 0 };
            assert_eq!(value as usize, expected, "{row} {column}");
        }
        let one = BlockStride { block: 1, step: COLUMNS };
        let mut got = vec![0; ROWS];
        pgas.strided_get(column(4), one, &mut got).unwrap();
        assert!(got.iter().zip(values.chunks(2)).all(|(got, row)| *got == row[1]));
        pgas.strided_get(column(4), one, &mut []).unwrap();

        let bad = |error: clump_pgas::Error| matches!(error.kind(), ErrorKind::BadPointer { .. });
        assert!(bad(pgas.strided_put(column(6), two, &values).unwrap_err()), "the last row's");
        let far = BlockStride { block: 1, step: usize::MAX };
        assert!(bad(pgas.strided_get(column(0), far, &mut got).unwrap_err()));
        let odd = pgas.strided_put(column(0), two, &values[1..]).unwrap_err();
        assert!(matches!(odd.kind(), ErrorKind::WrongLength { .. }));
        let none = BlockStride { block: 0, step: 1 };
        assert!(pgas.strided_put(column(0), none, &values).is_err());
        pgas.barrier().unwrap();
    });
}

#[test]
fn a_lock_may_go_after_the_barrier_behind_its_last_release() {
    // Where a release is lost and sent again, the barrier's messages come before it.
    let lossy =
        Shape { faults: Some(FaultPlan { loss: 0.2, ..FaultPlan::default() }), ..Shape::of(2, 2) };
    for shape in [lossy, Shape::of(3, 1), Shape::of(4, 2).by_proxies(1, Dispatch::Fixed)] {
        run(&shape, 11, |seat| {
            let pgas = open(seat, &PgasOptions::default());
            for turn in 0..60 {
                let mutex = pgas.mutex(0_u64).unwrap();
                if mutex.home() != pgas.rank() && turn % 2 == 0 {
                    *mutex.lock().unwrap() += 1;
                }
                pgas.barrier().unwrap();
                // Its home drops it at once: a release still under way would be refused.
                drop(mutex);
                pgas.quiet().unwrap();
                pgas.barrier().unwrap();
            }
        });
    }
}

#[test]
fn a_value_under_a_lock_is_changed_by_one_at_a_time() {
    everywhere(|pgas| {
        let (me, ranks) = (pgas.rank(), pgas.nranks());
        for home in 0..ranks.min(2) {
            let value = if me == 0 { [7_u64, 100, 0] } else { [0; 3] };
            let mutex = pgas.mutex(value).unwrap();
            assert_eq!(mutex.home(), home);
            let log = pgas.spread::<u64>(ranks * 10, Layout::Cyclic).unwrap();
            for _ in 0..10 {
                let mut held = mutex.lock().unwrap();
                // All parts change together, and each holder has a number of its own.
                assert_eq!(held[0] + held[1], 107, "{held:?}");
                held[0] += 1;
                held[1] -= 1;
                let number = held[2] as usize;
                held[2] += 1;
                // What the last holder wrote has happened.
                if number > 0 {
                    assert_ne!(log.at(number - 1).read().unwrap(), 0);
                }
                log.at(number).put(1 + me as u64).unwrap();
                if number.is_multiple_of(2) { held.release().unwrap() } else { drop(held) }
            }
            pgas.barrier().unwrap();
            if me == 0 {
                assert_eq!(
                    *mutex.lock().unwrap(),
                    [7 + 10 * ranks as u64, 100 - 10 * ranks as u64, 10 * ranks as u64]
                );
            }
            pgas.barrier().unwrap();
            let held = (me == 0).then(|| mutex.lock().unwrap());
            pgas.barrier().unwrap();
            assert!(me == 0 || mutex.try_lock().unwrap().is_none());
            pgas.barrier().unwrap();
            drop(held);
            pgas.barrier().unwrap();
        }
    });
}
