//! The graph: nodes of two fields, in blocks, and their edges. Each edge is a function of its
//! number.

use crate::em3d::blocks::{GridSize, neighbours};
use clump_app_frame::random::Random;
use std::ops::Range;

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The electric field.
    Electric,
    /// The magnetic field.
    Magnetic,
}

/// Both fields, in the order of the half-steps that change them.
pub const FIELDS: [Field; 2] = [Field::Electric, Field::Magnetic];

/// An edge: a node of the other field, and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Block of the node.
    pub block: usize,
    /// Number of the node among all of its field.
    pub node: usize,
    /// Weight.
    pub weight: f64,
}

/// Parameters of a graph, and what follows from them.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Nodes of each field.
    field_nodes: usize,
    degree: usize,
    remote_percent: u64,
    near: Vec<Vec<usize>>,
}

/// Seed of edges and first values.
const SEED: u64 = 0xe33d;

impl Graph {
    /// Creates a graph of `nodes` nodes, half of each field, over blocks. Each node has `degree`
    /// edges, of which `remote_percent` go to blocks up to `span` away.
    pub fn new(
        nodes: usize,
        degree: usize,
        remote_percent: u64,
        (grid, span): (GridSize, usize),
    ) -> Self {
        debug_assert!(remote_percent <= 100, "the command line has checked that");
        Self { field_nodes: nodes / 2, degree, remote_percent, near: neighbours(grid, span) }
    }

    /// Returns the number of nodes of each field.
    pub fn field_nodes(&self) -> usize {
        self.field_nodes
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.near.len()
    }

    /// Returns the edges of a node.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// Returns the nodes of a block, of either field.
    pub fn part(&self, block: usize) -> Range<usize> {
        let begin = |block: usize| self.field_nodes * block / self.near.len();
        begin(block)..begin(block + 1)
    }

    /// Returns the largest number of nodes of a block.
    pub fn largest_part(&self) -> usize {
        (0..self.blocks()).map(|block| self.part(block).len()).max().unwrap_or(0)
    }

    /// Returns the n-th edge of a node of a block.
    pub fn edge(&self, field: Field, block: usize, node: usize, n: usize) -> Edge {
        let number = ((field as usize * self.field_nodes + node) * self.degree + n) as u64;
        let mut random = Random::from(SEED, number * 4);
        let near = &self.near[block];
        let is_remote = random.below(100) < self.remote_percent as usize && !near.is_empty();
        let of = if is_remote { near[random.below(near.len())] } else { block };
        // A block without nodes has no neighbours.
        let of = if self.part(of).is_empty() { block } else { of };
        let node = self.part(of).start + random.below(self.part(of).len());
        let weight = (random.number() >> 11) as f64 / (1_u64 << 53) as f64 / self.degree as f64;
        Edge { block: of, node, weight }
    }

    /// Returns the first value of a node.
    pub fn first_value(&self, field: Field, node: usize) -> f64 {
        let number = (field as usize * self.field_nodes + node) as u64;
        (Random::from(!SEED, number).number() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Graph};

    #[test]
    fn edges_have_the_shares_that_were_asked_for() {
        let graph = Graph::new(8000, 10, 40, ([4, 1, 1], 1));
        let mut remote = 0;
        for block in 0..4 {
            for node in graph.part(block) {
                for n in 0..10 {
                    let edge = graph.edge(Field::Electric, block, node, n);
                    assert!(graph.part(edge.block).contains(&edge.node));
                    assert!(edge.block.abs_diff(block) <= 1 && (0.0..0.1).contains(&edge.weight));
                    remote += usize::from(edge.block != block);
                }
            }
        }
        assert!((15_400..16_600).contains(&remote), "40 % of 40,000: {remote}");
    }

    #[test]
    fn blocks_without_nodes_have_no_edges_to_them() {
        let graph = Graph::new(4, 3, 100, ([8, 1, 1], 2));
        assert_eq!((0..8).map(|block| graph.part(block).len()).sum::<usize>(), 2);
        for block in (0..8).filter(|&block| !graph.part(block).is_empty()) {
            for n in 0..3 {
                let edge = graph.edge(Field::Magnetic, block, graph.part(block).start, n);
                assert!(graph.part(edge.block).contains(&edge.node));
            }
        }
    }
}
