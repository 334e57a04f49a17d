//! Collectives in two phases: several under way at one time, waited for in any order, beside
//! blocking ones, on teams; against what blocking ones give.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use clump_coll::{Max, Op, PendingCollective, Sum, Team};
use clump_test_bed::{Sampler, Shape, run};
use clump_test_tier::pick;
use clump_transport::Dispatch;

/// Runs `body` with the team of all ranks, on one node and on several.
fn everywhere(body: impl Fn(&Team) + Clone + Send + 'static) {
    let shapes = [
        Shape::of(1, 1),
        Shape::of(2, 1),
        Shape::of(5, 1),
        Shape::of(4, 2).troubled(),
        Shape::of(7, 3),
        Shape::of(4, 2).by_proxies(1, Dispatch::Fixed),
    ];
    for (seed, shape) in (1..).zip(shapes) {
        let body = body.clone();
        run(&shape, seed, move |seat| body(&Team::form(&seat.context).unwrap()));
    }
}

/// An operation whose operands cannot be exchanged.
struct Chained;

impl Op<u64> for Chained {
    fn combine(lower: u64, higher: u64) -> u64 {
        lower.wrapping_mul(31).wrapping_add(higher)
    }
}

/// A collective under way, and what it must give.
enum Begun<'a> {
    Barrier(PendingCollective<'a, ()>),
    Words(PendingCollective<'a, Vec<u64>>, Vec<u64>),
    Reals(PendingCollective<'a, Vec<f32>>, Vec<f32>),
    Rooted(PendingCollective<'a, Option<Vec<u64>>>, Option<Vec<u64>>),
    Texts(PendingCollective<'a, Vec<Vec<u8>>>, Vec<Vec<u8>>),
}

impl Begun<'_> {
    fn wait(self) {
        match self {
            Self::Barrier(it) => it.wait().unwrap(),
            Self::Words(it, expected) => assert_eq!(it.wait().unwrap(), expected),
            Self::Reals(it, expected) => assert_eq!(it.wait().unwrap(), expected),
            Self::Rooted(it, expected) => assert_eq!(it.wait().unwrap(), expected),
            Self::Texts(it, expected) => assert_eq!(it.wait().unwrap(), expected),
        }
    }
}

/// Returns the values that a rank gives to collective `n`.
fn given(n: u64, rank: u64, count: usize) -> Vec<u64> {
    let mut sampler = Sampler::new(n << 32 | rank);
    (0..count).map(|_| sampler.number()).collect()
}

/// Returns the text of a rank for another one in collective `n`, of any length.
fn text(n: u64, from: u64, to: u64) -> Vec<u8> {
    let mut sampler = Sampler::new(n << 32 | from << 16 | to);
    let length = [0, 1, 7, 300, 20_000][sampler.index(5)];
    (0..length).map(|_| sampler.number() as u8).collect()
}

/// Begins collective `n`, of a kind and a size that all ranks draw alike.
fn begin(team: &Team, n: u64) -> Begun<'_> {
    let (me, ranks) = (team.rank() as u64, team.nranks() as u64);
    let mut sampler = Sampler::new(n);
    let count = [0, 1, 3, 40, 9000][sampler.index(5)];
    let root = Sampler::new(!n).index(ranks as usize);
    let at_root = |values| (me == root as u64).then_some(values);
    let all = || (0..ranks).map(|rank| given(n, rank, count));
    match sampler.index(15) {
        0..6 => begin_combining(team, n, &mut sampler, count),
        6 => Begun::Barrier(team.start_barrier().unwrap()),
        7 => {
            let values = given(n, me, count);
            let expected = given(n, root as u64, count);
            Begun::Words(team.start_broadcast(root, &values).unwrap(), expected)
        }
        8 => {
            let expected = all().flatten().collect();
            Begun::Words(team.start_all_gather_slice(&given(n, me, count)).unwrap(), expected)
        }
        9 => {
            let expected = (0..ranks).map(|rank| given(n, rank, 1)[0]).collect();
            Begun::Words(team.start_all_gather(given(n, me, 1)[0]).unwrap(), expected)
        }
        10 => {
            let mine = given(n, me, ranks as usize * count);
            let to_me = me as usize * count..(me as usize + 1) * count;
            let expected = (0..ranks)
                .flat_map(|rank| given(n, rank, ranks as usize * count)[to_me.clone()].to_vec())
                .collect();
            Begun::Words(team.start_all_to_all_slice(&mine).unwrap(), expected)
        }
        11 => {
            let begun = team.start_gather(root, &given(n, me, count)).unwrap();
            Begun::Rooted(begun, at_root(all().flatten().collect()))
        }
        12 => {
            let of_root = given(n, root as u64, ranks as usize * count);
            let expected = of_root[me as usize * count..][..count].to_vec();
            let of_root = at_root(of_root).unwrap_or_default();
            Begun::Words(team.start_scatter(root, &of_root, count).unwrap(), expected)
        }
        13 => {
            let parts: Vec<_> = (0..ranks).map(|to| text(n, me, to)).collect();
            let expected = (0..ranks).map(|from| text(n, from, me)).collect();
            Begun::Texts(team.start_all_to_all_bytes(&parts).unwrap(), expected)
        }
        _ => {
            let mine = given(n, me, ranks as usize);
            let expected =
                (0..ranks).map(|rank| given(n, rank, ranks as usize)[me as usize]).collect();
            Begun::Words(team.start_all_to_all(&mine).unwrap(), expected)
        }
    }
}

/// Begins a collective that combines `count` values of each rank.
fn begin_combining<'a>(team: &'a Team, n: u64, sampler: &mut Sampler, count: usize) -> Begun<'a> {
    let (me, ranks) = (team.rank() as u64, team.nranks() as u64);
    let root = Sampler::new(!n).index(ranks as usize);
    let all = || (0..ranks).map(|rank| given(n, rank, count));
    match sampler.index(6) {
        0 => {
            let max =
                |a: Vec<u64>, b: Vec<u64>| a.into_iter().zip(b).map(|(a, b)| a.max(b)).collect();
            let expected = all().reduce(max).unwrap();
            Begun::Words(team.start_all_reduce(&given(n, me, count), Max).unwrap(), expected)
        }
        1 => {
            // Sums of floating-point numbers depend on their order: it is that of the blocking one.
            let mut values: Vec<f32> =
                given(n, me, count).iter().map(|&v| v as f32 / 3e9).collect();
            let begun = team.start_all_reduce(&values, Sum).unwrap();
            team.all_reduce_slice(&mut values, Sum).unwrap();
            Begun::Reals(begun, values)
        }
        2 => {
            let mut values = given(n, me, count);
            let begun = team.start_all_reduce(&values, Chained).unwrap();
            team.all_reduce_slice(&mut values, Chained).unwrap();
            Begun::Words(begun, values)
        }
        3 => {
            let mut values = given(n, me, count);
            let begun = team.start_reduce(root, &values, Chained).unwrap();
            team.reduce_slice(root, &mut values, Chained).unwrap();
            Begun::Rooted(begun, (me == root as u64).then_some(values))
        }
        4 => {
            let mut values = given(n, me, count);
            let begun = team.start_scan(&values, Chained).unwrap();
            team.scan_slice(&mut values, Chained).unwrap();
            Begun::Words(begun, values)
        }
        _ => {
            let mut values = given(n, me, count);
            let begun = team.start_exclusive_scan(&values, Chained).unwrap();
            team.exclusive_scan_slice(&mut values, Chained).unwrap();
            Begun::Rooted(begun, (me > 0).then_some(values))
        }
    }
}

