//! Collectives at many numbers of ranks, on one node and on several: right results, the same bits
//! everywhere, and an error that names the rank that died or left.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use clump_am::{Error, ErrorKind};
use clump_coll::{Max, Min, Sum, Team, Xor};
use clump_loggp::{BaseParameters, KnobTable};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::job::{Death, DeathCause};
use clump_test_bed::{Seat, Shape};
use clump_transport::Dispatch;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

const SIZES: [usize; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64];
/// Ranks and nodes: even and uneven nodes, powers of two and others, and so many that a barrier
/// has rounds.
const SPREAD: [(usize, usize); 10] =
    [(2, 2), (3, 2), (4, 2), (4, 4), (5, 3), (8, 4), (9, 9), (12, 3), (16, 2), (13, 11)];

/// Runs `body` as every rank of a job that forms one team.
fn run<R: Send + 'static>(
    shape: &Shape,
    body: impl Fn(Team, &Seat) -> R + Clone + Send + 'static,
) -> Vec<R> {
    clump_test_bed::run(shape, 1, move |seat| body(Team::form(&seat.context).unwrap(), seat))
}

fn shapes() -> Vec<Shape> {
    let one = SIZES.into_iter().map(|ranks| Shape::of(ranks, 1));
    let spread = SPREAD.into_iter().map(|(ranks, nodes)| Shape::of(ranks, nodes));
    let troubled =
        [(3, 2), (8, 4), (9, 9)].map(|(ranks, nodes)| Shape::of(ranks, nodes).troubled());
    let by =
        |ranks, nodes, proxies| Shape::of(ranks, nodes).by_proxies(proxies, Dispatch::RoundRobin);
    let proxied = [by(2, 2, 1), by(5, 3, 2), by(8, 4, 1).troubled(), by(9, 9, 1)];
    let all = one.chain(spread).chain(troubled).chain(proxied);
    all.step_by(clump_test_tier::pick(3, 1)).collect()
}

/// Runs `body` as every rank of jobs of all shapes.
fn at_all_shapes<R: Send + 'static>(
    body: impl Fn(&Team) -> R + Clone + Send + 'static,
    check: impl Fn(usize, Vec<R>),
) {
    for shape in shapes() {
        let body = body.clone();
        check(shape.ranks, run(&shape, move |team, _| body(&team)));
    }
}

/// Returns an uneven number that tells ranks apart.
fn mix(rank: usize, i: usize) -> u64 {
    (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32 % 64) ^ i as u64
}

#[test]
fn nobody_leaves_a_barrier_before_all_arrived() {
    for shape in shapes() {
        let ranks = shape.ranks;
        let arrived = Arc::new(AtomicU64::new(0));
        let rounds = if ranks > 16 || shape.faults.is_some() { 20 } else { 200 };
        run(&shape, move |team, _| {
            for round in 1..=rounds {
                arrived.fetch_add(1, Ordering::Relaxed);
                team.barrier().unwrap();
                let seen = arrived.load(Ordering::Relaxed);
                let all = ranks as u64 * round;
                assert!(seen >= all, "{seen} of {all} had arrived");
                // A rank that is ahead has arrived once more at most, until all leave here.
                assert!(seen < all + ranks as u64, "somebody went through two barriers");
            }
        });
    }
}

#[test]
fn a_broadcast_reaches_all_from_every_root() {
    let body = |team: &Team| {
        for root in 0..team.nranks() {
            let mut values = [team.rank() as u64; 5];
            if team.rank() == root {
                values = std::array::from_fn(|i| mix(root, i));
            }
            team.broadcast(root, &mut values).unwrap();
            assert_eq!(values, std::array::from_fn(|i| mix(root, i)));
        }
        let mut many = vec![0u8; 300_000];
        if team.rank() == team.nranks() - 1 {
            many.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 7) as u8);
        }
        if team.nranks() <= 9 {
            team.broadcast(team.nranks() - 1, &mut many).unwrap();
            assert!(many.iter().enumerate().all(|(i, &byte)| byte == (i * 7) as u8));
        }
        team.broadcast::<u64>(0, &mut []).unwrap();
    };
    at_all_shapes(body, |_, _| {});
}

