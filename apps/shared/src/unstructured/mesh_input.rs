//! Nodes and edges as the loops use them, numbered part by part.

use crate::unstructured::delaunay::DelaunayMesh;
use crate::unstructured::flow::{Quantities, first_quantities, weight};
use crate::unstructured::partition::Partition;
use anyhow::{Result, ensure};

/// Edge of a mesh: numbers of its ends, and its weight.
pub type WeightedEdge = [u32; 3];

/// A mesh with a part for each rank.
#[derive(Debug)]
pub struct MeshInput {
    /// Points of nodes, in the order of nodes.
    pub order: Vec<u32>,
    /// Quantities of nodes at first, in the order of nodes.
    pub quantities: Vec<Quantities>,
    /// The first node of each part, and the end.
    pub node_starts: Vec<usize>,
    /// Edges, part by part.
    pub edges: Vec<WeightedEdge>,
    /// The first edge of each part, and the end.
    pub edge_starts: Vec<usize>,
    /// Ones for nodes at which edges of several parts end.
    pub shared: Vec<u8>,
}

impl MeshInput {
    /// Divides a mesh among `parts` ranks. An edge between two parts belongs to one of them, by
    /// turns.
    ///
    /// # Errors
    /// Fails if an edge has no length that counts.
    pub fn of(mesh: &DelaunayMesh, seed: u64, parts: usize) -> Result<Self> {
        let points = mesh.points();
        let partition = Partition::of(points, parts);
        let mut node_of = vec![0; points.len()];
        for (node, &point) in partition.order.iter().enumerate() {
            node_of[point as usize] = node as u32;
        }
        let ends = mesh.edges();
        let mut degrees = vec![0; points.len()];
        ends.iter().flatten().for_each(|&point| degrees[point as usize] += 1);
        ensure!(degrees.iter().all(|&degree| degree >= 3), "each point has three edges at least");
        let mut owned: Vec<(usize, WeightedEdge)> = Vec::with_capacity(ends.len());
        for (number, pair) in ends.iter().enumerate() {
            let [a, b] = pair.map(|point| node_of[point as usize]);
            let owner = partition.part_of(if number % 2 == 0 { a } else { b } as usize);
            let places = pair.map(|point| points[point as usize]);
            let weight = weight(places, pair.map(|point| degrees[point as usize]));
            owned.push((owner, [a.min(b), a.max(b), weight as u32]));
        }
        owned.sort_unstable();
        let edge_starts = (0..=parts).map(|part| owned.partition_point(|edge| edge.0 < part));
        let quantity =
            |&point: &u32| first_quantities(seed, point as usize, points[point as usize]);
        Ok(Self {
            quantities: partition.order.iter().map(quantity).collect(),
            edge_starts: edge_starts.collect(),
            shared: shared_nodes(points.len(), &owned),
            edges: owned.into_iter().map(|(_, edge)| edge).collect(),
            order: partition.order,
            node_starts: partition.starts,
        })
    }

    /// Returns the number of edges whose ends are in two parts.
    pub fn cut(&self) -> usize {
        let part = |node: u32| self.node_starts.partition_point(|&start| start <= node as usize);
        self.edges.iter().filter(|edge| part(edge[0]) != part(edge[1])).count()
    }
}

/// Returns ones for nodes at which edges of several owners end.
fn shared_nodes(nodes: usize, owned: &[(usize, WeightedEdge)]) -> Vec<u8> {
    let mut owners = vec![None; nodes];
    let mut shared = vec![0; nodes];
    for (owner, [a, b, _]) in owned {
        for node in [*a as usize, *b as usize] {
            let first = *owners[node].get_or_insert(*owner);
            shared[node] |= u8::from(first != *owner);
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::MeshInput;
    use crate::unstructured::delaunay::DelaunayMesh;
    use crate::unstructured::flow::random_points;

    #[test]
    fn every_edge_and_node_is_in_one_part() {
        let mesh = DelaunayMesh::of(random_points(200, 1)).unwrap();
        for parts in [1, 2, 3, 8] {
            let input = MeshInput::of(&mesh, 1, parts).unwrap();
            assert_eq!(input.edge_starts.len(), parts + 1);
            assert_eq!(input.edge_starts[parts], mesh.edges().len());
            let mut pairs: Vec<_> = input
                .edges
                .iter()
                .map(|edge| {
                    let [a, b] = [edge[0], edge[1]].map(|node| input.order[node as usize]);
                    [a.min(b), a.max(b)]
                })
                .collect();
            pairs.sort_unstable();
            assert_eq!(pairs, mesh.edges());
            assert_eq!(input.cut() > 0, parts > 1);
            assert_eq!(input.shared.contains(&1), parts > 1);
            let even = input.edge_starts.windows(2).map(|part| part[1] - part[0]);
            let most = even.clone().max().unwrap();
            assert!(most * parts < mesh.edges().len() * 3 / 2, "{parts}: {most}");
        }
    }
}
