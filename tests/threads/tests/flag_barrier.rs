//! The barrier over flags: no rank passes before all have arrived, and a rank that waits for a
//! dead one gets an error.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_rma::{Barrier, Rma, Segment};
use clump_shm::job::{Death, DeathCause};
use clump_test_bed::{Seat, Shape, run};
use clump_transport::Dispatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn open(seat: &Seat) -> (Rma, Segment, Barrier) {
    let rma = Rma::open(&seat.context).unwrap();
    let flags = rma.export_flags(Barrier::flags(&rma)).unwrap();
    let names = seat.exchange(flags.name());
    let barrier = Barrier::over(&rma, &names).unwrap();
    (rma, flags, barrier)
}

#[test]
fn nobody_passes_before_all_have_come() {
    let shapes = [
        Shape::of(1, 1),
        Shape::of(3, 1),
        Shape::of(2, 2),
        Shape::of(5, 2),
        Shape::of(3, 3),
        Shape::of(7, 5),
        Shape::of(4, 2).troubled(),
        Shape::of(6, 3).by_proxies(1, Dispatch::LeastLoaded),
    ];
    for (seed, shape) in (1..).zip(shapes) {
        meet_often(&shape, seed, 40);
    }
}

#[test]
fn more_nodes_than_six_rounds_reach_meet() {
    meet_often(&Shape::of(67, 66), 1, 2);
}

/// Runs a job whose ranks meet so often, and checks each time that all have come.
fn meet_often(shape: &Shape, seed: u64, times: u64) {
    // Independent of the barrier's own state.
    let arrived: Arc<[AtomicU64]> = (0..shape.ranks).map(|_| AtomicU64::new(0)).collect();
    run(shape, seed, move |seat| {
        let (_rma, _flags, mut barrier) = open(seat);
        for turn in 1..=times {
            arrived[seat.rank()].store(turn, Ordering::SeqCst);
            barrier.meet().unwrap();
            let all = arrived.iter().map(|rank| rank.load(Ordering::SeqCst));
            let all: Vec<u64> = all.collect();
            assert!(all.iter().all(|&at| at == turn || at == turn + 1), "{turn}: {all:?}");
        }
        seat.meet();
    });
}

#[test]
fn who_waits_for_the_dead_is_told() {
    for (seed, dead) in (1..).zip([3, 2]) {
        run(&Shape::of(4, 2).surviving(), seed, move |seat| {
            let (_rma, _flags, mut barrier) = open(seat);
            seat.meet();
            if seat.rank() == dead {
                seat.declare_dead(Death { rank: dead as u32, how: DeathCause::Signal(9) });
            } else {
                let said = barrier.meet().unwrap_err().to_string();
                assert!(said.contains(&format!("rank {dead}")), "{said}");
            }
            seat.meet();
        });
    }
}
