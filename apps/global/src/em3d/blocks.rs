//! The blocks that space is divided into, one for each rank, and which rank has which.

use clap::ValueEnum;

/// Layout of the ranks of a node over blocks (paper 000, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RankLayout {
    /// One after the other, so that a node's blocks are a slab: 4x2x1 of 4x4x2
    Naive,
    /// In a box as near to a cube as possible: 2x2x2 of 4x4x2
    Good,
}

impl RankLayout {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Good => "good",
        }
    }
}

/// Numbers of blocks in each direction.
pub type GridSize = [usize; 3];

/// Returns the box of `count` blocks with the smallest surface that divides `within`; `None` if
/// none does. The first side is the longest one possible.
fn compact(count: usize, within: Option<GridSize>) -> Option<GridSize> {
    let divides = |side: usize, direction: usize| within.is_none_or(|w| w[direction] % side == 0);
    let factors = |n: usize| (1..=n).filter(move |side| n.is_multiple_of(*side));
    let boxes = factors(count).flat_map(|z| factors(count / z).map(move |y| [count / z / y, y, z]));
    let possible = boxes.filter(|b| (0..3).all(|direction| divides(b[direction], direction)));
    possible.min_by_key(|&[x, y, z]| (x * y + y * z + z * x, z, y))
}

/// The blocks, and the rank of each.
#[derive(Debug, Clone)]
pub struct BlockMap {
    grid: GridSize,
    /// Ranks, by block.
    ranks: Vec<usize>,
    /// Blocks, by rank.
    blocks: Vec<usize>,
}

impl BlockMap {
    /// Lays ranks out, whose nodes are `node_of`. Where nodes do not have equally many ranks, or
    /// their box does not fit, each layout is the naive one.
    pub fn new(node_of: &[usize], layout: RankLayout) -> Self {
        let count = node_of.len();
        let grid = compact(count, None).unwrap_or([count, 1, 1]);
        let nodes = node_of.last().map_or(1, |last| last + 1);
        let even = count.is_multiple_of(nodes)
            && node_of.iter().enumerate().all(|(rank, &node)| rank / (count / nodes) == node);
        let of_node = compact(count / nodes, Some(grid)).filter(|_| even);
        let mut blocks: Vec<usize> = (0..count).collect();
        if let Some(of_node) = of_node.filter(|_| layout == RankLayout::Good) {
            let tiles = std::array::from_fn(|direction| grid[direction] / of_node[direction]);
            let block = |rank: usize| {
                let tile = place(rank / (count / nodes), tiles);
                let inside = place(rank % (count / nodes), of_node);
                number(std::array::from_fn(|d| tile[d] * of_node[d] + inside[d]), grid)
            };
            blocks = (0..count).map(block).collect();
        }
        let mut ranks = vec![0; count];
        blocks.iter().enumerate().for_each(|(rank, &block)| ranks[block] = rank);
        Self { grid, ranks, blocks }
    }

    /// Returns the number of blocks in each direction.
    pub fn grid(&self) -> GridSize {
        self.grid
    }

    /// Returns the rank of a block.
    pub fn rank(&self, block: usize) -> usize {
        self.ranks[block]
    }

    /// Returns the block of a rank.
    pub fn block(&self, rank: usize) -> usize {
        self.blocks[rank]
    }
}

/// Returns the place of the n-th block.
fn place(n: usize, [x, y, _]: GridSize) -> GridSize {
    [n % x, n / x % y, n / x / y]
}

fn number([i, j, k]: GridSize, [x, y, _]: GridSize) -> usize {
    i + x * (j + y * k)
}

/// Returns the other blocks that are at most `span` away from each block, in each direction.
pub fn neighbours(grid: GridSize, span: usize) -> Vec<Vec<usize>> {
    let count = grid.iter().product();
    let near = |a: usize, b: usize| {
        let (a, b) = (place(a, grid), place(b, grid));
        (0..3).all(|d| a[d].abs_diff(b[d]) <= span)
    };
    (0..count).map(|a| (0..count).filter(|&b| b != a && near(a, b)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::{BlockMap, RankLayout, neighbours};

    /// Returns the pairs of blocks that are one apart in one direction, and on different nodes.
    fn cut(node_of: &[usize], layout: RankLayout) -> usize {
        let map = BlockMap::new(node_of, layout);
        let near = neighbours(map.grid(), 1);
        let node = |block: usize| node_of[map.rank(block)];
        near.iter()
            .enumerate()
            .map(|(a, of)| of.iter().filter(|&&b| node(a) != node(b)).count())
            .sum()
    }

    #[test]
    fn the_good_layout_is_that_of_the_paper() {
        let nodes: Vec<usize> = (0..32).map(|rank| rank / 8).collect();
        let good = BlockMap::new(&nodes, RankLayout::Good);
        assert_eq!(good.grid(), [4, 4, 2]);
        let first: Vec<usize> = (0..8).map(|rank| good.block(rank)).collect();
        assert_eq!(first, [0, 1, 4, 5, 16, 17, 20, 21], "2x2x2");
        let naive = BlockMap::new(&nodes, RankLayout::Naive);
        assert_eq!((0..8).map(|rank| naive.block(rank)).collect::<Vec<_>>(), Vec::from_iter(0..8));
        assert!(cut(&nodes, RankLayout::Good) < cut(&nodes, RankLayout::Naive));
    }

    #[test]
    fn every_block_has_one_rank() {
        for count in 1..20 {
            for nodes in 1..=count {
                let node_of: Vec<usize> = (0..count).map(|rank| rank * nodes / count).collect();
                for layout in [RankLayout::Good, RankLayout::Naive] {
                    let map = BlockMap::new(&node_of, layout);
                    assert!((0..count).all(|rank| map.rank(map.block(rank)) == rank));
                    assert_eq!(map.grid().iter().product::<usize>(), count);
                }
            }
        }
    }
}
