//! Nodes that die, stop, are cut off or lose heartbeats: which node is evicted, and when.

use crate::cluster::{Cluster, Fault, MS, Sequence, TIMEOUT};
use clump_control::{BEATS, MAX_ASKING, OnDeath};
use proptest::prelude::*;

/// Time after which every node of few has been heard by all.
const SETTLED: u64 = 3_000 * MS;
/// Time after which also peers that were never heard are questioned.
const SETTLED_MANY: u64 = 12_000 * MS;
/// Longest time from a fault to its consequences: the timeout, and delays.
const NOTICED: u64 = TIMEOUT + 50 * MS;

/// Cuts all links between two groups, both ways.
fn part(cluster: &mut Cluster, at_ns: u64, group: &[u32], others: &[u32]) {
    for (&a, &b) in group.iter().flat_map(|a| others.iter().map(move |b| (a, b))) {
        cluster.plan(at_ns, Fault::Cut(a, b));
        cluster.plan(at_ns, Fault::Cut(b, a));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(clump_test_tier::pick(32, 128)))]

    #[test]
    fn without_faults_no_node_is_evicted_though_datagrams_are_lost(
        seed: u64, nodes in 2_u32..9, loss in 0_u64..=300,
    ) {
        let mut cluster = Cluster::new(nodes, OnDeath::End, loss, seed);
        cluster.run(60_000 * MS);
        prop_assert_eq!(&cluster.evicted, &[]);
    }

    #[test]
    fn a_stopped_node_is_evicted_alone_and_in_time(
        seed: u64, nodes in 2_u32..9, at in 0_u64..500, loss in 0_u64..50,
    ) {
        let mut cluster = Cluster::new(nodes, OnDeath::Continue, loss, seed);
        let victim = Sequence::new(seed).below(nodes.into()) as u32;
        let at = SETTLED + at * MS;
        cluster.plan(at, Fault::Stop(victim));
        cluster.run(at + NOTICED);
        let evicted: Vec<u32> = cluster.evicted.iter().map(|(node, _)| *node).collect();
        prop_assert_eq!(evicted, [victim]);
        cluster.run(at + 20_000 * MS);
        prop_assert_eq!(cluster.evicted.len(), 1);
        for node in cluster.members() {
            prop_assert_eq!(cluster.deaths_told(node), [2 * victim, 2 * victim + 1]);
        }
    }

    /// Over round trips of 50 ms the delay of detection is that of short ones, and three ways more:
    /// of the last answer, of the reports, and of the command.
    #[test]
    fn on_a_path_of_50_ms_no_node_dies_falsely_and_a_stopped_one_is_evicted_in_time(
        seed: u64, nodes in 2_u32..9, loss in 0_u64..50,
    ) {
        let mut cluster = Cluster::new(nodes, OnDeath::Continue, loss, seed);
        cluster.path_ns = 25 * MS;
        cluster.run(60_000 * MS);
        prop_assert_eq!(&cluster.evicted, &[]);
        cluster.plan(60_000 * MS, Fault::Stop(nodes - 1));
        cluster.run(60_000 * MS + NOTICED + 3 * cluster.path_ns);
        let evicted: Vec<u32> = cluster.evicted.iter().map(|(node, _)| *node).collect();
        prop_assert_eq!(evicted, [nodes - 1]);
    }

    #[test]
    fn a_node_stopped_for_a_moment_stays(seed: u64, nodes in 2_u32..9, ms in 0_u64..1000) {
        let mut cluster = Cluster::new(nodes, OnDeath::End, 0, seed);
        cluster.plan(SETTLED, Fault::Stop(nodes - 1));
        cluster.plan(SETTLED + ms * MS, Fault::Continue(nodes - 1));
        cluster.run(20_000 * MS);
        prop_assert_eq!(&cluster.evicted, &[]);
    }

    #[test]
    fn a_launcher_that_stops_meanwhile_evicts_no_node_that_goes_on(
        seed: u64, nodes in 2_u32..9, ms in 1_000_u64..1_500, (at, long) in (0_u64..2_500, 0_u64..3_000),
    ) {
        let mut cluster = Cluster::new(nodes, OnDeath::End, 0, seed);
        cluster.plan(SETTLED, Fault::Stop(nodes - 1));
        cluster.plan(SETTLED + ms * MS, Fault::Continue(nodes - 1));
        cluster.plan(SETTLED + at * MS, Fault::StopLauncher);
        cluster.plan(SETTLED + (at + long) * MS, Fault::ContinueLauncher);
        cluster.run(20_000 * MS);
        prop_assert_eq!(&cluster.evicted, &[]);
        // Then it decides as ever.
        cluster.plan(20_000 * MS, Fault::Stop(0));
        cluster.run(20_000 * MS + NOTICED);
        prop_assert_eq!(cluster.evicted.len(), 1);
    }

    #[test]
    fn nodes_that_stay_hear_of_each_other_however_the_network_is_cut(
        seed: u64, nodes in 2_u32..8, cuts in proptest::collection::vec((0_u32..8, 0_u32..8), 1..12),
    ) {
        let mut cluster = Cluster::new(nodes, OnDeath::Continue, 0, seed);
        let cuts: Vec<_> =
            cuts.into_iter().filter(|(a, b)| a != b && *a < nodes && *b < nodes).collect();
        for &(a, b) in &cuts {
            cluster.plan(SETTLED, Fault::Cut(a, b));
        }
        cluster.run(30_000 * MS);
        let members = cluster.members();
        let passes = |a: u32, b: u32| !cuts.contains(&(a, b));
        for &a in &members {
            // Those that `a` can ask; each of them is pinged by all.
            let both = |&h: &u32| passes(a, h) && passes(h, a);
            let asked: Vec<u32> = members.iter().copied().filter(both).collect();
            for &b in &members {
                let heard = asked.iter().any(|&h| h == b || passes(b, h));
                prop_assert!(heard, "{} of {}: {:?} {:?}", a, b, members, cuts);
            }
        }
        prop_assert!(!members.is_empty(), "a part of the job goes on");
        let told: Vec<_> = members.iter().map(|&node| cluster.deaths_told(node)).collect();
        prop_assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "all hear the same");
    }

    #[test]
    fn a_cut_that_is_mended_in_time_costs_no_node(seed: u64, ms in 0_u64..1300) {
        let mut cluster = Cluster::new(4, OnDeath::End, 0, seed);
        for (a, b) in [(0, 2), (2, 0), (1, 3)] {
            cluster.plan(SETTLED, Fault::Cut(a, b));
            cluster.plan(SETTLED + ms * MS, Fault::Mend(a, b));
        }
        cluster.run(20_000 * MS);
        prop_assert_eq!(&cluster.evicted, &[]);
    }

    #[test]
    fn every_rank_is_declared_once_in_one_order_whatever_dies(
        seed: u64, goes_on: bool, faults in proptest::collection::vec((0_u64..8_000, 0_u32..10), 1..10),
    ) {
        let on_death = if goes_on { OnDeath::Continue } else { OnDeath::End };
        let mut cluster = Cluster::new(5, on_death, 20, seed);
        for (ms, what) in faults {
            let fault = match what % 4 {
                0 => Fault::Kill(what / 2),
                1 => Fault::RankDies(what),
                2 => Fault::RankEnds(what),
                _ => Fault::Stop(what / 2),
            };
            cluster.plan(SETTLED + ms * MS, fault);
        }
        cluster.run(60_000 * MS);
        let longest = (0..5).map(|node| cluster.deaths_told(node)).max_by_key(Vec::len);
        let longest = longest.unwrap_or_default();
        let mut once = longest.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), longest.len(), "{:?}", longest);
        for node in 0..5 {
            let told = cluster.deaths_told(node);
            prop_assert_eq!(&longest[..told.len()], &told[..], "node {}", node);
        }
        let first = cluster.rules.supervisor().first_death().map(|death| death.rank);
        prop_assert_eq!(first, longest.first().copied());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(clump_test_tier::pick(2, 8)))]

    #[test]
    fn of_many_nodes_only_the_dead_are_evicted_though_others_pause(
        seed: u64, nodes in 20_u32..=200, loss in 0_u64..=300,
        pauses in proptest::collection::vec((0_u64..10_000, 0_u32..200, 1_u64..1_000), 0..20),
    ) {
        let mut cluster = Cluster::new(nodes, OnDeath::Continue, loss, seed);
        let victim = Sequence::new(seed).below(nodes.into()) as u32;
        // One pause for each: pauses of one node that follow on each other are longer ones.
        let pauses: std::collections::BTreeMap<_, _> =
            pauses.into_iter().map(|(at, node, ms)| (node % nodes, (at, ms))).collect();
        for (node, (at, ms)) in pauses {
            let at = SETTLED_MANY + at * MS;
            if node != victim {
                // Where the machine is seen to be the cause, pauses may be longer.
                let starved = node % 4 == 0;
                let (fault, ms) =
                    if starved { (Fault::Starve(node), 5 * ms) } else { (Fault::Stop(node), ms) };
                cluster.plan(at, fault);
                cluster.plan(at + ms * MS, Fault::Continue(node));
            }
        }
        let at = SETTLED_MANY + 4_000 * MS;
        cluster.plan(at, Fault::Stop(victim));
        cluster.run(at + NOTICED + 150 * MS);
        let evicted: Vec<u32> = cluster.evicted.iter().map(|(node, _)| *node).collect();
        prop_assert_eq!(evicted, [victim]);
        cluster.run(at + 20_000 * MS);
        prop_assert_eq!(cluster.evicted.len(), 1, "{:?}", cluster.evicted);
    }
}

