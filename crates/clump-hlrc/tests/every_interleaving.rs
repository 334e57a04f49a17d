//! Every order of steps and deliveries of short programs.

use std::collections::HashSet;
use std::rc::Rc;

use clump_hlrc::testing::Op::{
    self, Await, Barrier, Fence, Follow, Lock, Peek, Place, Read, Set, Unlock, Write,
};
use clump_hlrc::{
    Config, Consistency, DiffTransfer, FetchRule, NoticeTransfer, Placement, PlacementTable,
    TwinTime,
};
use clump_test_tier::pick;

use crate::world::{PAGE, World, settings};

/// Moments visited, and whether a rank followed a pointer to old bytes.
pub struct Explored {
    /// Number of moments.
    pub moments: usize,
    broken_pointer: bool,
    /// Most pages that ranks have fetched by themselves until one of them.
    own_fetched: usize,
}

/// Ways of diffs.
pub const TRANSFERS: [DiffTransfer; 3] =
    [DiffTransfer::Runs, DiffTransfer::Pages, DiffTransfer::Home];

/// Visits every moment that the job can reach, or `limit`, by each of some ways of diffs: with
/// ranks that report every release, and with ranks that keep locks. Where `reduced`, steps that
/// concern no other rank are made first.
pub fn explore(
    config: &Config,
    programs: &[Vec<Op>],
    transfers: &[DiffTransfer],
    (reduced, limit): (bool, usize),
) -> Explored {
    let programs = Rc::new(programs.to_vec());
    let mut all = Explored { moments: 0, broken_pointer: false, own_fetched: 0 };
    for &diffs in transfers {
        let begin = World::new(config, &programs).sending(diffs);
        let locks = programs.iter().flatten().any(|op| matches!(op, Lock(_)));
        let kept = locks.then(|| begin.clone().keeping());
        for begin in [begin].into_iter().chain(kept) {
            let found = visit(begin, reduced, limit);
            all.moments = all.moments.max(found.moments);
            all.broken_pointer |= found.broken_pointer;
            all.own_fetched = all.own_fetched.max(found.own_fetched);
        }
    }
    all
}

/// Visits every moment behind one.
fn visit(begin: World, reduced: bool, limit: usize) -> Explored {
    let mut seen = HashSet::new();
    let mut open = vec![begin];
    let (mut broken_pointer, mut own_fetched) = (false, 0);
    while let Some(world) = open.pop() {
        if seen.len() >= limit {
            break;
        }
        if !seen.insert(world.fingerprint()) {
            continue;
        }
        broken_pointer |= world.broken_pointer;
        own_fetched = own_fetched.max(world.own_fetched);
        if let Some(rank) = world.private_step().filter(|_| reduced) {
            let mut next = world;
            next.step(rank);
            open.push(next);
            continue;
        }
        let runnable = world.runnable();
        if runnable.is_empty() && world.packets() == 0 {
            world.check_end();
        }
        for rank in runnable {
            let mut next = world.clone();
            next.step(rank);
            open.push(next);
        }
        for at in 0..world.packets() {
            let mut next = world.clone();
            next.deliver(at);
            open.push(next);
        }
    }
    Explored { moments: seen.len(), broken_pointer, own_fetched }
}

/// Returns variants of the protocol for a small job.
fn variants(nodes: u16, ranks: u16) -> Vec<Config> {
    let plain = settings(nodes, ranks, 2);
    vec![
        plain.clone(),
        Config { notices: NoticeTransfer::Pull, ..plain.clone() },
        Config { fetch: FetchRule::Retry, ..plain.clone() },
        Config { twins: TwinTime::AtFetch, ..plain.clone() },
        Config { consistency: Consistency::Causal, ..plain.clone() },
        Config { consistency: Consistency::Fetch, ..plain.clone() },
        Config { placement: Placement::FirstWrite, ..plain.clone() },
        Config { move_after: 1, ..plain.clone() },
        Config { max_notices: 0, ..plain.clone() },
        Config { own_fetches: true, ..plain.clone() },
        Config { own_fetches: true, twins: TwinTime::AtFetch, ..plain.clone() },
        Config {
            own_fetches: true,
            placement: Placement::FirstWrite,
            max_notices: 0,
            ..plain.clone()
        },
        Config { own_fetches: true, consistency: Consistency::Fetch, ..plain.clone() },
        Config {
            own_fetches: true,
            consistency: Consistency::Fetch,
            notices: NoticeTransfer::Pull,
            twins: TwinTime::AtFetch,
            placement: Placement::FirstWrite,
            max_notices: 0,
            ..plain.clone()
        },
        Config { placement: Placement::FirstWrite, move_after: 1, ..plain.clone() },
        Config {
            consistency: Consistency::Causal,
            notices: NoticeTransfer::Pull,
            twins: TwinTime::AtFetch,
            ..plain.clone()
        },
        Config {
            consistency: Consistency::Fetch,
            notices: NoticeTransfer::Pull,
            fetch: FetchRule::Retry,
            twins: TwinTime::AtFetch,
            move_after: 1,
            ..plain
        },
    ]
}

