//! One grid of a basin, in shared memory.

use clump::svm::{Home, SharedMatrix, Svm};
use std::ops::Range;

/// Square grid of cells; beyond its sides, values are those inside with the other sign, so that
/// they are 0 on the coast.
#[derive(Debug)]
pub struct Grid {
    values: SharedMatrix<f64>,
    side: usize,
}

/// Three rows of a grid, copied out: one, and those beside it.
#[derive(Debug)]
pub struct Rows {
    /// The row before.
    pub above: Vec<f64>,
    /// The row.
    pub here: Vec<f64>,
    /// The row behind.
    pub below: Vec<f64>,
}

impl Rows {
    /// Returns room for rows of so many cells.
    pub fn of(side: usize) -> Self {
        let row = || vec![0.0; side];
        Self { above: row(), here: row(), below: row() }
    }

    /// Returns the sum of the four neighbours of a cell.
    #[inline]
    pub fn around(&self, column: usize) -> f64 {
        let here = self.here[column];
        let left = if column == 0 { -here } else { self.here[column - 1] };
        let right = self.here.get(column + 1).copied().unwrap_or(-here);
        self.above[column] + self.below[column] + left + right
    }
}

impl Grid {
    /// Allocates a grid of `side` times `side` cells, whose rows are on the nodes that own them. A
    /// collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, side: usize) -> clump::Result<Self> {
        Ok(Self { values: svm.matrix(side, side, Home::Block)?, side })
    }

    /// Returns the cells of a row.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Returns the rows of a rank.
    pub fn rows_of(&self, rank: usize, ranks: usize) -> Range<usize> {
        self.side * rank / ranks..self.side * (rank + 1) / ranks
    }

    /// Copies a row out.
    pub fn read(&self, row: usize, into: &mut [f64]) {
        self.values.read_row(row, into);
    }

    /// Copies a row in.
    pub fn write(&self, row: usize, values: &[f64]) {
        self.values.write_row(row, values);
    }

    /// Sets one cell.
    pub fn set(&self, row: usize, column: usize, value: f64) {
        self.values.set(row, column, value);
    }

    /// Copies a row and those beside it out.
    pub fn read_around(&self, row: usize, into: &mut Rows) {
        self.read(row, &mut into.here);
        let beyond = |to: &mut Vec<f64>, here: &[f64]| {
            to.iter_mut().zip(here).for_each(|(to, here)| *to = -here);
        };
        match row {
            0 => beyond(&mut into.above, &into.here),
            _ => self.read(row - 1, &mut into.above),
        }
        match row + 1 == self.side {
            true => beyond(&mut into.below, &into.here),
            false => self.read(row + 1, &mut into.below),
        }
    }
}