/// Plans a pause of up to a second for one of 16 nodes but `victim`, each once in this time.
fn pause_some(cluster: &mut Cluster, nodes: u32, victim: u32, (from, to): (u64, u64), seed: u64) {
    let mut random = Sequence::new(seed);
    for node in (0..nodes).filter(|&node| node != victim) {
        if random.below(16) == 0 {
            let at = from + random.below(to - from);
            cluster.plan(at, Fault::Stop(node));
            cluster.plan(at + random.below(1_000 * MS), Fault::Continue(node));
        }
    }
}

/// Runs to `until` and returns the most datagrams that an agent sent in a second.
fn most_sent(cluster: &mut Cluster, from: u64, until: u64) -> u64 {
    let mut most = 0;
    for second in (from..until).step_by(1_000 * MS as usize) {
        let before = cluster.sent_by();
        cluster.run(second + 1_000 * MS);
        let sent = cluster.sent_by().into_iter().zip(before).map(|(now, before)| now - before);
        most = most.max(sent.max().unwrap_or(0));
    }
    most
}

/// A stopped agent of a thousand and of four thousand, while others pause and datagrams are lost.
#[test]
fn a_death_among_thousands_is_known_everywhere_in_time_and_costs_few_datagrams() {
    let seeds = clump_test_tier::pick(1, 8);
    for (nodes, seed) in (0..seeds).flat_map(|seed| [(1000, seed), (4096, seed)]) {
        let mut cluster = Cluster::new(nodes, OnDeath::Continue, 10, seed);
        let victim = Sequence::new(seed).below(nodes.into()) as u32;
        let at = SETTLED_MANY + 3_000 * MS + seed * 77 * MS;
        pause_some(&mut cluster, nodes, victim, (SETTLED_MANY, at + 2_000 * MS), seed);
        cluster.plan(at, Fault::Stop(victim));
        cluster.run(SETTLED_MANY);
        let most = most_sent(&mut cluster, SETTLED_MANY, at + 4_000 * MS);
        let evicted: Vec<u32> = cluster.evicted.iter().map(|(node, _)| *node).collect();
        assert_eq!(evicted, [victim], "of {nodes}, seed {seed}");
        let known = cluster.known_everywhere(2 * victim).map(|known| (known - at) / MS);
        assert!(known.is_some_and(|ms| ms <= TIMEOUT / MS), "{known:?} ms, {nodes} nodes, {seed}");
        // Periods of a second, each with questions, a ping, and answers to others and their asks.
        let periods = BEATS * 4 * 1_000 * MS / (3 * TIMEOUT);
        let bound = 2 * periods * (MAX_ASKING as u64 + 1);
        assert!(most <= bound, "{most} a second of {nodes} nodes, seed {seed}");
    }
}

