//! Ranks that call different collectives, or of different sizes: all get an error, and the team
//! goes on.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use clump_am::{Error, ErrorKind};
use clump_coll::{Sum, Team};
use clump_test_bed::Shape;

/// A call of a rank, which is the last if the flag is set.
type Call = fn(&Team, bool) -> Result<(), Error>;

/// Calls by which the last rank disagrees with the others.
const DISAGREEMENTS: [Call; 11] = [
    |team, last| {
        // By way of lowest ranks, or between every two.
        let each = if last { 1024 } else { 1 };
        let given = vec![1_u64; each * team.nranks()];
        team.all_to_all_slice(&given, &mut given.clone())
    },
    |team, last| {
        let given = vec![1_u8; if last { 0 } else { team.nranks() }];
        team.all_to_all_slice(&given, &mut given.clone())
    },
    |team, last| {
        let mine = vec![1_u8; if last { 7 } else { 8 }];
        team.all_gather_slice(&mine, &mut mine.repeat(team.nranks()))
    },
    |team, last| {
        let mine = vec![1_u8; if last { 0 } else { 5000 }];
        team.all_gather_slice(&mine, &mut mine.repeat(team.nranks()))
    },
    |team, last| {
        let mine = vec![1_u8; if last { 100_000 } else { 5000 }];
        team.all_gather_slice(&mine, &mut mine.repeat(team.nranks()))
    },
    |team, last| team.all_reduce_slice(&mut vec![1_u32; if last { 9 } else { 10 }], Sum),
    |team, last| team.all_reduce_slice(&mut vec![1_u32; if last { 1 } else { 60_000 }], Sum),
    |team, last| team.all_reduce_slice(&mut vec![1_u32; if last { 0 } else { 10 }], Sum),
    |team, last| team.all_reduce_slice(&mut vec![1_u32; if last { 10 } else { 0 }], Sum),
    |team, last| match last {
        true => team.all_reduce(1_u64, Sum).map(drop),
        false => team.all_gather(1_u64).map(drop),
    },
    |team, last| match last {
        true => team.all_to_all(&vec![1_u64; team.nranks()]).map(drop),
        false => team.all_gather_slice(&[1_u64], &mut vec![0; team.nranks()]),
    },
];

#[test]
fn ranks_that_do_not_agree_fail_and_go_on() {
    for (ranks, nodes) in [(2, 1), (3, 1), (5, 1), (2, 2), (4, 2), (5, 3), (9, 9)] {
        clump_test_bed::run(&Shape::of(ranks, nodes), 1, move |seat| {
            let team = Team::form(&seat.context).unwrap();
            let last = team.rank() + 1 == ranks;
            for (n, disagree) in DISAGREEMENTS.iter().chain(&DISAGREEMENTS).enumerate() {
                let last = if n < DISAGREEMENTS.len() { last } else { team.rank() == 0 };
                let what = format!("{n}: rank {} of {ranks} on {nodes}", team.rank());
                let error = disagree(&team, last).expect_err(&what);
                assert!(matches!(error.kind(), ErrorKind::Disagreement(_)), "{what}: {error}");
                assert!(error.to_string().contains("collective"), "{what}: {error}");
                // All know what the others give next.
                let all = team.all_gather(team.rank() as u64).unwrap();
                assert!(all.into_iter().eq(0..ranks as u64), "{what}");
            }
        });
    }
}

/// Calls that the last rank alone gives wrong arguments.
const WRONG_ARGUMENTS: [Call; 14] = [
    |team, last| {
        // The others give theirs, and wait for nothing.
        let root = team.nranks() - 1;
        let mut all = vec![0_u8; if last { 1 } else { 0 }];
        team.gather_slice(root, &[7_u8; 9], &mut all)
    },
    |team, last| {
        let root = team.nranks() - 1;
        let all = vec![0_u8; if last { 1 } else { 0 }];
        team.scatter_slice(root, &all, &mut [0_u8; 9])
    },
    |team, last| team.scatter(team.nranks() - 1, &vec![1_u64; usize::from(last)]).map(drop),
    |team, last| team.scatter_bytes(team.nranks() - 1, &vec![[1]; usize::from(last)]).map(drop),
    |team, last| {
        team.all_gather_slice(&[1_u8; 9], &mut vec![0; if last { 1 } else { 9 * team.nranks() }])
    },
    |team, last| team.all_to_all(&vec![1_u64; if last { 1 } else { team.nranks() }]).map(drop),
    |team, last| {
        team.all_to_all_bytes(&vec![[1_u8; 3]; if last { 1 } else { team.nranks() }]).map(drop)
    },
    |team, last| {
        let given = vec![1_u8; 3 * team.nranks()];
        team.all_to_all_slice(&given, &mut vec![0; if last { 1 } else { given.len() }])
    },
    |team, last| team.broadcast(if last { 1000 } else { 0 }, &mut [1_u8; 3]),
    |team, last| team.reduce(if last { 1000 } else { team.nranks() - 1 }, 1_u64, Sum).map(drop),
    |team, last| {
        let parts = vec![[1_u8]; if last { 1 } else { team.nranks() }];
        team.start_all_to_all_bytes(&parts)?.wait().map(drop)
    },
    |team, last| {
        let all = vec![1_u8; usize::from(last)];
        team.start_scatter(team.nranks() - 1, &all, 5)?.wait().map(drop)
    },
    |team, last| {
        let root = if last { 1000 } else { team.nranks() - 1 };
        team.start_broadcast(root, &[1_u8; 3])?.wait().map(drop)
    },
    |team, last| {
        team.start_all_to_all(&vec![1_u64; if last { 1 } else { team.nranks() }])?.wait().map(drop)
    },
];

#[test]
fn a_rank_with_wrong_arguments_takes_part() {
    for (ranks, nodes) in [(2, 1), (3, 1), (2, 2), (4, 2), (5, 3)] {
        clump_test_bed::run(&Shape::of(ranks, nodes), 1, move |seat| {
            let team = Team::form(&seat.context).unwrap();
            let me = team.rank();
            for (n, call) in WRONG_ARGUMENTS.iter().enumerate() {
                let what = format!("{n}: rank {me} of {ranks} on {nodes}");
                match call(&team, me + 1 == ranks) {
                    Err(error) => assert!(error.took_part(), "{what}: {error}"),
                    Ok(()) => assert!(me + 1 < ranks, "{what}: nothing is wrong"),
                }
                // It is not paired with another one.
                let all = team.all_gather(me as u64).expect(&what);
                assert!(all.into_iter().eq(0..ranks as u64), "{what}");
                team.barrier().expect(&what);
            }
        });
    }
}
