//! Nodes that run on one kernel, and so share its processors and its clock.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The nodes of a job that share the processors of one machine, as one of them sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sharing {
    /// Ranks of all of them.
    pub ranks: u32,
    /// Ranks of those before this node.
    pub before: u32,
    /// Their number.
    pub nodes: u32,
}

/// The kernels of a job's nodes, numbered, so that many nodes are compared without their names.
#[derive(Debug)]
pub(crate) struct KernelMap {
    /// The kernel of each node.
    kernels: Vec<usize>,
}

impl KernelMap {
    /// Numbers the kernels by their names, one for each node. A kernel without a name is its own.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known = BTreeMap::new();
        let number = |(node, name): (usize, &'a str)| match name {
            "" => node,
            name => *known.entry(name).or_insert(node),
        };
        Self { kernels: names.into_iter().enumerate().map(number).collect() }
    }

    /// Returns the sharing of every node; `ranks_of` returns the ranks of one.
    pub(crate) fn sharing(&self, ranks_of: impl Fn(u32) -> Range<u32>) -> Vec<Sharing> {
        let mut of_kernel: BTreeMap<usize, Sharing> = BTreeMap::new();
        let mut before = Vec::new();
        for (node, kernel) in (0..).zip(&self.kernels) {
            let all = of_kernel.entry(*kernel).or_default();
            before.push(all.ranks);
            all.ranks += ranks_of(node).len() as u32;
            all.nodes += 1;
        }
        let of = |(kernel, before): (&usize, u32)| {
            let all = of_kernel.get(kernel).copied().unwrap_or_default();
            debug_assert!(all.nodes > 0 && before <= all.ranks, "the node itself is one of them");
            Sharing { before, ..all }
        };
        self.kernels.iter().zip(before).map(of).collect()
    }

    /// Returns the nodes that do not run on the kernel of `node`.
    pub(crate) fn on_others(&self, node: u32) -> Vec<u32> {
        let own = self.kernels.get(node as usize);
        let others = (0..).zip(&self.kernels).filter(|(_, kernel)| Some(*kernel) != own);
        others.map(|(node, _)| node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_kernel_share_what_it_has() {
        let ranks_of = |node: u32| [0..3, 3..4, 4..6][node as usize].clone();
        let kernels = KernelMap::new(["k", "other", "k"]);
        let shared = [
            Sharing { ranks: 5, before: 0, nodes: 2 },
            Sharing { ranks: 1, before: 0, nodes: 1 },
            Sharing { ranks: 5, before: 3, nodes: 2 },
        ];
        assert_eq!(kernels.sharing(ranks_of), shared);
        assert_eq!([0, 1, 2].map(|node| kernels.on_others(node)), [vec![1], vec![0, 2], vec![1]]);
        let unknown = KernelMap::new(["", "", ""]);
        assert_eq!(unknown.on_others(2), [0, 1], "unknown is another");
        let alone = Sharing { ranks: 2, before: 0, nodes: 1 };
        assert_eq!(unknown.sharing(ranks_of)[2], alone, "unknown is not shared");
    }
}
