//! The six steps: transpose, transform rows, multiply by roots, transpose, transform rows,
//! transpose.

use crate::fft::row::{Complex, root, roots, times, transform};
use clump::svm::{Home, SharedMatrix, Svm};
use std::ops::Range;

/// A vector of `side * side` numbers, as two matrices in shared memory.
#[derive(Debug)]
pub struct SixSteps {
    svm: Svm,
    side: usize,
    rows: Range<usize>,
    matrices: [SharedMatrix<Complex>; 2],
}

/// Side of the square that is transposed at a time.
const TILE: usize = 16;

impl SixSteps {
    /// Allocates a vector. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, side: usize) -> clump::Result<Self> {
        assert!(side.is_power_of_two(), "rows are powers of two long");
        let matrix = || svm.matrix::<Complex>(side, side, Home::Block);
        let matrices = [matrix()?, matrix()?];
        let rows = Self::rows_of(svm.rank(), svm.nranks(), side);
        Ok(Self { svm: svm.clone(), side, rows, matrices })
    }

    fn rows_of(rank: usize, ranks: usize, side: usize) -> Range<usize> {
        side * rank / ranks..side * (rank + 1) / ranks
    }

    /// Stores the numbers of this rank's rows.
    pub fn fill(&self, value: impl Fn(usize) -> Complex) {
        for row in self.rows.clone() {
            let values: Vec<_> = (row * self.side..(row + 1) * self.side).map(&value).collect();
            self.matrices[0].write_row(row, &values);
        }
    }

    /// Returns the transformed vector, in order.
    pub fn result(&self) -> Vec<Complex> {
        let mut all = vec![[0.0; 2]; self.side * self.side];
        self.matrices[1].elements().read(0, &mut all);
        all
    }

    /// Transforms the vector; a barrier ends it.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn run(&self) -> clump::Result<()> {
        let roots = roots(self.side);
        self.transpose(0)?;
        self.each_row(1, &roots, true);
        self.svm.barrier()?;
        self.transpose(1)?;
        self.each_row(0, &roots, false);
        self.svm.barrier()?;
        self.transpose(0)
    }

    /// Transforms this rank's rows, and multiplies them by the roots of the whole vector.
    fn each_row(&self, matrix: usize, roots: &[Complex], turn: bool) {
        let mut row = vec![[0.0; 2]; self.side];
        let all = self.side * self.side;
        for at in self.rows.clone() {
            self.matrices[matrix].read_row(at, &mut row);
            transform(&mut row, roots);
            if turn {
                let turned =
                    |(k, value): (usize, &mut Complex)| *value = times(*value, root(at * k, all));
                row.iter_mut().enumerate().for_each(turned);
            }
            self.matrices[matrix].write_row(at, &row);
        }
    }

    /// Writes this rank's rows of the other matrix from columns of this one: first from its own
    /// rows, then from those of the next rank, and so on, so that not all read from one at a time.
    fn transpose(&self, from: usize) -> clump::Result<()> {
        let (ranks, own) = (self.svm.nranks(), self.svm.rank());
        let (from, to) = (self.matrices[from].elements(), self.matrices[1 - from].elements());
        let mut tile = [[0.0; 2]; TILE * TILE];
        for turn in 0..ranks {
            let theirs = Self::rows_of((own + turn) % ranks, ranks, self.side);
            for first in theirs.clone().step_by(TILE) {
                let height = TILE.min(theirs.end - first);
                for column in self.rows.clone().step_by(TILE) {
                    let width = TILE.min(self.rows.end - column);
                    for at in 0..height {
                        let line = &mut tile[at * TILE..at * TILE + width];
                        from.read((first + at) * self.side + column, line);
                    }
                    for at in 0..width {
                        let line: [Complex; TILE] =
                            std::array::from_fn(|row| tile[row * TILE + at]);
                        to.write((column + at) * self.side + first, &line[..height]);
                    }
                }
            }
        }
        self.svm.barrier()?;
        Ok(())
    }
}
