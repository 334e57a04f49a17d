//! Kills of a rank, or of the agent of a node, at a random moment.

use crate::storm::Sampler;
use crate::{Running, signals};
use clump_os::clock;
use std::time::Duration;

/// A job over two or three nodes, and who of it is killed when.
#[derive(Debug)]
pub struct Stroke {
    /// Number of nodes.
    pub nodes: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Driver of the network.
    pub drives: &'static str,
    /// The node whose agent is killed; `None`: a rank is.
    pub node: Option<u32>,
    /// The rank that is killed otherwise.
    pub victim: u32,
    wait: Duration,
}

impl Stroke {
    /// Draws one, with one of these drivers, at most so many microseconds after the job runs. One
    /// in four kills a node.
    pub fn draw(sampler: &mut Sampler, drives: &[&'static str], longest_us: u32) -> Self {
        let nodes = sampler.of(2..=3);
        let ranks = sampler.of(nodes..=6);
        let most = u32::try_from(drives.len()).unwrap_or(u32::MAX) - 1;
        let drives = drives[sampler.of(0..=most) as usize];
        let wait = Duration::from_micros(u64::from(sampler.of(0..=longest_us)));
        let node = (sampler.of(0..=3) == 0).then(|| sampler.of(0..=nodes - 1));
        let victim = sampler.of(0..=ranks - 1);
        Self { nodes, ranks, drives, node, victim, wait }
    }

    /// Returns the ranks that die of it.
    pub fn dead(&self) -> Vec<u32> {
        let Self { nodes, ranks, node, victim, .. } = *self;
        match node {
            Some(node) => (0..ranks).filter(|rank| rank * nodes / ranks == node).collect(),
            None => vec![victim],
        }
    }

    /// Returns the exit code of the job.
    pub fn code(&self) -> i32 {
        if self.node.is_some() { 125 } else { 137 }
    }

    /// Kills, once its moment has come.
    pub fn strike(&self, job: &Running) {
        let pid = match self.node {
            Some(node) => job.agents(self.nodes as usize)[node as usize],
            None => job.rank(self.victim),
        };
        // The moment of the kill must be random: there is no condition to wait for.
        let start = clock::instant();
        while start.elapsed() < self.wait {
            clock::yield_now();
        }
        job.signal(pid, signals::KILL);
    }
}
