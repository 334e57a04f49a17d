//! Plans of the tests, and the check that networks did all kinds of harm.

use clump_sim::onesided::OneSidedPlan;
use clump_sim::proxies::Setting;
use clump_sim::{ClusterPlan, NamedPlan, NetCounts, WorldPlan};
use std::path::Path;

/// Returns a plan of `plans/`.
pub fn named(name: &str) -> NamedPlan {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    NamedPlan::read(&folder.join(name).with_extension("toml")).unwrap()
}

/// Returns all runs of a plan, in order.
pub fn runs(name: &str) -> Vec<WorldPlan> {
    let plan = named(name);
    let runs: Vec<_> = plan.seeds().into_iter().flat_map(|seed| plan.runs(seed).unwrap()).collect();
    assert!(!runs.is_empty());
    runs
}

/// Returns the runs of a plan of messages.
pub fn messages(name: &str) -> Vec<ClusterPlan> {
    let plan = |run| match run {
        WorldPlan::Messages(plan) => plan,
        other => panic!("{name} is no plan of messages: {other:?}"),
    };
    runs(name).into_iter().map(plan).collect()
}

/// Returns the runs of a plan of one-sided operations.
pub fn one_sided(name: &str) -> Vec<OneSidedPlan> {
    let plan = |run| match run {
        WorldPlan::OneSided(plan) => plan,
        other => panic!("{name} is no plan of one-sided operations: {other:?}"),
    };
    runs(name).into_iter().map(plan).collect()
}

/// Returns the setting of a plan of the experiment with proxies.
pub fn setting(name: &str) -> Setting {
    match runs(name).swap_remove(0) {
        WorldPlan::Proxies(setting) => setting,
        other => panic!("{name} is no plan of proxies: {other:?}"),
    }
}

/// Asserts that links did all kinds of harm. Only zero counts fail.
pub fn assert_all_harm(nets: &(impl Iterator<Item = NetCounts> + Clone)) {
    let sum = |what: fn(&NetCounts) -> u64| nets.clone().map(|net| what(&net)).sum::<u64>();
    for (name, count) in [
        ("lost", sum(|net| net.lost)),
        ("cut", sum(|net| net.cut)),
        ("doubled", sum(|net| net.doubled)),
        ("held back", sum(|net| net.held)),
        ("spoilt", sum(|net| net.spoilt)),
    ] {
        assert!(count > 0, "no datagram was {name}");
    }
}
