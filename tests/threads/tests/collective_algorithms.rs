//! Every algorithm of every collective, preferred in turn, on random teams and at random sizes,
//! against a sequential model; and split-phase collectives and other teams in between.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_am::ErrorKind;
use clump_coll::choice::{Algorithm, Operation};
use clump_coll::{Max, Op, Sum, Team};
use clump_shm::job::{Death, DeathCause};
use clump_test_bed::{Sampler, Shape, run};
use clump_test_tier::pick;

/// An operation whose operands can be neither exchanged nor regrouped.
struct Chained;

impl Op<u64> for Chained {
    fn combine(lower: u64, higher: u64) -> u64 {
        lower.wrapping_mul(31).wrapping_add(higher).rotate_left(7)
    }
}

/// Returns what a rank gives to collective `n`.
fn given(n: u64, rank: usize, count: usize) -> Vec<u64> {
    let mut sampler = Sampler::new(n << 16 ^ rank as u64);
    (0..count).map(|_| sampler.number()).collect()
}

/// Returns bytes that a rank gives to another, of a length of their own.
fn string(n: u64, (from, to): (usize, usize), most: usize) -> Vec<u8> {
    let mut sampler = Sampler::new(n << 24 ^ (from as u64) << 12 ^ to as u64);
    let len = if most == 0 { 0 } else { sampler.index(most + 1) };
    (0..len).map(|at| (at * 7 + from * 3 + to) as u8).collect()
}

/// The order of recursive doubling: neighbours first, where ranks are no power of two.
fn folded(all: &[Vec<u64>]) -> Vec<u64> {
    let power = 1 << all.len().ilog2();
    let pair = |a: &Vec<u64>, b: &Vec<u64>| -> Vec<u64> {
        a.iter().zip(b).map(|(&a, &b)| Chained::combine(a, b)).collect()
    };
    let doubled = 2 * (all.len() - power);
    let pairs = all[..doubled].chunks(2).map(|it| pair(&it[0], &it[1]));
    let mut level: Vec<Vec<u64>> = pairs.chain(all[doubled..].iter().cloned()).collect();
    while level.len() > 1 {
        level = level.chunks(2).map(|it| pair(&it[0], &it[1])).collect();
    }
    level.remove(0)
}

/// The order of Hillis and Steele's scan.
fn scanned(all: &[Vec<u64>]) -> Vec<u64> {
    let (mut all, mut distance) = (all.to_vec(), 1);
    while distance < all.len() {
        let before = all.clone();
        for (rank, row) in all.iter_mut().enumerate().skip(distance) {
            let lower = &before[rank - distance];
            row.iter_mut().zip(lower).for_each(|(b, &a)| *b = Chained::combine(a, *b));
        }
        distance *= 2;
    }
    all.pop().unwrap()
}

/// Values of a contribution, and most bytes of a string.
const COUNTS: [usize; 6] = [0, 1, 3, 29, 700, 40_000];

/// Executes collective `n`, of an operation and a size that all ranks draw alike.
fn step(team: &Team, n: u64) {
    let mut sampler = Sampler::new(n);
    let (me, ranks) = (team.rank(), team.nranks());
    let operation = Operation::ALL[sampler.index(Operation::ALL.len())];
    let mut count = COUNTS[sampler.index(COUNTS.len())];
    if count > 1000 && sampler.index(4) != 0 {
        count = 5;
    }
    let algorithm = Algorithm::ALL[sampler.index(Algorithm::ALL.len())];
    team.prefer((sampler.index(4) != 0).then_some(algorithm));
    let root = sampler.index(ranks);
    let here = me == root;
    let mine = given(n, me, count);
    let all: Vec<Vec<u64>> = (0..ranks).map(|rank| given(n, rank, count)).collect();
    match operation {
        Operation::Barrier => team.barrier().unwrap(),
        Operation::Broadcast => {
            let mut values = mine;
            team.broadcast(root, &mut values).unwrap();
            assert!(values == all[root], "{algorithm:?}");
        }
        Operation::Reduce => {
            let mut values = mine.clone();
            team.reduce_slice(root, &mut values, Chained).unwrap();
            assert!(values == if here { folded(&all) } else { mine }, "{algorithm:?}");
        }
        Operation::AllReduce => {
            let mut values = mine;
            team.all_reduce_slice(&mut values, Chained).unwrap();
            assert!(values == folded(&all), "{algorithm:?}");
        }
        Operation::Scan if sampler.index(2) == 0 => {
            let mut values = mine;
            team.scan_slice(&mut values, Chained).unwrap();
            assert!(values == scanned(&all[..=me]), "{algorithm:?}");
        }
        Operation::Scan => {
            let mut values = mine.clone();
            team.exclusive_scan_slice(&mut values, Chained).unwrap();
            let expected = if me == 0 { mine } else { scanned(&all[..me]) };
            assert!(values == expected, "{algorithm:?}");
        }
        _ => parts(team, operation, (n, root, count), &mut sampler, algorithm),
    }
    team.prefer(None);
}