/// Explores the programs under every variant.
fn check(name: &str, nodes: u16, ranks: u16, programs: &[Vec<Op>], reduced: bool) {
    let limit = pick(3_000, 100_000);
    for (number, config) in variants(nodes, ranks).iter().enumerate() {
        let explored = explore(config, programs, &TRANSFERS, (reduced, limit));
        println!("{name}, variant {number}: {} moments", explored.moments);
        assert!(explored.moments < pick(usize::MAX, limit), "{name}: {number} is explored in part");
    }
}

const SECOND: usize = PAGE;

#[test]
fn two_writers_of_one_page_lose_nothing() {
    let writer = |at: usize| {
        let again = [Barrier(0, 2), Write(at, 8), Barrier(0, 2), Read(1 - at)];
        [&[Write(at, 7), Barrier(0, 2), Read(0), Read(1)], &again[..]].concat()
    };
    check("false sharing", 2, 1, &[writer(0), writer(1)], false);
}

#[test]
fn a_lock_carries_what_was_written_under_it() {
    let program = |value: u8| {
        vec![Lock(0), Read(0), Read(SECOND), Write(0, value), Write(SECOND, value), Unlock(0)]
    };
    check("lock", 2, 1, &[program(1), program(2)], false);
}

#[test]
fn runs_of_two_pages_are_stored_before_the_lock_shows_them() {
    let first = vec![
        Lock(1),
        Write(0, 1),
        Write(2, 2),
        Write(SECOND, 3),
        Write(SECOND + 2, 4),
        Unlock(1),
        Write(0, 5),
        Fence,
    ];
    let second = vec![Lock(1), Read(2), Read(SECOND), Read(SECOND + 2), Unlock(1)];
    check("runs", 3, 1, &[second.clone(), first, Vec::new()], true);
}

#[test]
fn a_lock_passes_through_three_nodes() {
    let program = |value: u8| vec![Lock(1), Read(3), Write(3, value), Unlock(1)];
    check("three nodes", 3, 1, &[program(1), program(2), program(3)], true);
}

#[test]
fn ranks_of_a_node_pass_a_lock_and_share_a_copy() {
    let program = |value: u8| vec![Lock(1), Read(0), Write(0, value), Unlock(1)];
    let other = vec![Write(2, 9), Lock(1), Read(0), Write(1, 3), Unlock(1)];
    check("local", 2, 2, &[program(1), other, program(2), program(3)], true);
}

#[test]
fn a_lock_that_a_rank_keeps_carries_what_was_written_under_it() {
    // The rest of the first program is behind a release that nobody was told of.
    let keeper = |end: Op| {
        vec![Lock(0), Write(0, 1), Unlock(0), Write(1, 2), Lock(0), Read(0), Write(0, 3)]
            .into_iter()
            .chain([Unlock(0), end, Read(2), Read(1)])
            .collect::<Vec<_>>()
    };
    let other = |end: Op| vec![Lock(0), Read(0), Write(0, 7), Write(2, 4), Unlock(0), end, Read(1)];
    let end = Barrier(3, 2);
    check("kept, two nodes", 2, 1, &[keeper(end), other(end)], true);
    check("kept, one node", 1, 2, &[keeper(end), other(end)], false);
    // Shorter, so that all of it is explored.
    let keeper = vec![Lock(0), Write(0, 1), Unlock(0), Lock(0), Write(0, 3), Unlock(0)];
    let other = vec![Lock(0), Write(0, 7), Unlock(0)];
    let third = vec![Lock(0), Read(0), Unlock(0)];
    check("kept, three nodes", 3, 1, &[keeper, other, third], true);
}

#[test]
fn one_rank_places_pages_that_all_use_behind_it() {
    let first = vec![Place(0, 1), Write(0, 5), Set(0, 1), Place(1, 1), Barrier(3, 3)];
    let second = vec![Await(0, 1), Read(0), Write(0, 6), Barrier(3, 3), Write(SECOND, 7)];
    let third = vec![Await(0, 1), Write(1, 2), Barrier(3, 3), Read(0), Read(1)];
    let programs = [first, second, third];
    let placement = Placement::Ranges(PlacementTable::default());
    let config = Config { placement, ..settings(3, 1, 2) };
    let explored = explore(&config, &programs, &TRANSFERS, (true, 100_000));
    assert!(explored.moments < 100_000, "explored in part");
}

