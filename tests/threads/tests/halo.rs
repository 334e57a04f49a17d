//! Exchange of boundaries: each round's, from each neighbour, however far ahead another is.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_coll::Team;
use clump_pgas::{ErrorKind, HaloNeighbour, Pgas};
use clump_test_bed::{Sampler, Seat, Shape, run};
use clump_transport::Dispatch;
use std::sync::Arc;

fn open(seat: &Seat) -> Pgas {
    let team = Arc::new(Team::form(&seat.context).unwrap());
    Pgas::open(&seat.context, &team).unwrap()
}

/// Value `at` of the boundary that a rank gives in a round to one of its sides.
fn value(rank: usize, side: usize, round: u64, at: usize) -> u64 {
    (round << 32) + (rank as u64 * 2 + side as u64) * 1000 + at as u64
}

#[test]
fn every_round_brings_what_each_neighbour_gave_in_it() {
    let shapes = [
        Shape::of(1, 1),
        Shape::of(2, 1),
        Shape::of(3, 1),
        Shape::of(2, 2).troubled(),
        Shape::of(4, 2),
        Shape::of(3, 3).by_proxies(1, Dispatch::Fixed),
    ];
    for (seed, shape) in (1..).zip(shapes) {
        run(&shape, seed, move |seat| {
            let pgas = open(seat);
            let (me, n) = (pgas.rank(), pgas.nranks());
            let (left, right) = ((me + n - 1) % n, (me + 1) % n);
            // Pairs of ranks exchange different lengths: that of an edge is its left rank's.
            let len = |edge: usize| 1 + edge * 700;
            let neighbours = [
                HaloNeighbour { rank: left, entry: 1, len: len(left) },
                HaloNeighbour { rank: right, entry: 0, len: len(me) },
            ];
            let halo = pgas.halo::<u64>(&neighbours).unwrap();
            assert_eq!(halo.neighbours(), 2);
            let mut sampler = Sampler::new(seed * 100 + me as u64);
            let [mut from_left, mut from_right] = [len(left), len(me)].map(|len| vec![0; len]);
            for round in 1..200 {
                let given = |side: usize, len: usize| -> Vec<u64> {
                    (0..len).map(|at| value(me, side, round, at)).collect()
                };
                let (to_left, to_right) = (given(0, len(left)), given(1, len(me)));
                // Ranks go ahead of each other.
                for _ in 0..sampler.below(20) {
                    std::thread::yield_now();
                }
                halo.exchange(&[&to_left, &to_right], &mut [&mut from_left, &mut from_right])
                    .unwrap();
                let is = |got: &[u64], rank, side| {
                    got.iter().enumerate().all(|(at, got)| *got == value(rank, side, round, at))
                };
                let seen = |got: &[u64]| format!("round {round} at {me}: {:x?}", &got[..1]);
                assert!(is(&from_left, left, 1), "from the left in {}", seen(&from_left));
                assert!(is(&from_right, right, 0), "from the right in {}", seen(&from_right));
            }
            pgas.barrier().unwrap();
        });
    }
}

#[test]
fn neighbours_that_do_not_agree_fail_at_all_ranks() {
    run(&Shape::of(3, 1), 1, |seat| {
        let pgas = open(seat);
        let me = pgas.rank();
        // Rank 2 does not know rank 1.
        let known = [HaloNeighbour { rank: (me + 1) % 3, entry: 0, len: 4 }];
        let error = pgas.halo::<u32>(if me == 1 { &known } else { &[] }).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::DifferentHalos { rank: 1 }), "{error}");
        let halo = pgas.halo::<u32>(&[]).unwrap();
        halo.exchange(&[], &mut []).unwrap();
        assert!(halo.exchange(&[&[1]], &mut []).is_err(), "there is no neighbour");
        pgas.barrier().unwrap();
    });
}
