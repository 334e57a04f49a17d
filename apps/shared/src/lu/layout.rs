//! Places of blocks: each belongs to one rank, and the blocks of a rank are contiguous, on its
//! node.

use crate::lu::kernels::{Block, SIDE};
use clump::Clump;
use clump::svm::{Home, SharedArray, Svm};

/// The blocks of a matrix, dealt out to ranks in two dimensions.
#[derive(Debug)]
pub struct BlockLayout {
    /// Blocks in a row, and in a column.
    blocks: usize,
    /// Ranks in a row of the grid of ranks, and in a column.
    grid: (usize, usize),
    rank: usize,
    /// The blocks of each rank.
    parts: Vec<SharedArray<f64>>,
}

/// Returns the most nearly square grid of so many ranks.
fn grid_of(ranks: usize) -> (usize, usize) {
    let rows = (1..=ranks).take_while(|rows| rows * rows <= ranks);
    let rows = rows.filter(|rows| ranks.is_multiple_of(*rows)).last().unwrap_or(1);
    (rows, ranks / rows)
}

impl BlockLayout {
    /// Allocates a matrix of `blocks` times `blocks` blocks. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(cl: &Clump, svm: &Svm, blocks: usize) -> clump::Result<Self> {
        let grid = grid_of(cl.nranks());
        let part = |rank: usize| {
            let (rows, columns) = (blocks.div_ceil(grid.0), blocks.div_ceil(grid.1));
            let home = Home::Node(cl.node_of(rank).unwrap_or(0));
            Ok(svm.array(rows * columns * SIDE * SIDE, home)?)
        };
        let parts = (0..cl.nranks()).map(part).collect::<clump::Result<_>>()?;
        Ok(Self { blocks, grid, rank: cl.rank(), parts })
    }

    /// Returns the blocks in a row, and in a column.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the rank that owns a block.
    pub fn owner(&self, row: usize, column: usize) -> usize {
        row % self.grid.0 * self.grid.1 + column % self.grid.1
    }

    /// Returns true if this rank owns a block.
    pub fn is_own(&self, row: usize, column: usize) -> bool {
        self.owner(row, column) == self.rank
    }

    fn place(&self, row: usize, column: usize) -> (&SharedArray<f64>, usize) {
        let across = self.blocks.div_ceil(self.grid.1);
        let number = row / self.grid.0 * across + column / self.grid.1;
        (&self.parts[self.owner(row, column)], number * SIDE * SIDE)
    }

    /// Copies a block out.
    pub fn read(&self, row: usize, column: usize, into: &mut Block) {
        let (part, first) = self.place(row, column);
        part.read(first, into);
    }

    /// Copies a block in.
    pub fn write(&self, row: usize, column: usize, block: &Block) {
        let (part, first) = self.place(row, column);
        part.write(first, block);
    }

    /// Returns an element of the matrix.
    pub fn element(&self, row: usize, column: usize) -> f64 {
        let (part, first) = self.place(row / SIDE, column / SIDE);
        part.get(first + row % SIDE * SIDE + column % SIDE)
    }
}

#[cfg(test)]
mod tests {
    use super::grid_of;

    #[test]
    fn grids_are_as_square_as_can_be() {
        for (ranks, grid) in [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (6, (2, 3)), (7, (1, 7))] {
            assert_eq!(grid_of(ranks), grid);
        }
    }
}
