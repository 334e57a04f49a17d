//! The nodes of the ranks, and the trees along which messages travel among them.

use crate::members::Members;
use clump_shm::node::NodeMemory;
use std::ops::Range;

/// Maximum number of ranks of a node with which its lowest rank communicates one by one.
const FLAT_RANKS: usize = 16;
/// Maximum bytes of a contribution for that: below it sending costs little compared with waiting.
const FLAT_BYTES: usize = 4096;

/// The ranks of every node. Those of a node are consecutive, so the lowest can act for all, and the
/// contributions of nodes in order are the contributions of ranks in order. A team whose order
/// mixes nodes counts as one node: its ranks communicate as equals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    nodes: Vec<Range<usize>>,
    me: usize,
    node: usize,
    /// True if ranks that count as one node are of several.
    mixed: bool,
}

impl Layout {
    /// Creates the layout of a team of these ranks of the job, of which this one is at `me`.
    pub(crate) fn of(memory: &NodeMemory, members: &Members, me: usize) -> Self {
        debug_assert!(me < members.len(), "this rank is none of the team");
        let mut nodes: Vec<Range<usize>> = Vec::new();
        let mut seen: Vec<u32> = Vec::new();
        for (at, rank) in members.iter().enumerate() {
            let node = memory.node_of(rank);
            match nodes.last_mut() {
                Some(range) if seen.last() == Some(&node) => range.end = at + 1,
                _ if seen.contains(&node) => return Self::mixed(members.len(), me),
                _ => {
                    nodes.push(at..at + 1);
                    seen.push(node);
                }
            }
        }
        Self::new(nodes, me)
    }

    /// Creates the layout of `ranks` ranks that count as one node.
    fn mixed(ranks: usize, me: usize) -> Self {
        Self { nodes: std::iter::once(0..ranks).collect(), me, node: 0, mixed: true }
    }

    fn new(nodes: Vec<Range<usize>>, me: usize) -> Self {
        let node = nodes.iter().position(|ranks| ranks.contains(&me)).unwrap_or(0);
        Self { nodes, me, node, mixed: false }
    }

    pub(crate) fn me(&self) -> usize {
        self.me
    }

    /// Returns the number of ranks of the team.
    pub(crate) fn ranks(&self) -> usize {
        self.nodes.last().map_or(0, |ranks| ranks.end)
    }

    /// Returns true if there is more than one node.
    pub(crate) fn is_spread(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Returns true if the ranks of each of its nodes can have memory in common.
    pub(crate) fn has_memory(&self) -> bool {
        !self.mixed
    }

    /// Returns the number of ranks of the node that has the most.
    pub(crate) fn most_local(&self) -> usize {
        self.nodes.iter().map(ExactSizeIterator::len).max().unwrap_or(0)
    }

    /// Returns the ranks of this rank's node.
    pub(crate) fn local(&self) -> Range<usize> {
        self.nodes.get(self.node).cloned().unwrap_or_default()
    }

    /// Returns the nodes, each as its ranks.
    pub(crate) fn nodes(&self) -> &[Range<usize>] {
        &self.nodes
    }

    /// Returns the lowest rank of this rank's node.
    pub(crate) fn leader(&self) -> usize {
        self.local().start
    }

    /// Returns the lowest rank of each node.
    pub(crate) fn leaders(&self) -> Vec<usize> {
        self.nodes.iter().map(|ranks| ranks.start).collect()
    }

    /// Returns one rank of each node that communicates for it: `root` for its own, else the lowest.
    pub(crate) fn speakers(&self, root: usize) -> Vec<usize> {
        let speaker = |ranks: &Range<usize>| if ranks.contains(&root) { root } else { ranks.start };
        self.nodes.iter().map(speaker).collect()
    }

    /// Returns the rank that communicates for this rank's node: `root` if that is of it, else the
    /// lowest.
    pub(crate) fn speaker(&self, root: usize) -> usize {
        if self.local().contains(&root) { root } else { self.leader() }
    }

    /// Returns true if the lowest rank of this node communicates with each of its others itself
    /// instead of along a tree, for contributions of `bytes` bytes. On crowded cores every level of
    /// a tree waits for one more rank to be scheduled: with 8 ranks on each of 2 nodes on 2 cores,
    /// an all-reduce took twice as long along a tree.
    pub(crate) fn is_flat(&self, bytes: usize) -> bool {
        self.is_spread() && self.local().len() <= FLAT_RANKS && bytes <= FLAT_BYTES
    }

    /// Returns the ranks per node, if all nodes have equally many, and both that number and that of
    /// nodes are powers of two: then a tree over all ranks by the bits of their numbers consists of
    /// one tree in each node and one over the nodes.
    pub(crate) fn even(&self) -> Option<usize> {
        let each = self.local().len();
        let even = self.nodes.iter().all(|ranks| ranks.len() == each);
        (even && each.is_power_of_two() && self.nodes.len().is_power_of_two()).then_some(each)
    }
}

/// Returns the parent and children of a member in a tree of one level over `n`, root 0.
pub(crate) fn flat(at: usize, n: usize) -> (Option<usize>, impl Iterator<Item = usize>) {
    ((at != 0).then_some(0), (1..n).take_while(move |_| at == 0))
}

/// Returns the parent and children of a member in a binomial tree over `n`, root 0: the parent
/// differs in the lowest set bit, the children in the bits below it. Largest subtree first: it has
/// the longest path.
pub(crate) fn binomial(at: usize, n: usize) -> (Option<usize>, impl Iterator<Item = usize>) {
    let lowest = if at == 0 { n.next_power_of_two() } else { at & at.wrapping_neg() };
    let parent = (at != 0).then(|| at - lowest);
    let bits = (0..lowest.ilog2()).rev().map(|bit| 1 << bit);
    (parent, bits.map(move |bit| at + bit).filter(move |&child| child < n))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tree = fn(usize, usize) -> (Option<usize>, Vec<usize>);

    #[test]
    fn every_one_but_the_root_is_the_child_of_its_parent_only() {
        let trees: [Tree; 2] = [
            |at, n| (binomial(at, n).0, binomial(at, n).1.collect()),
            |at, n| (flat(at, n).0, flat(at, n).1.collect()),
        ];
        for (tree, n) in trees.into_iter().flat_map(|tree| (1..70).map(move |n| (tree, n))) {
            let mut parents = vec![None; n];
            for at in 0..n {
                for child in tree(at, n).1 {
                    assert_eq!(parents[child], None);
                    parents[child] = Some(at);
                }
            }
            for (at, parent) in parents.into_iter().enumerate() {
                assert_eq!(tree(at, n).0, parent);
                assert_eq!(parent.is_none(), at == 0);
            }
        }
    }

    #[test]
    fn only_powers_of_two_are_even() {
        let layout = |sizes: &[usize]| {
            let mut end = 0;
            let ranges = sizes.iter().map(|size| {
                end += size;
                end - size..end
            });
            Layout::new(ranges.collect(), 0)
        };
        assert_eq!(layout(&[4, 4]).even(), Some(4));
        assert_eq!(layout(&[1, 1, 1, 1]).even(), Some(1));
        assert_eq!(layout(&[8]).even(), Some(8));
        for odd in [&[4, 2][..], &[3, 3], &[2, 2, 2], &[2, 6]] {
            assert_eq!(layout(odd).even(), None, "{odd:?}");
        }
        let layout = Layout::new(vec![0..2, 2..5], 3);
        assert_eq!((layout.leader(), layout.local(), layout.ranks()), (2, 2..5, 5));
        assert_eq!((layout.speakers(3), layout.leaders()), (vec![0, 3], vec![0, 2]));
    }
}