#[test]
fn writes_outside_a_lock_survive_a_fetch_within_it() {
    // Node 1 writes byte 1 of a page of node 0 while it fetches what the lock brings.
    let first = vec![Lock(0), Write(0, 5), Unlock(0), Barrier(3, 2), Read(1)];
    let second =
        vec![Write(1, 6), Lock(0), Read(0), Unlock(0), Write(1, 7), Barrier(3, 2), Read(0)];
    check("merge", 2, 1, &[first, second], false);
}

#[test]
fn flags_chain_through_three_nodes() {
    let first = vec![Write(1, 4), Set(0, 1)];
    let second = vec![Await(0, 1), Read(1), Write(SECOND, 5), Set(1, 1)];
    let third = vec![Await(1, 1), Read(1), Read(SECOND)];
    check("flags", 3, 1, &[first, second, third], true);
}

#[test]
fn homes_move_between_barriers() {
    let first = vec![Read(1), Barrier(0, 2), Barrier(0, 2), Read(0), Write(1, 2), Barrier(0, 2)];
    let second = vec![
        Write(0, 3),
        Barrier(0, 2),
        Write(0, 4),
        Barrier(0, 2),
        Read(0),
        Barrier(0, 2),
        Read(1),
    ];
    check("moving", 2, 1, &[first, second], false);
}

#[test]
fn writes_from_behind_a_barrier_meet_a_page_that_moves() {
    // Node 1 becomes the home of page 0, which node 2 has, and writes as soon as it may.
    let old = vec![Barrier(3, 3), Barrier(3, 3), Read(0), Read(1)];
    let new = vec![Write(0, 1), Set(0, 1), Barrier(3, 3), Barrier(3, 3), Read(1)];
    let writer = vec![Await(0, 1), Read(0), Barrier(3, 3), Write(1, 5), Fence, Barrier(3, 3)];
    let programs = [old, new, writer];
    let placement = Placement::Explicit(Box::new([0, 0]));
    let moving = Config { placement, move_after: 1, max_notices: 0, ..settings(3, 1, 2) };
    let causal = Config { consistency: Consistency::Causal, ..moving.clone() };
    for config in [moving, causal] {
        let limit = 100_000;
        let explored = explore(&config, &programs, &TRANSFERS, (true, limit));
        assert!(explored.moments < limit, "explored in part");
    }
}

/// Pointers are whole in any way of diffs.
const ONE: [DiffTransfer; 1] = [DiffTransfer::Home];

/// A cell is written, fenced, and then published by a pointer without a lock.
fn published() -> Vec<Vec<Op>> {
    let writer = vec![Write(SECOND, 9), Fence, Write(0, 9), Fence];
    let reader = vec![Peek(SECOND), Peek(0), Follow(SECOND, 9)];
    vec![writer, reader]
}

#[test]
fn pointers_without_locks_lead_to_what_they_point_at_in_causal_mode() {
    for notices in [NoticeTransfer::Push, NoticeTransfer::Pull] {
        for homes in [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [2, 0], [0, 2], [1, 2], [2, 1]] {
            let mut programs = published();
            programs.push(Vec::new());
            let placement = Placement::Explicit(Box::new(homes));
            let consistency = Consistency::Causal;
            let config = Config { placement, consistency, notices, ..settings(3, 1, 2) };
            let explored = explore(&config, &programs, &ONE, (false, 1_000_000));
            assert!(!explored.broken_pointer, "homes {homes:?}, {notices:?}");
        }
    }
}

#[test]
fn pointers_without_locks_lead_to_what_they_point_at_for_readers_that_fault() {
    for notices in [NoticeTransfer::Push, NoticeTransfer::Pull] {
        for homes in [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [2, 0], [0, 2], [1, 2], [2, 1]] {
            for (twins, own_fetches) in [
                (TwinTime::AtWrite, false),
                (TwinTime::AtFetch, false),
                (TwinTime::AtWrite, true),
                (TwinTime::AtFetch, true),
            ] {
                let mut programs = published();
                programs.push(Vec::new());
                let placement = Placement::Explicit(Box::new(homes));
                let consistency = Consistency::Fetch;
                let config = Config { placement, consistency, notices, twins, ..settings(3, 1, 2) };
                let config = Config { own_fetches, ..config };
                let explored = explore(&config, &programs, &ONE, (false, 1_000_000));
                // At the pointer's home it appears in a page that the reader may use already.
                let at_home = homes[0] == 1;
                assert!(at_home || !explored.broken_pointer, "homes {homes:?}, {notices:?}");
                assert!(explored.own_fetched > 0 || !own_fetches || homes == [1, 1], "{homes:?}");
            }
        }
    }
}

