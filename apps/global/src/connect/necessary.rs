//! Messages that the merge makes necessary: its rounds, played by one process for all ranks.

use crate::connect::graph::EdgeSource;
use crate::connect::local::LocalComponents;
use std::collections::BTreeSet;

/// Parents of all vertices, and the messages of each rank.
struct Replay {
    /// Vertices of a rank, but the last.
    block: u64,
    parents: Vec<u64>,
    sent: Vec<u64>,
}

/// Returns the messages that each rank of `ranks`, of `block` vertices each, sends: one for each
/// vertex of another rank that it reads in a step, one for each edge whose higher root another rank
/// has, in each round.
pub fn messages(source: &EdgeSource, block: u64, ranks: u64) -> Vec<u64> {
    let count = source.vertices();
    let own = |rank: u64| (rank * block).min(count)..((rank + 1) * block).min(count);
    let mut parents: Vec<u64> = Vec::with_capacity(count as usize);
    let mut leaving = Vec::new();
    for rank in 0..ranks {
        let mut components = LocalComponents::find(source, own(rank));
        parents.extend(own(rank).map(|vertex| components.root(vertex)));
        leaving.push(components.leaving);
    }
    let mut replay = Replay { block, parents, sent: vec![0; ranks as usize] };
    let mut edges: Vec<BTreeSet<(u64, u64)>> = Vec::new();
    for (rank, leaving) in (0..).zip(&leaving) {
        replay.read(rank, leaving.iter().map(|&(_, other)| other));
        edges.push(leaving.iter().map(|&(own, other)| replay.ends(own, other)).collect());
    }
    let all = || edges.iter().flatten().flat_map(|&(own, other)| [own, other]);
    let hooked: BTreeSet<u64> = all().collect();
    while edges.iter().any(|edges| !edges.is_empty()) {
        for (rank, edges) in (0..).zip(&edges) {
            for &(a, b) in edges {
                replay.hook(rank, a.max(b), a.min(b));
            }
        }
        replay.follow(&hooked, ranks);
        for (rank, edges) in (0..).zip(&mut edges) {
            replay.read(rank, edges.iter().flat_map(|&(a, b)| [a, b]));
            let roots = std::mem::take(edges).into_iter().map(|(a, b)| replay.ends(a, b));
            *edges = roots.filter(|(a, b)| a != b).collect();
        }
    }
    replay.sent
}

impl Replay {
    fn owner(&self, vertex: u64) -> u64 {
        vertex / self.block
    }

    /// Returns the parents of both ends of an edge.
    fn ends(&self, a: u64, b: u64) -> (u64, u64) {
        (self.parents[a as usize], self.parents[b as usize])
    }

    /// Counts the reads of a rank: each vertex of another once.
    fn read(&mut self, rank: u64, vertices: impl Iterator<Item = u64>) {
        let others: BTreeSet<u64> = vertices.filter(|&it| self.owner(it) != rank).collect();
        self.sent[rank as usize] += others.len() as u64;
    }

    fn hook(&mut self, rank: u64, root: u64, lower: u64) {
        self.sent[rank as usize] += u64::from(self.owner(root) != rank);
        let parent = &mut self.parents[root as usize];
        *parent = lower.min(*parent);
    }

    /// Makes the parents of these vertices roots: all ranks read, then all write.
    fn follow(&mut self, hooked: &BTreeSet<u64>, ranks: u64) {
        loop {
            for rank in 0..ranks {
                let own = hooked.range(rank * self.block..(rank + 1) * self.block);
                let parents: Vec<u64> = own.map(|&it| self.parents[it as usize]).collect();
                self.read(rank, parents.into_iter());
            }
            let above = |&it: &u64| self.parents[self.parents[it as usize] as usize];
            let above: Vec<u64> = hooked.iter().map(above).collect();
            let mut changes = 0;
            for (&vertex, above) in hooked.iter().zip(above) {
                let parent = &mut self.parents[vertex as usize];
                changes += u64::from(std::mem::replace(parent, above) != above);
            }
            if changes == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::messages;
    use crate::connect::graph::EdgeSource;

    #[test]
    fn a_path_over_three_ranks() {
        // Vertices 0 and 1 | 2 and 3 | 4 and 5, and edges between neighbours.
        let edges = (0..5).map(|vertex| (vertex, vertex + 1)).collect();
        let path = EdgeSource::List { vertices: 6, edges };
        // Local roots 0, 2 and 4; edges 0-2 at rank 0 and 2-4 at rank 1. First ends: one read each.
        // Round 1: ranks 0 and 1 hook 2 and 4 of the next rank. Steps: hooked 0 | 2 | 4. Parents
        // 0, 0 and 2: ranks 1 and 2 read one of another rank; then all have parent 0: the same
        // again. Ends: rank 0 reads vertex 2, rank 1 vertex 4.
        assert_eq!(messages(&path, 2, 3), [1 + 1 + 1, 1 + 1 + 2 + 1, 2]);
        assert_eq!(messages(&path, 6, 1), [0]);
    }
}
