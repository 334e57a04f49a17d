//! The equations in shared memory.

use crate::gauss::elimination::{eliminate, pivot};
use clump::svm::{Home, SharedArray, SharedFlags, SharedMatrix, Svm};

/// Equations of all ranks, dealt out one by one; the rows of a rank are contiguous.
#[derive(Debug)]
pub struct SharedSystem {
    svm: Svm,
    n: usize,
    rows: SharedMatrix<f64>,
    /// The pivot's column of each row.
    pivots: SharedArray<u64>,
    /// A flag a row: its pivot is chosen.
    chosen: SharedFlags,
}

impl SharedSystem {
    /// Allocates `n` equations. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, n: usize) -> clump::Result<Self> {
        let per_rank = n.div_ceil(svm.nranks());
        Ok(Self {
            svm: svm.clone(),
            n,
            rows: svm.matrix(per_rank * svm.nranks(), n + 1, Home::Block)?,
            pivots: svm.array(n, Home::Block)?,
            chosen: svm.flags(n)?,
        })
    }

    /// Returns the rows of this rank, from `first` on.
    fn own(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let (rank, ranks) = (self.svm.rank(), self.svm.nranks());
        let skipped = first.saturating_sub(rank).div_ceil(ranks);
        (rank + skipped * ranks..self.n).step_by(ranks)
    }

    fn place(&self, row: usize) -> usize {
        let ranks = self.svm.nranks();
        row % ranks * self.n.div_ceil(ranks) + row / ranks
    }

    /// Copies a row out.
    pub fn read(&self, row: usize, into: &mut [f64]) {
        self.rows.read_row(self.place(row), into);
    }

    /// Returns the pivot's column of a row.
    pub fn pivot_of(&self, row: usize) -> usize {
        self.pivots.get(row) as usize
    }

    /// Fills the rows of this rank.
    pub fn fill(&self, first_row: impl Fn(usize) -> Vec<f64>) {
        self.own(0).for_each(|row| self.rows.write_row(self.place(row), &first_row(row)));
    }

    /// Chooses the pivot of a row, and announces the row.
    fn announce(&self, row: usize, values: &[f64], is_pivot: &[bool]) -> clump::Result<()> {
        self.pivots.set(row, pivot(values, is_pivot) as u64);
        Ok(self.chosen.set(row, 1)?)
    }

    /// Eliminates. A collective, without a barrier.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn eliminate(&self) -> clump::Result<()> {
        let (mut earlier, mut values) = (vec![0.0; self.n + 1], vec![0.0; self.n + 1]);
        let mut is_pivot = vec![false; self.n];
        if self.svm.rank() == 0 && self.n > 0 {
            self.read(0, &mut values);
            self.announce(0, &values, &is_pivot)?;
        }
        for row in 0..self.n {
            self.chosen.wait(row, 1)?;
            self.read(row, &mut earlier);
            let column = self.pivot_of(row);
            is_pivot[column] = true;
            for own in self.own(row + 1) {
                self.read(own, &mut values);
                eliminate(&mut values, &earlier, column);
                self.rows.write_row(self.place(own), &values);
                // Before its other rows: the others wait for this one.
                if own == row + 1 {
                    self.announce(own, &values, &is_pivot)?;
                }
            }
        }
        Ok(())
    }
}
