//! Evidence of the seeds: the list of kept ones, and the check that networks did all kinds of harm.

use clump_sim::NetCounts;

/// Returns the seeds of a list: one a line, with what it found after a `#`.
pub fn kept(list: &str) -> Vec<u64> {
    let number = |line: &str| line.split('#').next().unwrap_or_default().trim().parse::<u64>().ok();
    let seeds: Vec<u64> = list.lines().filter_map(number).collect();
    assert!(!seeds.is_empty());
    seeds
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