/// Executes a collective of parts, which have no operation on values.
fn parts(
    team: &Team,
    operation: Operation,
    (n, root, count): (u64, usize, usize),
    sampler: &mut Sampler,
    algorithm: Algorithm,
) {
    let (me, ranks) = (team.rank(), team.nranks());
    let here = me == root;
    let all = || (0..ranks).map(|rank| given(n, rank, count)).collect::<Vec<_>>();
    let strings = |from: usize| -> Vec<Vec<u8>> {
        (0..ranks).map(|to| string(n, (from, to), count * 8)).collect()
    };
    match operation {
        Operation::Gather => {
            let got = team.gather_bytes(root, &strings(me)[0]).unwrap();
            let expected = || (0..ranks).map(|rank| strings(rank).remove(0)).collect();
            assert!(got == here.then(expected), "{algorithm:?}");
            let mut values = vec![7; if here { ranks * count } else { 0 }];
            team.gather_slice(root, &given(n, me, count), &mut values).unwrap();
            assert!(values == if here { all().concat() } else { Vec::new() }, "{algorithm:?}");
        }
        Operation::AllGather => {
            let got = team.all_gather_bytes(&strings(me)[0]).unwrap();
            assert!(got.iter().enumerate().all(|(rank, it)| *it == strings(rank)[0]));
            let words = team.all_gather(given(n, me, 1)[0]).unwrap();
            assert!(words.iter().enumerate().all(|(rank, &it)| it == given(n, rank, 1)[0]));
            let mut values = vec![7; ranks * count];
            team.all_gather_slice(&given(n, me, count), &mut values).unwrap();
            assert!(values == all().concat(), "{algorithm:?}");
        }
        Operation::Scatter => {
            let parts = if here { strings(root) } else { Vec::new() };
            let got = team.scatter_bytes(root, &parts).unwrap();
            assert!(got == strings(root)[me], "{algorithm:?}");
            let (whole, mut mine) = (all().concat(), vec![7; count]);
            team.scatter_slice(root, if here { &whole[..] } else { &[] }, &mut mine).unwrap();
            assert!(mine == given(n, me, count), "{algorithm:?}");
        }
        Operation::AllToAll if sampler.index(3) == 0 => {
            let row =
                |from: usize| (0..ranks).flat_map(move |to| given(n * 97 + from as u64, to, count));
            let mut got = vec![7; ranks * count];
            team.all_to_all_slice(&row(me).collect::<Vec<_>>(), &mut got).unwrap();
            let expected = (0..ranks).flat_map(|from| given(n * 97 + from as u64, me, count));
            assert!(got == expected.collect::<Vec<_>>(), "{algorithm:?}");
        }
        Operation::AllToAll if sampler.index(2) == 0 => {
            let got = team.all_to_all_bytes(&strings(me)).unwrap();
            assert!(got.iter().enumerate().all(|(from, it)| *it == strings(from)[me]));
        }
        Operation::AllToAll => {
            let row = |from: usize| -> Vec<[u64; 3]> {
                (0..ranks).map(|to| [n, from as u64, to as u64]).collect()
            };
            let got = team.all_to_all(&row(me)).unwrap();
            assert!(got.iter().enumerate().all(|(from, it)| *it == row(from)[me]));
        }
        other => unreachable!("{other:?} is one of values"),
    }
}