#[test]
fn an_exchange_gives_all_values_in_rank_order() {
    let body = |team: &Team| {
        let mine = [mix(team.rank(), 1), mix(team.rank(), 2)];
        (team.all_gather(mine).unwrap(), team.all_gather(team.rank() as u8).unwrap())
    };
    at_all_shapes(body, |ranks, results| {
        let words: Vec<_> = (0..ranks).map(|rank| [mix(rank, 1), mix(rank, 2)]).collect();
        let bytes: Vec<_> = (0..ranks as u8).collect();
        for result in results {
            assert_eq!(result, (words.clone(), bytes.clone()));
        }
    });
}

/// Returns the bytes of `rank` of `ranks` in round `round`: from none to 100,000.
fn bytes_of(rank: usize, ranks: usize, round: usize) -> Vec<u8> {
    let most = if ranks > 16 { 3_000 } else { 100_000 };
    let len = match round {
        0 => 0,
        1 => most * usize::from(rank == ranks - 1),
        _ => mix(rank, round) as usize % most,
    };
    (0..len).map(|i| (i * 3 + rank * 7 + round) as u8).collect()
}

#[test]
fn byte_strings_of_any_lengths_are_exchanged() {
    let body = |team: &Team| {
        let (me, ranks) = (team.rank(), team.nranks());
        for round in 0..4 {
            let all = team.all_gather_bytes(&bytes_of(me, ranks, round)).unwrap();
            assert_eq!(all.len(), ranks);
            for (rank, bytes) in all.iter().enumerate() {
                assert!(*bytes == bytes_of(rank, ranks, round), "round {round}, rank {rank}");
            }
        }
    };
    at_all_shapes(body, |_, _| {});
}

#[test]
fn integers_are_combined_as_one_rank_would() {
    let body = |team: &Team| {
        let mut sums: Vec<u64> = (0..100).map(|i| mix(team.rank(), i)).collect();
        team.all_reduce_slice(&mut sums, Sum).unwrap();
        let mine = mix(team.rank(), 9);
        let min = team.all_reduce(mine, Min).unwrap();
        let max = team.all_reduce(mine as i64, Max).unwrap();
        (sums, min, max, team.all_reduce(mine, Xor).unwrap())
    };
    at_all_shapes(body, |ranks, results| {
        let of_all = |i: usize| (0..ranks).map(move |rank| mix(rank, i));
        let sums = (0..100).map(|i| of_all(i).fold(0, u64::wrapping_add)).collect();
        let min = of_all(9).min().unwrap();
        let max = of_all(9).map(|v| v as i64).max().unwrap();
        let expected = (sums, min, max, of_all(9).fold(0, |a, b| a ^ b));
        results.iter().for_each(|result| assert_eq!(*result, expected));
    });
}

#[test]
fn floats_give_the_same_bits_on_all_ranks() {
    // Sums of these depend on the order of operands.
    let value =
        |rank: usize, i: usize| (mix(rank, i) as f64) * 10f64.powi((rank * 5 % 37) as i32 - 18);
    let body = move |team: &Team| {
        let mut sums: Vec<f64> = (0..20).map(|i| value(team.rank(), i)).collect();
        team.all_reduce_slice(&mut sums, Sum).unwrap();
        let again = team.all_reduce(value(team.rank(), 0), Sum).unwrap();
        // Long enough to go along a tree within a node.
        let mut many: Vec<f64> = (0..600).map(|i| value(team.rank(), i % 20)).collect();
        team.all_reduce_slice(&mut many, Sum).unwrap();
        let same = |(i, sum): (usize, &f64)| sum.to_bits() == sums[i % 20].to_bits();
        assert!(many.iter().enumerate().all(same), "as in few");
        assert_eq!(again.to_bits(), sums[0].to_bits(), "twice the same sum");
        sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>()
    };
    let known = RefCell::new(HashMap::new());
    at_all_shapes(body, move |ranks, results| {
        assert!(results.iter().all(|bits| *bits == results[0]), "{ranks} ranks");
        let first = known.borrow_mut().entry(ranks).or_insert(results[0].clone()).clone();
        assert_eq!(results[0], first, "{ranks} ranks, on one node and on several");
        for (i, bits) in results[0].iter().enumerate() {
            let exact: f64 = (0..ranks).map(|rank| value(rank, i)).sum();
            let size: f64 = (0..ranks).map(|rank| value(rank, i).abs()).sum();
            assert!((f64::from_bits(*bits) - exact).abs() <= 1e-12 * size, "element {i}");
        }
    });
}

