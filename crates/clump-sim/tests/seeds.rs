//! A few dozen seeds, those that failed once, and a check that a seed determines its run.

use crate::evidence;

use clump_sim::{ClusterPlan, RunSummary};

#[allow(clippy::panic, reason = "that is how a test says what failed")]
fn run(plan: ClusterPlan) -> RunSummary {
    clump_sim::run(plan, false).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs a named plan, two seeds at a time. Returns their outcomes in order.
fn run_all(name: &str) -> Vec<RunSummary> {
    let mut even = evidence::messages(name);
    let odd = even.split_off(even.len() / 2);
    std::thread::scope(|scope| {
        let half = |plans: Vec<ClusterPlan>| plans.into_iter().map(run).collect::<Vec<_>>();
        let other = scope.spawn(move || half(odd));
        let mut outcomes = half(even);
        match other.join() {
            Ok(rest) => outcomes.extend(rest),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        outcomes
    })
}

#[test]
fn seeds_run_through_all_kinds_of_faults() {
    let outcomes = run_all("messages");
    let sum = |what: fn(&RunSummary) -> u64| outcomes.iter().map(what).sum::<u64>();
    // Only a lower bound: the harm must have been done.
    assert!(sum(|o| o.handled) > 10_000);
    assert!(sum(|o| o.returned) > 100);
    assert!(sum(|o| o.units_resent) > 1_000);
    assert!(sum(|o| o.units_fragmented) > 10);
    assert!(sum(|o| o.packets_refused) > 100);
    evidence::assert_all_harm(&outcomes.iter().map(|outcome| outcome.net));
    for (name, count) in [
        ("came again late", sum(|o| o.net.stale)),
        ("too long", sum(|o| o.net.too_long)),
        ("overflowed", sum(|o| o.net.overflowed)),
        ("marked", sum(|o| o.net.marked)),
        ("refused by the card", sum(|o| o.net.refused)),
    ] {
        assert!(count > 0, "no datagram was {name}");
    }
}

#[test]
fn seeds_that_failed_once_do_not_again() {
    run_all("messages-failed");
}

#[test]
fn a_seed_says_everything() {
    for seed in [3, 11] {
        assert_eq!(run(ClusterPlan::new(seed)), run(ClusterPlan::new(seed)));
    }
}
