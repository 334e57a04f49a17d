//! Values by reads: each edge to another rank is a blocking read, in each half-step.

use crate::em3d::blocks::BlockMap;
use crate::em3d::graph::{Edge, FIELDS, Graph};
use crate::traffic::Traffic;
use anyhow::Result;
use clump::pgas::Spread;

/// The part of a rank.
#[derive(Debug)]
pub struct ReadWaves<'a> {
    graph: &'a Graph,
    map: &'a BlockMap,
    /// Values of all ranks, by field: a part of the length of the largest for each rank.
    values: &'a [Spread<f64>; 2],
    block: usize,
    /// Edges of this rank's nodes, by field.
    edges: [Vec<Edge>; 2],
}

impl<'a> ReadWaves<'a> {
    /// Makes this rank's part of the graph.
    pub fn new(graph: &'a Graph, map: &'a BlockMap, values: &'a [Spread<f64>; 2]) -> Self {
        let block = map.block(values[0].pgas().rank());
        let edges = FIELDS.map(|field| {
            let of_node =
                |node| (0..graph.degree()).map(move |n| graph.edge(field, block, node, n));
            graph.part(block).flat_map(of_node).collect()
        });
        Self { graph, map, values, block, edges }
    }

    /// Makes steps. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn advance(&self, steps: u64, traffic: &mut Traffic) -> Result<()> {
        let gas = self.values[0].pgas();
        let degree = self.graph.degree();
        for step in 0..steps * 2 {
            let side = step as usize % 2;
            let (to, from) = (self.values[side].local(), &self.values[1 - side]);
            let near = from.local();
            for (n, edges) in self.edges[side].chunks(degree).enumerate() {
                let mut value = to.get(n)?;
                for edge in edges {
                    let local = edge.node - self.graph.part(edge.block).start;
                    let other = if edge.block == self.block {
                        near.get(local)?
                    } else {
                        let rank = self.map.rank(edge.block);
                        traffic.reads(rank, 1, 8);
                        from.at(rank * self.graph.largest_part() + local).read()?
                    };
                    value -= edge.weight * other;
                }
                to.set(n, value)?;
            }
            gas.barrier()?;
        }
        Ok(())
    }
}