/// Two hundred agents with 2 and 50 ms of round trip between them.
#[test]
fn of_200_nodes_on_long_paths_only_the_stopped_one_is_evicted_and_in_time() {
    for (path_ns, seed) in [(MS, 1), (25 * MS, 2)] {
        let mut cluster = Cluster::new(200, OnDeath::Continue, 10, seed);
        cluster.path_ns = path_ns;
        cluster.run(SETTLED_MANY + 20_000 * MS);
        assert_eq!(cluster.evicted, [], "{path_ns} ns each way");
        let at = SETTLED_MANY + 20_000 * MS;
        cluster.plan(at, Fault::Stop(77));
        cluster.run(at + NOTICED + 3 * path_ns);
        let evicted: Vec<u32> = cluster.evicted.iter().map(|(node, _)| *node).collect();
        assert_eq!(evicted, [77], "{path_ns} ns each way");
        cluster.run(at + 10_000 * MS);
        assert_eq!(cluster.evicted.len(), 1, "{path_ns} ns each way");
    }
}

/// Hours at few nodes, and a while at many: pauses up to a second and lost datagrams are no deaths.
#[test]
fn nobody_is_evicted_in_hours_of_pauses_and_losses() {
    let hours: u64 = clump_test_tier::pick(60, 36_000);
    for (nodes, seconds) in [(64, hours), (4096, clump_test_tier::pick(8, 120))] {
        let mut cluster = Cluster::new(nodes, OnDeath::Continue, 10, 5);
        cluster.run(SETTLED_MANY);
        // In each ten seconds others pause, so that no two pauses of a node make a longer one.
        for turn in 0..seconds.div_ceil(10) {
            let from = SETTLED_MANY + turn * 10_000 * MS;
            pause_some(&mut cluster, nodes, nodes, (from, from + 8_000 * MS), turn);
            cluster.run(from + 10_000 * MS);
            assert_eq!(cluster.evicted, [], "of {nodes} nodes, after {turn} turns");
        }
    }
}