/// Calls every collective that needs `other`'s part, by name.
fn each_that_needs(team: &Team, other: usize, mut check: impl FnMut(&str, Result<(), Error>)) {
    check("barrier", team.barrier());
    check("exchange", team.all_gather(1u64).map(drop));
    check("exchange_bytes", team.all_gather_bytes(&[1, 2, 3]).map(drop));
    check("all_reduce", team.all_reduce(1u64, Sum).map(drop));
    check("broadcast", team.broadcast(other, &mut [1u64; 3]));
    check("gather", team.gather_bytes(team.rank(), &[1]).map(drop));
    check("scatter", team.scatter(other, &[1u64; 0]).map(drop));
    check("reduce", team.reduce(team.rank(), 1u64, Sum).map(drop));
    check("all_to_all", team.all_to_all(&vec![1u64; team.nranks()]).map(drop));
    check("all_to_all_bytes", team.all_to_all_bytes(&vec![[1u8]; team.nranks()]).map(drop));
}

#[test]
fn a_dead_rank_fails_every_collective_by_name() {
    for (ranks, nodes, survive) in
        [(2, 1, false), (2, 1, true), (5, 1, false), (2, 2, true), (5, 2, false)]
    {
        for proxies in 0..nodes as u32 {
            let dead = ranks as u32 - 1;
            let shape = Shape { survive, ..Shape::of(ranks, nodes) };
            run(&shape.by_proxies(proxies, Dispatch::Fixed), move |team, seat| {
                // A survivor may hear of the death before it sees that all had arrived.
                let met = team.barrier();
                assert!(met.is_ok() || seat.context.rank() != dead, "nobody was dead yet");
                if seat.context.rank() == dead {
                    seat.declare_dead(Death { rank: dead, how: DeathCause::Signal(9) });
                    // Like the memory of a killed process, its endpoint is never closed.
                    std::mem::forget(team);
                    return;
                }
                each_that_needs(&team, dead as usize, |what, result| {
                    let error = result.expect_err(what);
                    let ErrorKind::RankDied(death) = error.kind() else {
                        panic!("{what}: {error}")
                    };
                    assert_eq!((death.rank, death.how), (dead, DeathCause::Signal(9)), "{what}");
                });
            });
        }
    }
}

#[test]
fn a_rank_that_left_fails_every_collective_by_name() {
    for (ranks, nodes, closes) in
        [(2, 1, false), (2, 1, true), (2, 2, true), (5, 1, true), (4, 2, true), (9, 3, true)]
    {
        let left = ranks as u32 - 1;
        run(&Shape::of(ranks, nodes), move |team, seat| {
            team.barrier().unwrap();
            if seat.context.rank() == left {
                if closes {
                    drop(team);
                } else {
                    std::mem::forget(team);
                }
                return;
            }
            each_that_needs(&team, left as usize, |what, result| {
                let error = result.expect_err(what);
                let told = matches!(error.kind(), ErrorKind::RankLeft(rank) if *rank == left);
                assert!(told, "{what}: {error}");
            });
        });
    }
}

#[test]
fn what_a_rank_sent_before_it_left_counts_also_while_it_is_delayed() {
    for shape in Shape::of(2, 2).every_way() {
        run(&shape, |team, seat| {
            let knobs = KnobTable::parse("L=+20ms,scope=net", &[BaseParameters::default(); 2]);
            seat.context.node().set_knobs(&knobs.unwrap().to_words()).unwrap();
            team.barrier().unwrap();
            // The root leaves at once; the other rank finds it gone while its message is hidden.
            let mut number = [if team.rank() == 1 { 7_u64 } else { 0 }];
            team.broadcast(1, &mut number).unwrap();
            assert_eq!(number, [7]);
        });
    }
}

/// Shapes of jobs whose ranks are divided.
const DIVIDED: [(usize, usize); 8] =
    [(1, 1), (4, 1), (6, 2), (6, 3), (8, 4), (9, 9), (13, 11), (16, 2)];