#[test]
fn a_fault_on_a_pointer_that_another_rank_has_fetched_leads_to_what_it_points_at() {
    let [writer, reader] = published().try_into().unwrap_or_default();
    let programs = [writer, Vec::new(), reader, vec![Peek(0)]];
    for (homes, own_fetches) in [([0, 0], false), ([0, 1], false), ([0, 0], true), ([0, 1], true)] {
        let placement = Placement::Explicit(Box::new(homes));
        let consistency = Consistency::Fetch;
        let config = Config { placement, consistency, own_fetches, ..settings(2, 2, 2) };
        let explored = explore(&config, &programs, &ONE, (false, 1_000_000));
        assert!(!explored.broken_pointer && explored.moments < 1_000_000, "homes {homes:?}");
        assert!(explored.own_fetched > 0 || !own_fetches, "homes {homes:?}");
    }
}

#[test]
fn a_rank_that_lags_behind_its_node_does_not_fetch_by_itself_what_others_have_written() {
    // The first rank of node 2 stores a pointer to what node 0 has written into its copy of a page
    // of node 1. The second acquires what node 1 has written there, and nothing of node 0.
    let cell = vec![Write(0, 9), Set(0, 1)];
    let neighbour = vec![Write(SECOND + 1, 5), Set(1, 1)];
    let writer = vec![Await(0, 1), Fence, Write(SECOND, 9)];
    let reader = vec![Peek(0), Await(1, 1), Peek(SECOND), Follow(0, 9)];
    let programs = [cell, Vec::new(), neighbour, Vec::new(), writer, reader];
    let order = [5, 0, 0, 4, 4, 4, 2, 2, 5, 5, 5];
    for own_fetches in [false, true] {
        let consistency = Consistency::Fetch;
        let config = Config { consistency, own_fetches, ..settings(3, 2, 2) };
        let mut world = World::new(&config, &Rc::new(programs.to_vec()));
        order.into_iter().for_each(|rank| world.complete(rank));
        assert!(!world.broken_pointer, "own fetches: {own_fetches}");
        assert_eq!(world.own_fetched > 0, own_fetches);
    }
}

#[test]
fn a_rank_fetches_by_itself_what_depends_on_nothing_new() {
    // Behind the barrier both know all that the page depends on; behind the fence the reader does
    // not, until its fault has acquired it.
    let writer = vec![Write(0, 1), Write(SECOND, 1), Barrier(0, 2), Write(1, 2), Fence];
    let reader = vec![Peek(SECOND), Barrier(0, 2), Peek(0), Peek(SECOND)];
    let order = [1, 0, 0, 0, 1, 1, 0, 0, 1];
    let placement = Placement::Explicit(Box::new([0, 0]));
    let consistency = Consistency::Fetch;
    let config = Config { placement, consistency, own_fetches: true, ..settings(2, 1, 2) };
    let mut world = World::new(&config, &Rc::new(vec![writer, reader]));
    let mut fetched = Vec::new();
    for rank in order {
        world.complete(rank);
        fetched.push(world.own_fetched);
    }
    assert_eq!(fetched, [1, 1, 1, 1, 1, 2, 2, 2, 2], "the last page depends on the fence");
}

#[test]
fn pointers_that_appear_without_a_fault_break_in_fetch_mode() {
    let consistency = Consistency::Fetch;
    let placement = Placement::Explicit(Box::new([1, 0]));
    let config = Config { placement, consistency, ..settings(2, 1, 2) };
    assert!(explore(&config, &published(), &ONE, (false, 1_000_000)).broken_pointer, "at the home");
    // Another rank of the reader's node fetches the pointer into the copy that both map.
    let [writer, reader] = published().try_into().unwrap_or_default();
    let other = vec![Peek(0), Lock(0), Peek(0), Unlock(0)];
    let placement = Placement::Explicit(Box::new([0, 0]));
    let config = Config { placement, consistency, ..settings(2, 2, 2) };
    let writer = [writer, vec![Lock(0), Unlock(0)]].concat();
    let programs = [writer, Vec::new(), reader, other];
    assert!(
        explore(&config, &programs, &ONE, (false, 60_000)).broken_pointer,
        "beside another rank"
    );
}

#[test]
fn pointers_without_locks_break_in_plain_mode() {
    let placement = Placement::Explicit(Box::new([0, 0]));
    let config = Config { placement, ..settings(2, 1, 2) };
    assert!(explore(&config, &published(), &ONE, (false, 1_000_000)).broken_pointer);
}