/// Executes collectives of three teams, some in two phases, some of several teams at one time.
fn program(all: &Team, seed: u64, steps: u64) {
    let mut sampler = Sampler::new(seed);
    let colors = 1 + sampler.index(3) as u64;
    let stride = all.split(Some(all.rank() as u64 % colors), 0).unwrap().unwrap();
    let halves = all.rank() * 2 / all.nranks();
    let half = all.split(Some(halves as u64), 0).unwrap().unwrap();
    let back = all.split(Some(0), (all.nranks() - all.rank()) as u64).unwrap().unwrap();
    for n in 0..steps {
        let team = [all, &stride, &half, &back][sampler.index(4)];
        let other = [&half, all, &stride, &back][sampler.index(4)];
        let n = seed << 20 | n;
        let value = given(n, team.rank(), 1);
        let begun = team.start_all_reduce(&value, Max).unwrap();
        step(other, n << 1);
        step(team, n << 1 | 1);
        let max = (0..team.nranks()).map(|rank| given(n, rank, 1)[0]).max().unwrap();
        assert_eq!(begun.wait().unwrap(), [max]);
    }
    all.barrier().unwrap();
}

#[test]
fn every_algorithm_gives_what_one_rank_would() {
    let shapes = [
        Shape::of(1, 1),
        Shape::of(2, 1),
        Shape::of(5, 1),
        Shape::of(8, 1),
        Shape::of(2, 2),
        Shape::of(4, 2).troubled(),
        Shape::of(7, 3),
        Shape::of(8, 4),
        Shape::of(9, 1),
        Shape::of(9, 4).troubled(),
    ];
    for (seed, shape) in (1..).zip(shapes) {
        run(&shape, seed, move |seat| {
            program(&Team::form(&seat.context).unwrap(), seed, pick(40, 300));
        });
    }
}

#[test]
fn teams_come_and_go_and_have_memory_in_common_as_long_as_it_lasts() {
    run(&Shape::of(4, 2), 1, |seat| {
        let all = Team::form(&seat.context).unwrap();
        let mut kept = Vec::new();
        for n in 0..pick(60, 400) {
            let team = all.split(Some(all.rank() as u64 / 3), n % 3).unwrap().unwrap();
            step(&team, n);
            step(&all, n);
            // More than a rank has areas for.
            kept.push(team);
            if kept.len() > 20 {
                kept.drain(..(n as usize % 20));
            }
        }
        kept.iter().zip(0..).for_each(|(team, n)| step(team, 1000 + n));
        all.barrier().unwrap();
    });
}

#[test]
fn a_rank_that_dies_ends_every_algorithm_with_its_name() {
    for (ranks, nodes) in [(3, 1), (4, 2)] {
        let shape = Shape { survive: true, ..Shape::of(ranks, nodes) };
        run(&shape, 1, move |seat| {
            let team = Team::form(&seat.context).unwrap();
            let dead = ranks as u32 - 1;
            let met = team.barrier();
            assert!(met.is_ok() || seat.context.rank() != dead, "nobody was dead yet");
            if seat.context.rank() == dead {
                seat.declare_dead(Death { rank: dead, how: DeathCause::Signal(9) });
                std::mem::forget(team);
                return;
            }
            for algorithm in Algorithm::ALL {
                team.prefer(Some(algorithm));
                let long = &mut vec![1_u64; 50_000];
                let results = [
                    team.all_reduce(1_u64, Sum).map(drop),
                    team.all_reduce_slice(long, Sum),
                    team.all_gather_bytes(&[1]).map(drop),
                    team.all_to_all_bytes(&vec![[1_u8; 9]; ranks]).map(drop),
                ];
                for error in results.map(|result| result.unwrap_err()) {
                    let named =
                        matches!(error.kind(), ErrorKind::RankDied(death) if death.rank == dead);
                    assert!(named, "{algorithm:?}: {error}");
                }
            }
        });
    }
}

#[test]
fn ranks_that_disagree_about_the_length_are_told() {
    run(&Shape::of(3, 1), 1, |seat| {
        let team = Team::form(&seat.context).unwrap();
        let mut values = vec![1_u64; 2 + team.rank()];
        let error = team.all_reduce_slice(&mut values, Sum).unwrap_err();
        assert!(error.to_string().contains("equally many values"), "{error}");
        team.barrier().unwrap();
    });
}
