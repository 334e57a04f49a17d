//! The nodes of the ranks of a job. Ranks of a node have consecutive numbers, so the first rank of
//! each node is all that is stored: 4 bytes a node, and no memory for ranks.

use std::ops::Range;
use std::sync::Arc;

/// Most ranks of a job.
pub const MAX_RANKS: usize = 1 << 20;
/// Most nodes of a job.
pub const MAX_NODES: usize = 4096;

/// Bits below the number of the node in the product of a rank and a scale.
const SCALE_BITS: u32 = 40;
// The scale is rounded up, by less than one rank's share: below this bound the error of the product
// stays below one node, and the product itself in a word.
const _: () = assert!(MAX_RANKS as u64 * MAX_RANKS as u64 <= 1 << SCALE_BITS);
const _: () = assert!((MAX_RANKS as u64).ilog2() + SCALE_BITS < u64::BITS);

/// The ranks of every node of a job. Clones share the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankMap {
    /// The first rank of each node, and behind them the number of all ranks.
    first: Arc<[u32]>,
    ranks: u32,
    /// 2^40 divided by the ranks of a node, rounded up; 0 where nodes do not have equally many.
    scale: u64,
}

impl RankMap {
    /// Creates the map of a job whose nodes begin with these ranks; the last number is that of all
    /// ranks. Returns `None` if a node has no ranks, or there are more than [`MAX_RANKS`] ranks or
    /// [`MAX_NODES`] nodes.
    pub fn from_first(first: Vec<u32>) -> Option<Self> {
        let (&start, &ranks) = (first.first()?, first.last()?);
        let ascending = first.is_sorted_by(|a, b| a < b);
        let fits = (1..=MAX_NODES).contains(&(first.len() - 1)) && ranks as usize <= MAX_RANKS;
        if start != 0 || !ascending || !fits {
            return None;
        }
        let each = first[1];
        let even = first.windows(2).all(|of| of[1] - of[0] == each);
        let scale = if even { (1_u64 << SCALE_BITS).div_ceil(u64::from(each)) } else { 0 };
        let map = Self { first: first.into(), ranks, scale };
        map.check_invariants();
        Some(map)
    }

    /// Creates the map of ranks on these nodes; all are on one if `node_of` is empty. Returns
    /// `None` if the ranks of a node do not follow each other, or as [`RankMap::from_first`] does.
    pub fn from_nodes(ranks: usize, node_of: &[u32]) -> Option<Self> {
        let ranks = u32::try_from(ranks).ok()?;
        if node_of.is_empty() {
            return Self::from_first(vec![0, ranks]);
        }
        let mut first = Vec::new();
        for (rank, &node) in (0..).zip(node_of) {
            if node as usize == first.len() {
                first.push(rank);
            } else if node as usize + 1 != first.len() {
                return None;
            }
        }
        first.push(ranks);
        Self::from_first(first).filter(|map| map.ranks as usize == node_of.len())
    }

    /// Asserts the relations between the fields.
    fn check_invariants(&self) {
        debug_assert_eq!(self.first.last(), Some(&self.ranks), "the table ends with all ranks");
        let ends = (0..self.nodes()).flat_map(|node| {
            let of = self.ranks_of(node);
            [(node, of.start), (node, of.end - 1)]
        });
        debug_assert!(
            ends.into_iter().all(|(node, rank)| self.node_of(rank) == node),
            "the first and the last rank of each node are on it"
        );
    }

    /// Returns the number of ranks.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns the number of nodes.
    #[inline]
    pub fn nodes(&self) -> u32 {
        (self.first.len() - 1) as u32
    }

    /// Returns the node of `rank`; of one beyond the last, a number beyond the last node.
    #[inline]
    pub fn node_of(&self, rank: u32) -> u32 {
        if rank >= self.ranks {
            return u32::MAX;
        }
        let node = match self.scale {
            0 => (self.first.partition_point(|&first| first <= rank) - 1) as u32,
            scale => ((u64::from(rank) * scale) >> SCALE_BITS) as u32,
        };
        debug_assert!(self.ranks_of(node).contains(&rank), "the rank is on the node");
        node
    }

