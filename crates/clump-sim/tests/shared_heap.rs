//! Shared virtual memory over the real interfaces under all faults, and a check that a seed
//! determines its run.

use crate::evidence;

use clump_sim::shared_heap::{HeapCounts, SharedHeapPlan, SharedHeapSummary, run as run_plan};
use clump_test_tier::pick;

#[allow(clippy::panic, reason = "that is how a test says what failed")]
fn run(seed: u64) -> SharedHeapSummary {
    run_plan(SharedHeapPlan::new(seed), false).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn ranks_read_what_one_memory_would_hold_under_all_kinds_of_faults() {
    let outcomes: Vec<_> = (1..=pick(100, 1000)).map(run).collect();
    let mut counts = HeapCounts::default();
    outcomes.iter().for_each(|outcome| counts.add(&outcome.counts));
    println!("{counts:?}");
    // Only lower bounds: the harm must have been done.
    for (name, count, least) in [
        ("reads", counts.reads, 1_000),
        ("writes", counts.writes, 1_000),
        ("faults", counts.faults, 1_000),
        ("pages sent", counts.messages.pages, 1_000),
        ("diffs sent", counts.messages.diffs, 1_000),
        ("notices sent", counts.messages.notices, 1_000),
        ("locks from other nodes", counts.locks_from_other_nodes, 100),
        ("locks granted over the network", counts.messages.lock_grants, 100),
        ("locks kept", counts.locks_kept, 1),
        ("barriers", counts.barriers, 1_000),
        ("flags awaited", counts.flags_awaited, 100),
        ("flags reached over the network", counts.messages.flags_reached, 100),
        ("ranks that finished", counts.finished, 100),
        ("ranks that died", counts.died, 10),
        ("ranks that ended because of a death", counts.ended_by_deaths, 10),
        ("units sent again", counts.units_resent, 100),
    ] {
        assert!(count >= least, "only {count} {name}");
    }
    evidence::assert_all_harm(&outcomes.iter().map(|outcome| outcome.net));
    let has = |proxies: u32| outcomes.iter().any(|outcome| outcome.proxies == proxies);
    assert!(has(0) && has(1), "interfaces of both kinds");
}

#[test]
fn a_seed_says_everything() {
    for seed in [3, 11] {
        assert_eq!(run(seed), run(seed));
    }
}
