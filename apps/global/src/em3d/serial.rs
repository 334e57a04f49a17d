//! The serial version, and the messages that a graph makes necessary.

use crate::em3d::blocks::BlockMap;
use crate::em3d::graph::{Edge, FIELDS, Graph};
use crate::em3d::value_way::ValueWay;

/// All nodes of one process.
#[derive(Debug)]
pub struct SerialWaves {
    /// Values, by field.
    values: [Vec<f64>; 2],
    /// Edges of all nodes, by field.
    edges: [Vec<Edge>; 2],
    degree: usize,
}

impl SerialWaves {
    /// Makes the graph and the first values.
    pub fn new(graph: &Graph) -> Self {
        let edges = FIELDS.map(|field| {
            let of_block = |block: usize| graph.part(block).map(move |node| (block, node));
            let nodes = (0..graph.blocks()).flat_map(of_block);
            let of_node =
                |(block, node)| (0..graph.degree()).map(move |n| graph.edge(field, block, node, n));
            nodes.flat_map(of_node).collect()
        });
        let first = |field| (0..graph.field_nodes()).map(|n| graph.first_value(field, n)).collect();
        Self { values: FIELDS.map(first), edges, degree: graph.degree() }
    }

    /// Makes steps.
    pub fn advance(&mut self, steps: u64) {
        for step in 0..steps * 2 {
            let [electric, magnetic] = &mut self.values;
            let (to, from) =
                if step % 2 == 0 { (electric, magnetic) } else { (magnetic, electric) };
            let edges = &self.edges[step as usize % 2];
            for (value, edges) in to.iter_mut().zip(edges.chunks(self.degree)) {
                for edge in edges {
                    *value -= edge.weight * from[edge.node];
                }
            }
        }
    }

    /// Returns the values of both fields.
    pub fn values(&self) -> &[Vec<f64>; 2] {
        &self.values
    }

    /// Returns the messages of a step that each rank sends: one for each edge between ranks where
    /// values are read, one for each node and other rank that has an edge to it where they are
    /// stored.
    pub fn messages(&self, graph: &Graph, map: &BlockMap, way: ValueWay) -> Vec<u64> {
        let mut messages = vec![0; graph.blocks()];
        for edges in &self.edges {
            let mut of_edges = edges.iter();
            let mut stored = Vec::new();
            for block in 0..graph.blocks() {
                let own = graph.part(block).len() * self.degree;
                for edge in of_edges.by_ref().take(own).filter(|edge| edge.block != block) {
                    messages[map.rank(block)] += u64::from(way == ValueWay::Read);
                    stored.push((edge.node, block, edge.block));
                }
            }
            stored.sort_unstable();
            stored.dedup();
            let stored = stored.iter().filter(|_| way == ValueWay::Write);
            stored.for_each(|&(_, _, owner)| messages[map.rank(owner)] += 1);
        }
        messages
    }
}
