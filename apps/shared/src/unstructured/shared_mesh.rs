//! The mesh in shared memory.

use crate::unstructured::flow::Quantities;
use crate::unstructured::mesh_input::{MeshInput, WeightedEdge};
use clump::svm::{Home, SharedArray, Svm};
use std::ops::Range;

/// Nodes and edges of all ranks. The quantities and sums of a rank's nodes are contiguous.
#[derive(Debug)]
pub struct SharedMesh {
    /// Quantities of nodes.
    pub quantities: SharedArray<Quantities>,
    /// Sums of the flows to nodes in a step.
    pub flows: SharedArray<Quantities>,
    /// Slopes of nodes in a step.
    pub slopes: SharedArray<[i64; 1]>,
    edges: SharedArray<WeightedEdge>,
    /// Ones for nodes at which edges of several ranks end.
    shared: SharedArray<u8>,
    /// The first node and the first edge of each rank, and the ends.
    starts: SharedArray<[u64; 2]>,
}

impl SharedMesh {
    /// Allocates a mesh, and stores what rank 0 has made; a barrier ends it. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn store(svm: &Svm, input: Option<&MeshInput>) -> clump::Result<Self> {
        let ranks = svm.nranks();
        let starts = svm.array::<[u64; 2]>(ranks + 1, Home::Node(0))?;
        if let Some(input) = input {
            debug_assert_eq!(input.node_starts.len(), ranks + 1, "a part a rank");
            let all = input.node_starts.iter().zip(&input.edge_starts).enumerate();
            all.for_each(|(rank, (&node, &edge))| starts.set(rank, [node as u64, edge as u64]));
        }
        svm.barrier()?;
        let [nodes, edges] = starts.get(ranks).map(|count| count as usize);
        let mesh = Self {
            quantities: svm.array(nodes, Home::Block)?,
            flows: svm.array(nodes, Home::Block)?,
            slopes: svm.array(nodes, Home::Block)?,
            edges: svm.array(edges, Home::Block)?,
            shared: svm.array(nodes, Home::Block)?,
            starts,
        };
        if let Some(input) = input {
            mesh.quantities.write(0, &input.quantities);
            mesh.edges.write(0, &input.edges);
            mesh.shared.write(0, &input.shared);
        }
        svm.barrier()?;
        Ok(mesh)
    }

    fn part(&self, rank: usize, which: usize) -> Range<usize> {
        self.starts.get(rank)[which] as usize..self.starts.get(rank + 1)[which] as usize
    }

    /// Returns the nodes of a rank.
    pub fn nodes_of(&self, rank: usize) -> Range<usize> {
        self.part(rank, 0)
    }

    /// Returns the edges of a rank.
    pub fn edges_of(&self, rank: usize) -> Vec<WeightedEdge> {
        let part = self.part(rank, 1);
        let mut edges = vec![[0; 3]; part.len()];
        self.edges.read(part.start, &mut edges);
        edges
    }

    /// Returns true if edges of several ranks end at a node.
    pub fn is_shared(&self, node: usize) -> bool {
        self.shared.get(node) > 0
    }

    /// Returns the quantities of all nodes.
    pub fn all_quantities(&self) -> Vec<Quantities> {
        let mut all = vec![[0; _]; self.quantities.len()];
        self.quantities.read(0, &mut all);
        all
    }
}