    /// Returns the ranks of `node`; none of one beyond the last.
    #[inline]
    pub fn ranks_of(&self, node: u32) -> Range<u32> {
        let at = node as usize;
        match (self.first.get(at), self.first.get(at.saturating_add(1))) {
            (Some(&start), Some(&end)) => start..end,
            _ => self.ranks..self.ranks,
        }
    }

    /// Returns the number of ranks of the node that has the most.
    pub fn widest(&self) -> u32 {
        let widest = self.first.windows(2).map(|of| of[1] - of[0]).max().unwrap_or(0);
        debug_assert!(widest != 0, "every node has ranks");
        widest
    }

    /// Returns the first rank of each node, and behind them the number of all ranks.
    pub fn first(&self) -> &[u32] {
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Compares every answer with those of a list that names the node of each rank.
    fn compare(sizes: &[usize]) {
        let node_of: Vec<u32> =
            (0..).zip(sizes).flat_map(|(node, &size)| vec![node; size]).collect();
        let map = RankMap::from_nodes(node_of.len(), &node_of).unwrap();
        assert_eq!((map.ranks() as usize, map.nodes() as usize), (node_of.len(), sizes.len()));
        assert_eq!(map.widest() as usize, *sizes.iter().max().unwrap());
        for (rank, &node) in (0..).zip(&node_of) {
            assert_eq!(map.node_of(rank), node, "rank {rank} of {sizes:?}");
        }
        for node in 0..map.nodes() {
            let of = (0..).zip(&node_of).filter(|&(_, &other)| other == node).map(|(rank, _)| rank);
            assert!(map.ranks_of(node).eq(of), "node {node} of {sizes:?}");
        }
        assert_eq!(RankMap::from_first(map.first().to_vec()), Some(map.clone()));
        for beyond in [map.ranks(), map.ranks() + 1, u32::MAX] {
            assert_eq!(map.node_of(beyond), u32::MAX);
            assert!(map.ranks_of(beyond.max(map.nodes())).is_empty());
        }
    }

    proptest! {
        #[test]
        fn nodes_are_those_of_a_list(sizes in prop::collection::vec(1..40_usize, 1..60)) {
            compare(&sizes);
        }

        #[test]
        fn equal_nodes_are_found_by_a_product(size in 1..2000_usize, nodes in 1..40_usize) {
            compare(&vec![size; nodes]);
        }
    }

    #[test]
    fn the_largest_jobs_have_maps() {
        for (size, nodes) in [(256, 4096), (1023, 1025), (1, 4096), (255, 4096), (MAX_RANKS, 1)] {
            let first = (0..=nodes as u32).map(|node| node * size as u32).collect();
            let map = RankMap::from_first(first).unwrap();
            for rank in (0..map.ranks()).rev().take(3000).chain(0..3000) {
                let node = rank as usize / size;
                let wanted = if node < nodes { node as u32 } else { u32::MAX };
                assert_eq!(map.node_of(rank), wanted, "rank {rank} of nodes of {size}");
            }
        }
    }

    #[test]
    fn nodes_without_ranks_and_too_many_have_no_map() {
        let too_many = (0..=MAX_NODES as u32 + 1).collect();
        let too_full = vec![0, 1, MAX_RANKS as u32 + 1];
        for wrong in [vec![], vec![0], vec![1, 2], vec![0, 0], vec![0, 2, 1], too_many, too_full] {
            assert_eq!(RankMap::from_first(wrong), None);
        }
        for wrong in [&[0, 1, 0][..], &[1, 1, 1], &[0, 0, 2], &[0, 1], &[0, 0, 1, 1]] {
            assert_eq!(RankMap::from_nodes(3, wrong), None, "{wrong:?}");
        }
        assert_eq!(RankMap::from_nodes(0, &[]), None);
    }
}
