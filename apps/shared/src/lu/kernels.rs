//! The four steps on blocks. A block is square, row by row.

/// Rows and columns of a block: 8 KiB, two pages.
pub const SIDE: usize = 32;

/// One block.
pub type Block = [f64; SIDE * SIDE];

#[inline(always)]
fn at(row: usize, column: usize) -> usize {
    row * SIDE + column
}

/// Subtracts `factor` times row `from` of `source` from row `to` of `block`, from `first` on.
#[inline(always)]
fn subtract(block: &mut Block, to: usize, factor: f64, source: &[f64], first: usize) {
    let row = &mut block[at(to, 0)..at(to, SIDE)];
    for (value, other) in row.iter_mut().zip(source).skip(first) {
        *value -= factor * other;
    }
}

/// Factorises a block of the diagonal: L below it, with ones on the diagonal, and U.
pub fn factorise(block: &mut Block) {
    for k in 0..SIDE {
        let pivot: [f64; SIDE] = std::array::from_fn(|column| block[at(k, column)]);
        for row in k + 1..SIDE {
            let factor = block[at(row, k)] / pivot[k];
            block[at(row, k)] = factor;
            subtract(block, row, factor, &pivot, k + 1);
        }
    }
}

/// Divides a block below the diagonal by the U of the diagonal's block.
pub fn divide(block: &mut Block, diagonal: &Block) {
    for k in 0..SIDE {
        for row in 0..SIDE {
            let factor = block[at(row, k)] / diagonal[at(k, k)];
            block[at(row, k)] = factor;
            subtract(block, row, factor, &diagonal[at(k, 0)..at(k, SIDE)], k + 1);
        }
    }
}

/// Solves a block right of the diagonal with the L of the diagonal's block.
pub fn solve(block: &mut Block, diagonal: &Block) {
    for k in 0..SIDE {
        let pivot: [f64; SIDE] = std::array::from_fn(|column| block[at(k, column)]);
        for row in k + 1..SIDE {
            subtract(block, row, diagonal[at(row, k)], &pivot, 0);
        }
    }
}

/// Subtracts the product of a block of L and a block of U.
pub fn update(block: &mut Block, left: &Block, above: &Block) {
    for row in 0..SIDE {
        for k in 0..SIDE {
            subtract(block, row, left[at(row, k)], &above[at(k, 0)..at(k, SIDE)], 0);
        }
    }
}