/// Executes the collectives that have a root; `of(at, i)` are the values of a member.
fn check_rooted(team: &Team, root: usize, of: impl Fn(usize, usize) -> u64) {
    let (me, n) = (team.rank(), team.nranks());
    let all: Vec<u64> = (0..n).map(|at| of(at, 1)).collect();
    let here = me == root;
    assert_eq!(team.gather(root, of(me, 1)).unwrap(), here.then(|| all.clone()));
    let bytes = |at: usize| vec![at as u8; at * 7 % 50];
    let strings = team.gather_bytes(root, &bytes(me)).unwrap();
    assert_eq!(strings, here.then(|| (0..n).map(bytes).collect::<Vec<_>>()));
    assert_eq!(team.scatter(root, if here { &all } else { &[] }).unwrap(), all[me]);
    let parts: Vec<Vec<u8>> = (0..n).map(bytes).collect();
    let part = team.scatter_bytes(root, if here { &parts } else { &[] }).unwrap();
    assert_eq!(part, bytes(me));
    let max = all.iter().max().copied();
    assert_eq!(team.reduce(root, of(me, 1), Max).unwrap(), max.filter(|_| here));
    // Sums of these depend on the order of operands.
    let float = |at: usize| of(at, 2) as f64 * 10f64.powi((at * 5 % 37) as i32 - 18);
    let same = team.all_reduce(float(me), Sum).unwrap();
    let mut sums = [float(me), 1.0];
    team.reduce_slice(root, &mut sums, Sum).unwrap();
    let expected = if here { [same, n as f64] } else { [float(me), 1.0] };
    assert_eq!(sums.map(f64::to_bits), expected.map(f64::to_bits), "of an all-reduce, at the root");
}

/// Executes scans and all-to-alls; `of(at, i)` are the values of a member.
fn check_exchanges(team: &Team, of: impl Fn(usize, usize) -> u64) {
    let (me, n) = (team.rank(), team.nranks());
    let through = |end: usize| (0..end).fold(0, |sum: u64, at| sum.wrapping_add(of(at, 1)));
    assert_eq!(team.scan(of(me, 1), Sum).unwrap(), through(me + 1));
    assert_eq!(team.exclusive_scan(of(me, 1), Sum).unwrap(), (me > 0).then(|| through(me)));
    let mut least = [of(me, 3), of(me, 4)];
    team.scan_slice(&mut least, Min).unwrap();
    assert_eq!(least, [3, 4].map(|i| (0..=me).map(|at| of(at, i)).min().unwrap()));
    let given: Vec<u64> = (0..n).map(|to| of(me, 10 + to)).collect();
    let expected: Vec<u64> = (0..n).map(|from| of(from, 10 + me)).collect();
    assert_eq!(team.all_to_all(&given).unwrap(), expected);
    // Too long to go by way of the nodes' lowest ranks.
    let wide = |from: usize, to: usize| [of(from, 10 + to); 600];
    let given: Vec<[u64; 600]> = (0..n).map(|to| wide(me, to)).collect();
    let expected: Vec<[u64; 600]> = (0..n).map(|from| wide(from, me)).collect();
    assert_eq!(team.all_to_all(&given).unwrap(), expected);
    let string = |from: usize, to: usize| vec![(from + 3 * to) as u8; from * to % 9 * 30];
    let given: Vec<Vec<u8>> = (0..n).map(|to| string(me, to)).collect();
    let expected: Vec<Vec<u8>> = (0..n).map(|from| string(from, me)).collect();
    assert_eq!(team.all_to_all_bytes(&given).unwrap(), expected);
}

/// Executes every collective of a team, and compares with what its members should get. `salt`
/// tells teams and rounds apart.
fn check_team(team: &Team, salt: usize) {
    let members = team.members().collect::<Vec<_>>();
    let of = |at: usize, i: usize| mix(members[at] as usize + salt, i);
    assert_eq!(members.len(), team.nranks());
    team.barrier().unwrap();
    let me = team.rank();
    let all: Vec<u64> = (0..members.len()).map(|at| of(at, 1)).collect();
    assert_eq!(team.all_gather(of(me, 1)).unwrap(), all);
    let bytes = |at: usize| vec![at as u8; 3 * at + salt % 5];
    let strings = team.all_gather_bytes(&bytes(me)).unwrap();
    assert_eq!(strings, (0..members.len()).map(bytes).collect::<Vec<_>>());
    let sum = all.iter().fold(0, |a: u64, &b| a.wrapping_add(b));
    assert_eq!(team.all_reduce(of(me, 1), Sum).unwrap(), sum);
    let root = salt % members.len();
    check_rooted(team, root, of);
    check_exchanges(team, of);
    let mut values = [of(me, 2), of(me, 3)];
    team.broadcast(root, &mut values).unwrap();
    assert_eq!(values, [of(root, 2), of(root, 3)]);
}