#[test]
fn an_agent_sends_as_much_whatever_the_number_of_nodes() {
    for nodes in [2, 50, 200, 1000] {
        let mut cluster = Cluster::new(nodes, OnDeath::End, 0, 3);
        cluster.run(SETTLED_MANY);
        let before = cluster.sent;
        cluster.run(SETTLED_MANY + 10_000 * MS);
        let each = (cluster.sent - before) / (10 * u64::from(nodes));
        assert!((10..=20).contains(&each), "{each} a second of {nodes} nodes");
        assert_eq!(cluster.evicted, []);
    }
}

#[test]
fn of_many_nodes_those_that_are_cut_off_are_evicted_and_no_others() {
    for (seed, nodes) in [(1, 20), (2, 50), (3, 100)] {
        let mut cluster = Cluster::new(nodes, OnDeath::Continue, 10, seed);
        let cut = [seed as u32, nodes - 1];
        let others: Vec<u32> = (0..nodes).filter(|node| !cut.contains(node)).collect();
        part(&mut cluster, SETTLED_MANY, &cut[..1], &others);
        part(&mut cluster, SETTLED_MANY, &cut[..1], &cut[1..]);
        part(&mut cluster, SETTLED_MANY + 5_000 * MS, &cut[1..], &others);
        cluster.run(SETTLED_MANY + 10_000 * MS);
        assert_eq!(cluster.members(), others);
    }
}

#[test]
fn a_job_that_is_cut_in_two_goes_on_in_one_part() {
    for seed in 0..20 {
        let mut cluster = Cluster::new(6, OnDeath::Continue, 0, seed);
        part(&mut cluster, SETTLED, &[0, 1, 2], &[3, 4, 5]);
        cluster.run(30_000 * MS);
        assert_eq!(cluster.members(), [0, 1, 2], "the part that reads the user's input");
    }
}

#[test]
fn a_job_whose_agents_obey_no_more_is_over_nevertheless() {
    let mut cluster = Cluster::new(3, OnDeath::End, 0, 1);
    (0..3).for_each(|node| cluster.plan(SETTLED, Fault::Stop(node)));
    cluster.run(SETTLED);
    cluster.rules.handle_interrupt(15, SETTLED);
    cluster.plan(SETTLED, Fault::Mend(0, 1));
    cluster.run(SETTLED + 10_000 * MS);
    assert!(cluster.members().is_empty(), "all are cut off");
    assert!(cluster.rules.supervisor().is_finished());
}
