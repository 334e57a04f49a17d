//! One-sided operations under all faults: a few dozen seeds, those that failed once, and that a seed says everything.

mod evidence;

use clump_sim::onesided::{Counts, Outcome, Plan, run as run_plan};

#[allow(clippy::panic, reason = "that is how a test says what failed")]
fn run(seed: u64) -> Outcome {
    run_plan(Plan::new(seed), false).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn memory_is_what_the_model_says_under_all_kinds_of_faults() {
    let outcomes: Vec<_> = (1..=100).map(run).collect();
    let mut counts = Counts::default();
    outcomes.iter().for_each(|outcome| counts.add(&outcome.counts));
    // Nothing here says how much; it must not have been nothing.
    for (name, count, least) in [
        ("operations", counts.operations, 10_000),
        ("additions", counts.additions, 3_000),
        ("puts", counts.puts, 1_000),
        ("gets", counts.gets, 1_000),
        ("signals awaited", counts.signals_awaited, 100),
        ("locks from other nodes", counts.locks_far, 1_000),
        ("locks given up", counts.locks_timed_out, 1),
        ("deaths of holders told", counts.holders_dead, 1),
        ("flags awaited", counts.flags_awaited, 100),
        ("refusals because of a death", counts.refused_of_dead, 1),
    ] {
        assert!(count >= least, "only {count} {name}");
    }
    evidence::assert_all_harm(&outcomes.iter().map(|outcome| outcome.net));
}

#[test]
fn seeds_that_failed_once_do_not_again() {
    for seed in evidence::kept(include_str!("../failed-seeds-onesided.txt")) {
        run(seed);
    }
}

#[test]
fn a_seed_says_everything() {
    for seed in [3, 11] {
        assert_eq!(run(seed), run(seed));
    }
}
