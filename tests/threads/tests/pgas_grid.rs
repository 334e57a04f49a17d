//! Batches that go by way of another interface: over a grid of nodes, and combined by proxies.
//! Results are those of batches that go straight.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_coll::Team;
use clump_pgas::{Aggregation, ErrorKind, Layout, NodeGrid, Pgas, PgasOptions};
use clump_rma::Refusal;
use clump_shm::job::{Death, DeathCause};
use clump_test_bed::{Sampler, Seat, Shape, run};
use clump_transport::Dispatch;
use std::sync::Arc;
use std::time::Duration;

fn open(seat: &Seat, options: &PgasOptions) -> Pgas {
    Pgas::with(&seat.context, &Arc::new(Team::form(&seat.context).unwrap()), options).unwrap()
}

/// Nothing is sent but when it is full, or when the rank waits.
fn options(grid_nodes: usize) -> PgasOptions {
    PgasOptions { grid_nodes, delay: Duration::MAX, ..PgasOptions::default() }
}

/// Adds to elements everywhere, of both sizes; returns the counters, and this rank's elements.
fn histogram(seat: &Seat, options: &PgasOptions) -> (Aggregation, Vec<u64>, Vec<u32>) {
    let pgas = open(seat, options);
    let words = pgas.spread::<u64>(97, Layout::Cyclic).unwrap();
    let halves = pgas.spread::<u32>(97, Layout::Block).unwrap();
    let mut sampler = Sampler::new(seat.rank() as u64 + 1);
    for _ in 0..2000 {
        words.at(sampler.index(97)).add(sampler.below(100)).unwrap();
        halves.at(sampler.index(97)).xor(sampler.number() as u32).unwrap();
    }
    pgas.all_store_sync().unwrap();
    let found =
        (pgas.aggregation(), words.local().to_vec().unwrap(), halves.local().to_vec().unwrap());
    pgas.barrier().unwrap();
    found
}

#[test]
fn nine_nodes_get_the_same_over_a_grid_in_fewer_batches() {
    let run_with = |grid| run(&Shape::of(9, 9), 3, move |seat| histogram(seat, &options(grid)));
    let (straight, by_grid, below) = (run_with(0), run_with(9), run_with(10));
    for ((one, other), third) in straight.iter().zip(&by_grid).zip(&below) {
        assert_eq!((&one.1, &one.2), (&other.1, &other.2), "the same results");
        assert_eq!((one.0.forwarded, third.0.forwarded), (0, 0), "the number of nodes decides");
        assert_eq!(one.0.updates, other.0.updates);
        // Of 8 other nodes, 4 are reached straight, and 4 by way of those of the row.
        let share = other.0.forwarded as f64 / other.0.updates as f64;
        assert!((0.4..0.6).contains(&share), "{:?}", other.0);
        // Two arrays: a batch for each straight, one for both by way of another node.
        assert_eq!((one.0.batches(), other.0.batches()), (16, 8 + 2 * 2), "{:?}", other.0);
    }
}

#[test]
fn stored_bytes_are_counted_behind_them_by_each_way() {
    for shape in [Shape::of(9, 9), Shape::of(5, 5).troubled()] {
        run(&shape, 7, |seat| {
            let pgas = open(seat, &options(1));
            let (me, ranks) = (pgas.rank(), pgas.nranks());
            let table = pgas.spread::<u64>(ranks * 64, Layout::Block).unwrap();
            for round in 1..=20_u64 {
                for step in 1..ranks {
                    let to = (me + step) % ranks;
                    let at = table.at(to * 64 + me);
                    if round % 3 == 0 { at.now().store(round) } else { at.store(round) }.unwrap();
                }
                pgas.flush().unwrap();
                pgas.store_sync((ranks - 1) * 8).unwrap();
                // Others may be a round ahead.
                for from in (0..ranks).filter(|from| *from != me) {
                    let seen = table.local().get(from).unwrap();
                    assert!(seen >= round, "{seen} from {from} in round {round}");
                }
                pgas.barrier().unwrap();
            }
            assert!(pgas.aggregation().forwarded > 0);
            pgas.all_store_sync().unwrap();
        });
    }
}

