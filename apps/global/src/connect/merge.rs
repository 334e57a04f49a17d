//! The global part: components of ranks that edges connect are merged.
//!
//! In rounds. The ends of each edge are roots; the higher one is hooked to the lower, by a remote
//! minimum. Then every vertex that may have been hooked follows the parents of its parent to the
//! root, one step of all ranks at a time. Edges whose ends have the same root are done. Each root
//! that has an edge to a lower one is a root no more after a round, so rounds end.
//!
//! Reads of a rank: one for each vertex of other ranks that its edges lead to, two for each edge in
//! each round, and one for each vertex that follows its parents in each step; those of own vertices
//! are no messages. Writes: one for each edge in each round.

use crate::connect::local::LocalComponents;
use crate::traffic::Traffic;
use anyhow::Result;
use clump::pgas::Spread;
use clump::{Clump, Max};
use std::collections::HashMap;

/// Counts of the global part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Edges between different components of ranks, here.
    pub edges: u64,
    /// Rounds of all ranks.
    pub rounds: u64,
}

/// Parents of all vertices, as this rank uses them.
struct Parents<'a> {
    cl: &'a Clump,
    spread: &'a Spread<u64>,
    traffic: &'a mut Traffic,
    single: bool,
}

/// Merges components. A collective. At the end the parent of each root that was found locally is
/// the label of its component.
///
/// # Errors
/// Fails if a rank is lost.
pub fn merge(
    cl: &Clump,
    spread: &Spread<u64>,
    components: &mut LocalComponents,
    (traffic, single): (&mut Traffic, bool),
) -> Result<MergeCounts> {
    let mut parents = Parents { cl, spread, traffic, single };
    let leaving = std::mem::take(&mut components.leaving);
    let others: Vec<u64> = leaving.iter().map(|&(_, other)| other).collect();
    let roots = parents.of(&others)?;
    let ends = leaving.iter().zip(&roots);
    let mut edges: Vec<_> = ends.map(|(&(own, _), &root)| (components.root(own), root)).collect();
    edges.sort_unstable();
    edges.dedup();
    // Vertices that can be hooked: those that other ranks' edges lead to are reported.
    let mut hooked = parents.ends_here(&edges)?;
    hooked.extend(edges.iter().map(|&(own, _)| own));
    hooked.sort_unstable();
    hooked.dedup();
    let mut counts = MergeCounts { edges: edges.len() as u64, rounds: 0 };
    loop {
        let longest = cl.all_reduce(edges.len() as u64, Max)?;
        if longest == 0 {
            return Ok(counts);
        }
        counts.rounds += 1;
        for &(a, b) in &edges {
            parents.hook(a.max(b), a.min(b))?;
        }
        spread.pgas().all_store_sync()?;
        parents.follow(&hooked)?;
        let ends: Vec<u64> = edges.iter().flat_map(|&(a, b)| [a, b]).collect();
        let roots = parents.of(&ends)?;
        edges = roots.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        edges.retain(|(a, b)| a != b);
        edges.sort_unstable();
        edges.dedup();
    }
}

impl Parents<'_> {
    fn owner(&self, vertex: u64) -> usize {
        self.spread.owner(vertex as usize).unwrap_or(0)
    }

    /// Reads the parents of vertices, each once.
    fn of(&mut self, vertices: &[u64]) -> Result<Vec<u64>> {
        let mut distinct: Vec<usize> = vertices.iter().map(|&vertex| vertex as usize).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut read = vec![0; distinct.len()];
        for &vertex in &distinct {
            let owner = self.owner(vertex as u64);
            self.traffic.reads(owner, 1, 8);
        }
        if self.single {
            for (&vertex, to) in distinct.iter().zip(&mut read) {
                *to = self.spread.at(vertex).read()?;
            }
        } else {
            self.spread.gather(&distinct, &mut read)?;
        }
        let known: HashMap<usize, u64> = distinct.into_iter().zip(read).collect();
        // No rank changes parents while others still read them.
        self.cl.barrier()?;
        Ok(vertices.iter().map(|vertex| known[&(*vertex as usize)]).collect())
    }

    /// Sends edges to the owners of their far ends. Returns the ends that are here.
    fn ends_here(&mut self, edges: &[(u64, u64)]) -> Result<Vec<u64>> {
        let mut told = vec![Vec::new(); self.cl.nranks()];
        for &(_, other) in edges {
            told[self.owner(other)].extend_from_slice(&other.to_le_bytes());
        }
        let given = self.cl.all_to_all_bytes(&told)?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        Ok(given.iter().flat_map(|bytes| bytes.chunks_exact(8).map(word)).collect())
    }

    /// Hooks a root to a lower one.
    fn hook(&mut self, root: u64, lower: u64) -> Result<()> {
        debug_assert!(lower < root, "invariant 2");
        let owner = self.owner(root);
        self.traffic.writes(owner, 1, 8);
        let at = self.spread.at(root as usize);
        if self.single {
            at.now().min(lower)?;
        } else {
            at.min(lower)?;
        }
        Ok(())
    }

    /// Makes the parents of these vertices, which are this rank's, the roots of their trees.
    fn follow(&mut self, vertices: &[u64]) -> Result<()> {
        loop {
            let parents: Result<Vec<u64>> =
                vertices.iter().map(|&v| Ok(self.spread.at(v as usize).read()?)).collect();
            let parents = parents?;
            let above = self.of(&parents)?;
            let mut changes = 0_u64;
            for ((&vertex, parent), above) in vertices.iter().zip(parents).zip(above) {
                if parent != above {
                    self.spread.at(vertex as usize).write(above)?;
                    changes += 1;
                }
            }
            if self.cl.all_reduce(changes, Max)? == 0 {
                return Ok(());
            }
        }
    }
}
