//! One-sided operations under all faults: a few dozen seeds, those that failed once, and a check
//! that a seed determines its run.

use crate::evidence;

use clump_sim::onesided::{
    ModelCounts, NetworkMode, OneSidedPlan, OneSidedSummary, run as run_plan,
};

fn run(way: NetworkMode, seed: u64) -> OneSidedSummary {
    run_named(OneSidedPlan::by(way, seed))
}

#[allow(clippy::panic, reason = "that is how a test says what failed")]
fn run_named(plan: OneSidedPlan) -> OneSidedSummary {
    run_plan(plan, false).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs a hundred seeds with the given transport.
fn memory_is_what_the_model_says(way: NetworkMode) {
    let plans = evidence::one_sided("one-sided").into_iter();
    let outcomes: Vec<_> = plans.filter(|plan| plan.network_mode() == way).map(run_named).collect();
    assert_eq!(outcomes.len(), 100);
    let mut counts = ModelCounts::default();
    outcomes.iter().for_each(|outcome| counts.add(&outcome.counts));
    // Only a lower bound: the harm must have been done.
    for (name, count, least) in [
        ("operations", counts.operations, 10_000),
        ("additions", counts.additions, 3_000),
        ("puts", counts.puts, 1_000),
        ("gets", counts.gets, 1_000),
        ("signals awaited", counts.signals_awaited, 100),
        ("locks from other nodes", counts.locks_far, 1_000),
        ("locks that were passed on", counts.locks_passed, 50),
        ("locks given up", counts.locks_timed_out, 1),
        ("deaths of holders reported", counts.holders_dead, 1),
        ("flags awaited", counts.flags_awaited, 100),
        ("refusals because of a death", counts.refused_of_dead, 1),
        ("batches of additions", counts.batches, 100),
        ("gathers", counts.gathers, 100),
        ("applies", counts.applies, 100),
        ("spreads", counts.spreads, 100),
        ("words awaited", counts.words_awaited, 100),
        ("additions in batches", counts.collected, 3_000),
        ("additions over the grid", counts.forwarded, 300),
    ] {
        assert!(count >= least, "only {count} {name}");
    }
    evidence::assert_all_harm(&outcomes.iter().map(|outcome| outcome.net));
}

#[test]
fn memory_is_what_the_model_says_under_all_kinds_of_faults() {
    memory_is_what_the_model_says(NetworkMode::Direct);
}

#[test]
fn it_is_so_where_proxies_carry_messages() {
    memory_is_what_the_model_says(NetworkMode::Proxies);
    let ways: Vec<_> = (1..=100).map(|seed| OneSidedPlan::new(seed).network_mode()).collect();
    assert!(
        ways.contains(&NetworkMode::Direct) && ways.contains(&NetworkMode::Proxies),
        "both modes are drawn"
    );
}

#[test]
fn additions_over_a_grid_of_nodes_are_exact() {
    let mut counts = ModelCounts::default();
    for plan in evidence::one_sided("grid") {
        assert!(plan.nodes() == 9 && plan.uses_grid);
        counts.add(&run_named(plan).counts);
    }
    assert!(counts.collected > 3_000 && counts.forwarded > 1_000, "{counts:?}");
}

#[test]
fn seeds_that_failed_once_do_not_again() {
    for plan in evidence::one_sided("one-sided-failed") {
        run_named(plan);
    }
}

#[test]
fn a_lock_goes_from_rank_to_rank_in_one_message() {
    let mut counts = ModelCounts::default();
    let delay = 100_000;
    for plan in evidence::one_sided("lock-hand-over") {
        assert_eq!(plan.base.link.delay, delay);
        counts.add(&run_named(plan).counts);
    }
    // In delays of the link; hand-overs by way of the home are of claims that may be given up, and
    // of fences.
    let delays = |count: u64, sum: u64| sum as f64 / (count * delay) as f64;
    let past = delays(counts.handed_past, counts.handed_past_ns);
    let by_home = delays(counts.handed_by_home, counts.handed_by_home_ns);
    println!("past the home {past:.3} delays, by way of it {by_home:.3}; {counts:?}");
    assert!(counts.handed_past > 500 && counts.handed_by_home > 100, "{counts:?}");
    assert!(past < 1.4 && by_home > 1.9, "past the home {past}, by way of it {by_home}");
}

#[test]
fn a_seed_says_everything() {
    for seed in [3, 11] {
        for way in [NetworkMode::Direct, NetworkMode::Proxies] {
            assert_eq!(run(way, seed), run(way, seed));
        }
    }
}
