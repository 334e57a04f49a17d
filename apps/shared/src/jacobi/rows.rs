//! Rows of a grid in shared memory, with a border of zeroes around it.

use clump::svm::{Home, SharedArray, Svm};

/// Cells of a page.
const PAGE: usize = 512;

/// Rows of a square grid, each with the cells of the border beside it.
#[derive(Debug)]
pub struct GridRows {
    cells: SharedArray<f64>,
    side: usize,
    /// Cells from the beginning of a row to that of the next.
    stride: usize,
}

/// Deal of rows to ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowDeal {
    /// Consecutive rows to each rank.
    Block,
    /// Row by row.
    Cyclic,
}

impl RowDeal {
    /// Returns the rows of a rank, of rows 1 to `side`.
    pub fn rows(self, side: usize, (rank, ranks): (usize, usize)) -> Vec<usize> {
        debug_assert!(rank < ranks, "rank {rank} of {ranks}");
        match self {
            Self::Block => (1 + side * rank / ranks..1 + side * (rank + 1) / ranks).collect(),
            Self::Cyclic => (1 + rank..=side).step_by(ranks).collect(),
        }
    }
}

impl GridRows {
    /// Allocates a grid of `side` times `side` cells, zero at first; `padded` gives each row pages
    /// of its own. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, side: usize, padded: bool) -> clump::Result<Self> {
        let row = side + 2;
        let stride = if padded { row.next_multiple_of(PAGE) } else { row };
        Ok(Self { cells: svm.array(stride * row, Home::Block)?, side, stride })
    }

    /// Copies a row out, border included; row 0 is the border.
    pub fn read(&self, row: usize, into: &mut [f64]) {
        debug_assert_eq!(into.len(), self.side + 2, "a row with its border");
        self.cells.read(row * self.stride, into);
    }

    /// Copies the cells of a row in, border included.
    pub fn write(&self, row: usize, cells: &[f64]) {
        debug_assert_eq!(cells.len(), self.side + 2, "a row with its border");
        self.cells.write(row * self.stride, cells);
    }
}

/// Returns a row behind an iteration, from those around it.
pub fn relaxed([above, here, below]: [&[f64]; 3]) -> Vec<f64> {
    let last = here.len() - 1;
    let cell = |at: usize| match at {
        0 => 0.0,
        at if at == last => 0.0,
        at => (above[at] + below[at] + here[at - 1] + here[at + 1]) / 4.0,
    };
    (0..=last).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::RowDeal;

    #[test]
    fn every_row_is_dealt_once() {
        for deal in [RowDeal::Block, RowDeal::Cyclic] {
            for (side, ranks) in [(1, 4), (7, 2), (8, 3)] {
                let mut all: Vec<_> =
                    (0..ranks).flat_map(|rank| deal.rows(side, (rank, ranks))).collect();
                all.sort_unstable();
                assert_eq!(all, (1..=side).collect::<Vec<_>>());
            }
        }
    }
}