/// Begins collectives, and waits for them in an order of this rank's own; some are dropped.
fn program(team: &Team, seed: u64) {
    let mut own = Sampler::new(seed ^ (team.rank() as u64 + 1) << 40);
    let mut under_way = Vec::new();
    for n in 0..pick(60, 300) {
        under_way.push(begin(team, seed << 16 | n));
        while under_way.len() > own.index(6) {
            let one = under_way.swap_remove(own.index(under_way.len()));
            if own.index(8) == 0 { drop(one) } else { one.wait() }
        }
        if n % 16 == 0 {
            team.barrier().unwrap();
        }
    }
    under_way.into_iter().for_each(Begun::wait);
    team.barrier().unwrap();
}

#[test]
fn random_programs_of_collectives_in_two_phases() {
    everywhere(|team| program(team, 5));
}

#[test]
fn on_teams_several_at_once() {
    everywhere(|team| {
        let parity = team.split(Some(team.rank() as u64 % 2), team.rank() as u64).unwrap().unwrap();
        let back = team.split(Some(0), u64::MAX - team.rank() as u64).unwrap().unwrap();
        let first = begin(&parity, 900);
        let second = begin(&back, 901);
        let third = begin(team, 902);
        program(&back, 6);
        program(&parity, 7);
        third.wait();
        first.wait();
        second.wait();
        team.barrier().unwrap();
    });
}

#[test]
fn a_test_says_when_it_is_there() {
    everywhere(|team| {
        let barrier = team.start_barrier().unwrap();
        team.broadcast(0, &mut [0_u8]).unwrap();
        while !barrier.test().unwrap() {}
        barrier.wait().unwrap();
        assert!(team.start_broadcast(team.nranks(), &[1_u8]).is_err());
        assert!(team.start_all_to_all(&vec![1_u8; team.nranks() + 1]).is_err());
        assert!(team.start_reduce(team.nranks(), &[1_u64], Sum).is_err());
        assert!(team.start_gather(team.nranks(), &[1_u8]).is_err());
        assert!(team.start_scatter(team.rank(), &[1_u8], 2).is_err());
        assert!(team.start_all_to_all_bytes(&vec!["a"; team.nranks() + 1]).is_err());
        team.barrier().unwrap();
    });
}
