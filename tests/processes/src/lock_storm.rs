//! Kills ranks and agents, with their proxies, of jobs whose ranks contend for locks, and checks
//! the survivors.

use crate::storm::Sampler;
use crate::stroke::Stroke;
use crate::{Folder, Job, program};
use std::ffi::OsString;
use std::time::Duration;

/// Drivers of the network: ranks or proxies.
const DRIVES: [&str; 3] = ["direct", "proxy:1", "proxy:2"];

/// The results of a storm.
#[derive(Debug, Default)]
pub struct Seen {
    /// Jobs that lost a rank.
    pub ranks: u32,
    /// Jobs that lost a node, with the homes of its locks and its proxies.
    pub nodes: u32,
    /// Times that survivors held locks.
    pub held: u64,
    /// Locks that survivors were refused.
    pub lost: u64,
    /// Longest time from the kill to the end of the launcher.
    pub end: Duration,
}

/// Kills once in each of `kills` jobs, at a random moment: a rank, which may hold a lock, wait for
/// one or be the home of some, or the agent of a node. Survivors must be alone in the locks they
/// hold, hear of the real deaths and of no others, and end. `say` is called for each job.
///
/// # Panics
/// Panics if one does not; the message names the seed.
pub fn lock_storm(kills: u32, seed: u64, mut say: impl FnMut(&str)) -> Seen {
    let mut seen = Seen::default();
    for number in 0..kills {
        // A seed of its own for each job, so that one job can be repeated alone.
        let own = seed.wrapping_add(u64::from(number));
        let stroke = Stroke::draw(&mut Sampler::new(own), &DRIVES, 30_000);
        let Stroke { nodes, ranks, drives, node, victim, .. } = stroke;
        let dead = stroke.dead();
        let what = format!(
            "kill {number} (seed {own}): of {ranks} ranks on {nodes} nodes by {drives} {}",
            node.map_or(format!("rank {victim}"), |node| format!("node {node}, ranks {dead:?}"))
        );
        say(&what);
        let folder = Folder::new();
        let options = format!("-n {ranks} --nodes {nodes} --ni {drives} --on-death continue");
        let args = [folder.path().display().to_string(), own.to_string()].map(OsString::from);
        let job = Job::of_program(&options, program("contend"), args).start();
        job.await_ready(folder.path(), 0..ranks);
        stroke.strike(&job);
        let names = dead.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        std::fs::write(folder.path().join("new"), names).expect("writing who died");
        std::fs::rename(folder.path().join("new"), folder.path().join("end")).expect("the end");
        let ended = job.finish();
        let survivors: Vec<&str> =
            ended.out.lines().filter(|line| line.contains(" had locks ")).collect();
        let well = ended.code == stroke.code() && survivors.len() == ranks as usize - dead.len();
        assert!(well, "{what}: exit code {}\n{}\n{}", ended.code, ended.out, ended.err);
        for line in survivors {
            let words = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
            let &[_, held, lost] = &words.collect::<Vec<_>>()[..] else {
                panic!("{what}: `{line}`")
            };
            seen.held += held;
            seen.lost += lost;
        }
        (seen.ranks, seen.nodes) =
            (seen.ranks + u32::from(node.is_none()), seen.nodes + u32::from(node.is_some()));
        seen.end = seen.end.max(ended.took);
    }
    seen
}