#[test]
fn ranks_whose_proxies_combine_get_the_same() {
    for (proxies, ranks) in [(1, 6), (2, 5)] {
        let shape = || Shape::of(ranks, 3).by_proxies(proxies, Dispatch::LeastLoaded);
        let with = |combines| {
            let options = PgasOptions { combines, ..options(0) };
            run(&shape(), 5, move |seat| histogram(seat, &options))
        };
        for (one, other) in with(false).iter().zip(&with(true)) {
            assert_eq!((&one.1, &one.2), (&other.1, &other.2), "the same results");
            assert_eq!((one.0.forwarded, one.0.updates), (0, other.0.updates));
            if other.0.forwarded > 0 {
                assert_eq!(other.0.forwarded, other.0.updates, "all go by the proxy");
                assert!(other.0.batches() < one.0.batches(), "{:?}", other.0);
            }
        }
    }
}

#[test]
fn proxies_that_combine_are_given_credit_for_what_they_ask_of_others() {
    // Many times the bytes that an interface may have outstanding.
    const ROUNDS: u64 = 400;
    const ADDS: u64 = 500;
    run(&Shape::of(6, 3).by_proxies(1, Dispatch::LeastLoaded), 5, |seat| {
        let pgas = open(seat, &PgasOptions { combines: true, ..options(0) });
        let table = pgas.spread::<u64>(6, Layout::Cyclic).unwrap();
        for _ in 0..ROUNDS {
            for _ in 0..ADDS {
                table.at((pgas.rank() + 2) % 6).add(1).unwrap();
            }
            pgas.quiet().unwrap();
        }
        pgas.all_store_sync().unwrap();
        assert_eq!(table.local().to_vec().unwrap(), [ROUNDS * ADDS]);
        assert!(pgas.aggregation().forwarded > 0, "{:?}", pgas.aggregation());
        pgas.barrier().unwrap();
    });
}

/// Adds from the first node to the last of nine, when a node has died. Returns the error.
fn add_when_dead(dead: u32) -> (clump_pgas::Error, u64) {
    let mut found = run(&Shape::of(9, 9).surviving(), 5, move |seat| {
        let pgas = open(seat, &options(1));
        let table = pgas.spread::<u64>(9, Layout::Cyclic).unwrap();
        pgas.barrier().unwrap();
        let mut found = None;
        seat.meet();
        if seat.rank() == 0 {
            seat.declare_dead(Death { rank: dead, how: DeathCause::NodeLost });
        }
        seat.meet();
        if seat.rank() == 0 {
            table.at(8).add(5).unwrap();
            table.at(7).add(5).unwrap();
            let error = pgas.sync().unwrap_err();
            // What goes another way goes on.
            found = Some((error, table.at(7).read().unwrap()));
        }
        seat.meet();
        found
    });
    found.swap_remove(0).unwrap()
}

#[test]
fn the_death_of_a_node_in_the_middle_or_at_the_end_is_named() {
    assert_eq!(NodeGrid::new(9).middle(0, 8), Some(2));
    assert_eq!(NodeGrid::new(9).middle(0, 7), Some(1));
    let kind = |error: &clump_pgas::Error| match error.kind() {
        ErrorKind::OneSided(error) => (error.why(), error.to_string()),
        other => panic!("{other}"),
    };
    let (error, seven) = add_when_dead(2);
    let (why, text) = kind(&error);
    assert_eq!((why, seven), (Some(Refusal::NodeLost), 5), "{text}");
    assert!(text.contains("node 2"), "{text}");
    let (error, seven) = add_when_dead(8);
    let (why, text) = kind(&error);
    assert_eq!((why, seven), (Some(Refusal::NodeLost), 5), "{text}");
    assert!(text.contains("rank 8"), "{text}");
}
