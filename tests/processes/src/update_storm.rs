//! Kills ranks and agents of jobs that update memory of other nodes, and checks each end.

use crate::storm::Sampler;
use crate::stroke::Stroke;
use crate::{Job, until};
use std::time::Duration;

/// Updates of a job: more than it makes before it is killed.
const UPDATES: u64 = 100_000_000;
/// Drivers of the network: ranks or proxies.
const DRIVES: [&str; 2] = ["direct", "proxy:1"];

/// The results of a storm.
#[derive(Debug, Default)]
pub struct Seen {
    /// Jobs that lost a rank.
    pub ranks: u32,
    /// Jobs that lost a node.
    pub nodes: u32,
    /// Longest time from the kill to the end of the launcher.
    pub end: Duration,
}

/// Kills once in each of `kills` jobs that count 10^8 samples in a histogram over two or three
/// nodes, with aggregation: a rank, or the agent of a node. Every job must end with a report that
/// names the victim, without a result, and with no process left. `say` is called for each job.
///
/// # Panics
/// Panics if one does not; the message names the seed.
pub fn update_storm(kills: u32, seed: u64, mut say: impl FnMut(&str)) -> Seen {
    let mut seen = Seen::default();
    for number in 0..kills {
        // A seed of its own for each job, so that one job can be repeated alone.
        let own = seed.wrapping_add(u64::from(number));
        let stroke = Stroke::draw(&mut Sampler::new(own), &DRIVES, 300_000);
        let Stroke { nodes, ranks, drives, node, victim, .. } = stroke;
        let named = node.map_or(format!("rank {victim} "), |node| format!("node {node}"));
        let what = format!("kill {number} (seed {own}): {named} of {ranks}/{nodes} by {drives}");
        say(&what);
        let line = format!(
            "app histo --samples {UPDATES} -n {ranks} --nodes {nodes} --ni {drives} --json"
        );
        let job = Job::command(&line).start();
        until("all ranks run", || (job.ranks().len() == ranks as usize).then_some(()));
        stroke.strike(&job);
        let ended = job.finish();
        assert_eq!(ended.code, stroke.code(), "{what}: exit code\n{}\n{}", ended.out, ended.err);
        let report = ended.report();
        let first = report.first().is_some_and(|line| line.contains(&named));
        assert!(first, "{what}: the victim is not named\n{}", ended.err);
        assert!(!ended.out.contains("verified"), "{what}: it has a result\n{}", ended.out);
        let which = if node.is_some() { &mut seen.nodes } else { &mut seen.ranks };
        *which += 1;
        seen.end = seen.end.max(ended.took);
    }
    seen
}
