//! Activity of all ranks of a node at one moment, read from the node's memory.

use crate::rank_activity::RankActivity;
use crate::silence;
use clump_os::clock;
use clump_shm::node::NodeMemory;
use clump_shm::rank::{RankBlock, RankState, WaitReason};
use clump_shm::shared::Shared;
use clump_shm::traffic::Traffic;
use clump_trace::{Counter, Counters, Histogram, Intervals, Monitor, PairTraffic, Snapshot};

/// Returns the activity of every rank of the node. `known` returns in words what the caller knows
/// better than the memory: that a rank has ended, or is stopped.
pub fn observe_ranks(
    node: &NodeMemory,
    known: impl Fn(u32) -> Option<String>,
) -> Vec<RankActivity> {
    let now_ns = clock::now_ns();
    let first = node.local_ranks().start;
    let blocks: Vec<_> = node.local_ranks().filter_map(|rank| node.rank(rank)).collect();
    let waits: Vec<Option<(WaitReason, u64)>> =
        blocks.iter().map(|block| block.waiting()).collect();
    let describe = |(rank, block): (u32, &Shared<RankBlock>)| {
        if let Some(what) = known(rank) {
            return RankActivity { rank, what, for_ms: 0 };
        }
        let state = node.peer(rank).map_or(RankState::Absent, |rank| rank.state());
        let (what, for_ms) = match (state, waits[(rank - first) as usize]) {
            (RankState::Absent, _) => ("running, not joined".into(), 0),
            (RankState::Finalized, _) => ("finalized".into(), 0),
            (RankState::Dead, _) => {
                (node.death_of(rank).map_or("dead".into(), |d| d.how.to_string()), 0)
            }
            (RankState::Joined, None) => ("computing (in no blocking call)".into(), 0),
            (RankState::Joined, Some((waiting, since))) => {
                let since_ms = now_ns.saturating_sub(since) / 1_000_000;
                let silent = block.unanswered().map(|(peer, _)| silence::name(node, peer));
                let silent =
                    silent.map_or(String::new(), |peer| format!("; {peer} does not answer"));
                (format!("{}{silent}", corrected(waiting, first, &waits)), since_ms)
            }
        };
        RankActivity { rank, what, for_ms }
    };
    (first..).zip(&blocks).map(describe).collect()
}

/// Returns the current counters of every rank of the node.
pub fn counters(node: &NodeMemory) -> Vec<Snapshot> {
    let of = |(rank, block): (u32, Shared<RankBlock>)| {
        let mut all = Snapshot::of(Counters::over(block.counters()));
        for endpoint in node.endpoint_blocks(rank).unwrap_or_default() {
            all = all + &Snapshot::of(Counters::over(endpoint.counters()));
        }
        (all[Counter::Joined], all[Counter::Finalized]) = block.lifetime_ns();
        all
    };
    let ranks = node.local_ranks();
    ranks.filter_map(|rank| Some((rank, node.rank(rank)?))).map(of).collect()
}

/// Returns the traffic of every rank and interface of the node by destination, and the times
/// between sends and barriers of each rank, in order of the ranks.
pub fn traffic(node: &NodeMemory) -> (Vec<PairTraffic>, Vec<Intervals>) {
    let (mut pairs, mut intervals) = (Vec::new(), Vec::new());
    for from in node.local_ranks().chain(node.own_interfaces()) {
        // If the blocks cannot be mapped, report nothing.
        for (to, traffic) in node.traffic_of(from).unwrap_or_default() {
            let Traffic { short, short_bytes, medium, medium_bytes, long, long_bytes } = traffic;
            pairs.push(PairTraffic {
                from,
                to,
                short: [short, short_bytes],
                medium: [medium, medium_bytes],
                long: [long, long_bytes],
            });
        }
        if !node.is_local(from) {
            continue;
        }
        let mut of_rank = Intervals::default();
        for block in node.endpoint_blocks(from).unwrap_or_default() {
            of_rank.sends.add(&Histogram::of(block.send_intervals()));
            of_rank.barriers.add(&Histogram::of(block.barrier_intervals()));
        }
        intervals.push(of_rank);
    }
    (pairs, intervals)
}

/// Returns the monitors of the node's network interfaces.
pub fn monitors(node: &NodeMemory) -> Vec<Monitor> {
    let now_ns = clock::now_ns();
    let read = |(id, which)| {
        let block = node.rank(id)?;
        // The stack's own counters are at the place of a rank's first endpoint's.
        let network = node.endpoint_block(id, 0).ok()?;
        let network = Snapshot::of(Counters::over(network.counters()));
        Monitor::read((node.node(), which, node.proxies() != 0), block.gauges(), network, now_ns)
    };
    node.own_interfaces().zip(0..).filter_map(read).collect()
}

/// Returns the monitors of the stacks that the node's ranks drive themselves; `counters` are
/// theirs, in order.
pub fn stacks(node: &NodeMemory, counters: &[Snapshot]) -> Vec<Monitor> {
    let now_ns = clock::now_ns();
    let read = |(rank, counters)| {
        let block = node.rank(rank)?;
        Monitor::of_rank((node.node(), rank), block.gauges(), counters, now_ns)
    };
    node.local_ranks().zip(counters).filter_map(read).collect()
}

/// Corrects the rank that a waiting rank misses. A rank in a barrier records the missing rank when
/// it goes to sleep; others may have arrived since. Names the first rank that is still missing, so
/// that all that wait for the same say the same.
fn corrected(waiting: WaitReason, first: u32, waits: &[Option<(WaitReason, u64)>]) -> WaitReason {
    let WaitReason::Barrier { epoch, .. } = waiting else { return waiting };
    let is_here = |wait: &Option<(WaitReason, u64)>| matches!(wait, Some((WaitReason::Barrier { epoch: at, .. }, _)) if *at == epoch);
    let missing = waits.iter().position(|wait| !is_here(wait));
    match missing.and_then(|rank| u32::try_from(rank).ok()) {
        Some(missing) => WaitReason::Barrier { epoch, missing: first + missing },
        None => waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_shm::node::NodeConfig;

    #[test]
    fn ranks_in_one_barrier_miss_the_same_rank() {
        let config = NodeConfig::new(5);
        let node = NodeMemory::create(&config).unwrap();
        for rank in [0, 1, 2, 4] {
            node.join(rank, rank + 1).unwrap();
        }
        let at = |epoch, missing| WaitReason::Barrier { epoch, missing };
        let _waits = [
            node.rank(0).unwrap().begin_wait(at(7, 1)),
            node.rank(1).unwrap().begin_wait(at(7, 2)),
            node.rank(4).unwrap().begin_wait(at(6, 0)),
        ];
        let doing = observe_ranks(&node, |rank| (rank == 4).then(|| "stopped".into()));
        let what: Vec<&str> = doing.iter().map(|d| d.what.as_str()).collect();
        let barrier = "in barrier 7, for rank 2 to arrive";
        let computing = "computing (in no blocking call)";
        assert_eq!(what, [barrier, barrier, computing, "running, not joined", "stopped"]);
    }
}
