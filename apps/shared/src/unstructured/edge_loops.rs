//! Loops over the edges of a rank.

use crate::unstructured::flow::{FIELDS, flux, roughness, slope, squares};
use crate::unstructured::mesh_input::WeightedEdge;
use crate::unstructured::shared_mesh::SharedMesh;
use clump::svm::{SharedArray, SharedLocks, SharedMutex, Svm};
use std::collections::BTreeMap;

/// Locks of nodes, of which each has one by its number.
const NODE_LOCKS: usize = 256;

/// Manner of adding to nodes at which edges of several ranks end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeAdding {
    /// Collected in private memory, and added once a loop under the lock of the nodes' rank.
    Collected,
    /// Added edge by edge, under the lock of the node.
    Locked,
}

/// End of an edge: its node, and its place among the private sums if the node is shared.
#[derive(Debug, Clone, Copy)]
struct EdgeEnd {
    node: usize,
    sum: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct OwnEdge {
    ends: [EdgeEnd; 2],
    weight: i64,
}

/// Sums of squares and of roughness over the whole mesh, at the end of a step.
pub type StepSums = [u128; 2];

/// The edges and nodes of this rank, and the loops over them.
#[derive(Debug)]
pub struct EdgeLoops {
    svm: Svm,
    mesh: SharedMesh,
    adding: NodeAdding,
    edges: Vec<OwnEdge>,
    /// Shared nodes of this rank's edges, by the rank that has them; in the order of private sums.
    shared: Vec<(usize, Vec<usize>)>,
    node_locks: SharedLocks,
    rank_locks: SharedLocks,
    sums: SharedMutex<StepSums>,
}

impl EdgeLoops {
    /// Prepares the loops of this rank. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn over(svm: &Svm, mesh: SharedMesh, adding: NodeAdding) -> clump::Result<Self> {
        let own = mesh.edges_of(svm.rank());
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        let ends = own.iter().flat_map(|&[a, b, _]| [a as usize, b as usize]);
        shared.extend(ends.filter(|&node| mesh.is_shared(node)).map(|node| (node, 0)));
        shared.values_mut().enumerate().for_each(|(place, sum)| *sum = place);
        let end =
            |node: u32| EdgeEnd { node: node as usize, sum: shared.get(&(node as usize)).copied() };
        let edge = |&[a, b, weight]: &WeightedEdge| OwnEdge {
            ends: [end(a), end(b)],
            weight: weight.into(),
        };
        let edges = own.iter().map(edge).collect();
        let of_rank = |rank: usize| shared.range(mesh.nodes_of(rank)).map(|(&node, _)| node);
        let shared = (0..svm.nranks()).map(|rank| (rank, of_rank(rank).collect())).collect();
        Ok(Self {
            svm: svm.clone(),
            adding,
            edges,
            shared,
            node_locks: svm.locks(NODE_LOCKS)?,
            rank_locks: svm.locks(svm.nranks())?,
            sums: svm.mutex()?,
            mesh,
        })
    }

    /// Returns the mesh.
    pub fn mesh(&self) -> &SharedMesh {
        &self.mesh
    }

    /// Runs over this rank's edges, and adds what `of` returns for each to the sums of its ends; a
    /// barrier ends it. A collective.
    fn scatter<const W: usize>(
        &self,
        sums: &SharedArray<[i64; W]>,
        of: impl Fn(i64, [usize; 2]) -> [[i64; W]; 2],
    ) -> clump::Result<()> {
        let count = self.shared.iter().map(|(_, nodes)| nodes.len()).sum();
        let mut private = vec![[0; W]; count];
        for OwnEdge { ends, weight } in &self.edges {
            let parts = of(*weight, ends.map(|end| end.node));
            for (end, part) in ends.iter().zip(parts) {
                match (end.sum, self.adding) {
                    (None, _) => add(sums, end.node, &part),
                    (Some(sum), NodeAdding::Collected) => {
                        private[sum].iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                    }
                    (Some(_), NodeAdding::Locked) => {
                        let held = self.node_locks.lock(end.node % NODE_LOCKS)?;
                        add(sums, end.node, &part);
                        held.release()?;
                    }
                }
            }
        }
        if self.adding == NodeAdding::Collected {
            self.add_private(sums, &private)?;
        }
        Ok(self.svm.barrier()?)
    }

    /// Adds private sums to shared ones, rank by rank, each beginning with its own.
    fn add_private<const W: usize>(
        &self,
        sums: &SharedArray<[i64; W]>,
        private: &[[i64; W]],
    ) -> clump::Result<()> {
        let mut firsts = Vec::with_capacity(self.shared.len());
        let mut next = 0;
        for (_, nodes) in &self.shared {
            firsts.push(next);
            next += nodes.len();
        }
        debug_assert_eq!(next, private.len(), "a sum a shared node");
        for turn in 0..self.shared.len() {
            let (rank, nodes) = &self.shared[(self.svm.rank() + turn) % self.shared.len()];
            if nodes.is_empty() {
                continue;
            }
            let held = self.rank_locks.lock(*rank)?;
            for (&node, part) in nodes.iter().zip(&private[firsts[*rank]..]) {
                add(sums, node, part);
            }
            held.release()?;
        }
        Ok(())
    }

    /// Adds the roughness of this rank's edges and the squares of its nodes to those of all, under
    /// a lock; returns the sums of all ranks. Barriers are in it. A collective.
    fn sum_up(&self) -> clump::Result<StepSums> {
        let at = |node: usize| self.mesh.quantities.get(node);
        let rough = |edge: &OwnEdge| {
            let [one, other] = edge.ends.map(|end| at(end.node));
            roughness(edge.weight, &one, &other)
        };
        let own: StepSums = [
            self.mesh.nodes_of(self.svm.rank()).map(|node| squares(&at(node))).sum(),
            self.edges.iter().map(rough).sum(),
        ];
        let sums = self.sums.lock()?;
        let before = sums.get();
        sums.set([before[0] + own[0], before[1] + own[1]]);
        sums.release()?;
        self.svm.barrier()?;
        let sums = self.sums.lock()?;
        let all = sums.get();
        sums.release()?;
        self.svm.barrier()?;
        if self.svm.rank() == 0 {
            let sums = self.sums.lock()?;
            sums.set([0; 2]);
            sums.release()?;
        }
        Ok(all)
    }

    /// Runs a step: slopes, then flows that depend on them, then what flowed is added to
    /// quantities. Returns the sums at its end. A collective.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn step(&self) -> clump::Result<StepSums> {
        let SharedMesh { quantities, flows, slopes, .. } = &self.mesh;
        let both = |[one, other]: [usize; 2]| (quantities.get(one), quantities.get(other));
        self.scatter(slopes, |weight, ends| {
            let (one, other) = both(ends);
            [[slope(weight, &one, &other)]; 2]
        })?;
        self.scatter(flows, |weight, ends| {
            let ((one, other), slopes) = (both(ends), ends.map(|end| slopes.get(end)[0]));
            let gain = flux(weight, slopes, &one, &other);
            [gain, gain.map(|part| -part)]
        })?;
        for node in self.mesh.nodes_of(self.svm.rank()) {
            add(quantities, node, &flows.get(node));
            flows.set(node, [0; FIELDS]);
            slopes.set(node, [0]);
        }
        self.svm.barrier()?;
        self.sum_up()
    }
}

/// Adds to a node.
fn add<const W: usize>(sums: &SharedArray<[i64; W]>, node: usize, part: &[i64; W]) {
    let before = sums.get(node);
    sums.set(node, std::array::from_fn(|at| before[at] + part[at]));
}