#[test]
fn teams_of_rows_columns_and_none_have_collectives_of_their_own() {
    for (ranks, nodes) in DIVIDED {
        run(&Shape::of(ranks, nodes), move |all, seat| {
            let me = seat.context.rank() as usize;
            let width = (1..=ranks).rev().find(|width| width * width <= ranks).unwrap();
            let row = all.split(Some((me / width) as u64), 0).unwrap().unwrap();
            let column = all.split(Some((me % width) as u64), 0).unwrap().unwrap();
            let expected: Vec<u32> =
                (0..ranks as u32).filter(|&rank| rank as usize % width == me % width).collect();
            assert_eq!(column.members().collect::<Vec<_>>(), expected);
            for round in 0..3 {
                check_team(&row, round);
                check_team(&all, round + 7);
                check_team(&column, round + 11);
            }
            // Backwards, without the last, and divided again.
            let last = me + 1 == ranks && ranks > 1;
            let back = all.split((!last).then_some(9), (ranks - me) as u64).unwrap();
            assert_eq!(back.is_none(), last);
            if let Some(back) = back {
                let members: Vec<_> = back.members().collect();
                assert!(members.is_sorted_by(|a, b| a > b), "{members:?}");
                let half = back.split(Some((back.rank() % 2) as u64), 0).unwrap().unwrap();
                check_team(&half, 1);
                check_team(&back, 2);
                drop(half);
                check_team(&back, 3);
            }
            all.barrier().unwrap();
        });
    }
}

#[test]
fn every_rank_gets_its_part_at_all_shapes() {
    at_all_shapes(
        |team| {
            for root in [0, team.nranks() / 2, team.nranks() - 1] {
                check_rooted(team, root, mix);
            }
            check_exchanges(team, mix);
        },
        |_, _| (),
    );
}

#[test]
fn roots_and_numbers_of_values_are_checked_before_anything_is_sent() {
    run(&Shape::of(3, 1), |team, _| {
        let no_root = |result: Result<(), Error>| {
            let error = result.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NoSuchRank { rank: 3, ranks: 3 }), "{error}");
        };
        no_root(team.broadcast(3, &mut [0_u8]));
        no_root(team.gather(3, 0_u8).map(drop));
        no_root(team.scatter(3, &[0_u8; 3]).map(drop));
        no_root(team.reduce(3, 0_u8, Sum).map(drop));
        let unfit = |result: Result<(), Error>| {
            let error = result.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::NotOneEach { given: 2, ranks: 3 }),
                "{error}"
            );
        };
        unfit(team.all_to_all(&[1_u8; 2]).map(drop));
        unfit(team.all_to_all_bytes(&[[1_u8]; 2]).map(drop));
        unfit(team.scatter(team.rank(), &[1_u8; 2]).map(drop));
        team.barrier().unwrap();
    });
}

#[test]
fn threads_of_a_rank_use_different_teams_at_one_time() {
    for (ranks, nodes) in [(4, 1), (4, 2), (6, 3)] {
        run(&Shape::of(ranks, nodes), move |all, seat| {
            let me = u64::from(seat.context.rank());
            let teams: Vec<Team> = [me % 2, me / 2, 0]
                .into_iter()
                .map(|color| all.split(Some(color), 0).unwrap().unwrap())
                .collect();
            std::thread::scope(|threads| {
                for (number, team) in teams.iter().enumerate() {
                    threads.spawn(move || {
                        for round in 0..clump_test_tier::pick(5, 20) {
                            check_team(team, number * 100 + round);
                        }
                    });
                }
            });
            all.barrier().unwrap();
        });
    }
}

#[test]
fn teams_without_the_dead_go_on_and_those_with_it_name_it() {
    for (ranks, nodes) in [(4, 1), (6, 2), (6, 3)] {
        let shape = Shape { survive: true, ..Shape::of(ranks, nodes) };
        run(&shape, move |all, seat| {
            let (me, dead) = (seat.context.rank(), ranks as u32 - 1);
            let parity = all.split(Some(u64::from(me % 2)), 0).unwrap().unwrap();
            // All have their teams before one of them dies.
            let met = all.barrier();
            assert!(met.is_ok() || me != dead, "nobody was dead yet");
            if me == dead {
                seat.declare_dead(Death { rank: dead, how: DeathCause::Signal(9) });
                std::mem::forget((parity, all));
                return;
            }
            if me % 2 != dead % 2 {
                (0..5).for_each(|round| check_team(&parity, round));
                return;
            }
            each_that_needs(&parity, parity.nranks() - 1, |what, result| {
                let error = result.expect_err(what);
                let told = matches!(error.kind(), ErrorKind::RankDied(death) if death.rank == dead);
                assert!(told, "{what}: {error}");
            });
        });
    }
}
