//! V-cycles over the grids of a basin.

use crate::ocean::grid::{Grid, Rows};
use clump::svm::{SharedMutex, Svm};

/// Relaxations before and behind the coarser grids.
pub const SWEEPS: usize = 2;
/// Relaxations of the coarsest grid.
pub const COARSE_SWEEPS: usize = 12;
/// Cells of a row of the coarsest grid.
pub const COARSEST: usize = 4;

/// Grids of one size: the flow, its source, and what is left of the source.
#[derive(Debug)]
struct Level {
    flow: Grid,
    source: Grid,
    left: Grid,
}

/// A basin, as grids from fine to coarse.
#[derive(Debug)]
pub struct Basin {
    svm: Svm,
    levels: Vec<Level>,
    largest: SharedMutex<f64>,
}

/// Returns the width of a cell, squared, in a basin of width 1.
pub fn cell_area(side: usize) -> f64 {
    1.0 / (side * side) as f64
}

impl Basin {
    /// Allocates a basin of `side` times `side` cells, a power of two. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm, side: usize) -> clump::Result<Self> {
        assert!(side.is_power_of_two() && side >= COARSEST, "grids are halved down to {COARSEST}");
        let sides = std::iter::successors(Some(side), |side| Some(side / 2));
        let level = |side: usize| -> clump::Result<Level> {
            let grid = || Grid::allocate(svm, side);
            Ok(Level { flow: grid()?, source: grid()?, left: grid()? })
        };
        let levels =
            sides.take_while(|&side| side >= COARSEST).map(level).collect::<clump::Result<_>>()?;
        Ok(Self { svm: svm.clone(), levels, largest: svm.mutex()? })
    }

    /// Returns the number of grids.
    pub fn grids(&self) -> usize {
        3 * self.levels.len()
    }

    /// Returns the flow on the finest grid.
    pub fn flow(&self) -> &Grid {
        &self.levels[0].flow
    }

    /// Runs `work` on each row of this rank.
    fn each_row(&self, grid: &Grid, work: impl FnMut(usize)) {
        grid.rows_of(self.svm.rank(), self.svm.nranks()).for_each(work);
    }

    /// Sets the source on the finest grid, and the flow to 0; a barrier ends it.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn begin(&self, source: impl Fn(usize, usize) -> f64) -> clump::Result<()> {
        let fine = &self.levels[0];
        let side = fine.source.side();
        self.each_row(&fine.source, |row| {
            let values: Vec<f64> = (0..side).map(|column| source(row, column)).collect();
            fine.source.write(row, &values);
            fine.flow.write(row, &vec![0.0; side]);
        });
        Ok(self.svm.barrier()?)
    }

    /// Makes a cycle; a barrier ends it.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn cycle(&self) -> clump::Result<()> {
        let coarsest = self.levels.len() - 1;
        for at in 0..coarsest {
            (0..SWEEPS).try_for_each(|_| self.relax(at))?;
            self.find_left(at)?;
            self.to_coarser(at)?;
        }
        (0..COARSE_SWEEPS).try_for_each(|_| self.relax(coarsest))?;
        for at in (0..coarsest).rev() {
            self.to_finer(at)?;
            (0..SWEEPS).try_for_each(|_| self.relax(at))?;
        }
        Ok(())
    }

    /// Relaxes all red cells, then all black ones.
    fn relax(&self, at: usize) -> clump::Result<()> {
        let Level { flow, source, .. } = &self.levels[at];
        let side = flow.side();
        let (mut rows, mut due) = (Rows::of(side), vec![0.0; side]);
        for colour in 0..2 {
            self.each_row(flow, |row| {
                flow.read_around(row, &mut rows);
                source.read(row, &mut due);
                for column in ((row + colour) % 2..side).step_by(2) {
                    let value = (rows.around(column) + cell_area(side) * due[column]) / 4.0;
                    flow.set(row, column, value);
                }
            });
            self.svm.barrier()?;
        }
        Ok(())
    }

    /// Finds what is left of the source, cell by cell.
    fn find_left(&self, at: usize) -> clump::Result<()> {
        let Level { flow, source, left } = &self.levels[at];
        let side = flow.side();
        let (mut rows, mut due) = (Rows::of(side), vec![0.0; side]);
        self.each_row(flow, |row| {
            flow.read_around(row, &mut rows);
            source.read(row, &mut due);
            let value = |column: usize| {
                due[column] - (4.0 * rows.here[column] - rows.around(column)) / cell_area(side)
            };
            left.write(row, &(0..side).map(value).collect::<Vec<_>>());
        });
        Ok(self.svm.barrier()?)
    }

    /// Makes the source of the next grid of what is left on this one.
    fn to_coarser(&self, at: usize) -> clump::Result<()> {
        let (left, coarse) = (&self.levels[at].left, &self.levels[at + 1]);
        let (side, half) = (left.side(), coarse.source.side());
        let (mut upper, mut lower) = (vec![0.0; side], vec![0.0; side]);
        self.each_row(&coarse.source, |row| {
            left.read(2 * row, &mut upper);
            left.read(2 * row + 1, &mut lower);
            let mean = |at: usize| {
                (upper[2 * at] + upper[2 * at + 1] + lower[2 * at] + lower[2 * at + 1]) / 4.0
            };
            coarse.source.write(row, &(0..half).map(mean).collect::<Vec<_>>());
            coarse.flow.write(row, &vec![0.0; half]);
        });
        Ok(self.svm.barrier()?)
    }

    /// Adds the flow of the next grid to that of this one.
    fn to_finer(&self, at: usize) -> clump::Result<()> {
        let (flow, coarse) = (&self.levels[at].flow, &self.levels[at + 1].flow);
        let (mut fine, mut half) = (vec![0.0; flow.side()], vec![0.0; coarse.side()]);
        self.each_row(flow, |row| {
            flow.read(row, &mut fine);
            coarse.read(row / 2, &mut half);
            fine.iter_mut().enumerate().for_each(|(at, value)| *value += half[at / 2]);
            flow.write(row, &fine);
        });
        Ok(self.svm.barrier()?)
    }

    /// Returns the largest residual of the finest grid, found by all ranks under a lock.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn residual(&self) -> clump::Result<f64> {
        if self.svm.rank() == 0 {
            let guard = self.largest.lock()?;
            guard.set(0.0);
            guard.release()?;
        }
        self.find_left(0)?;
        let left = &self.levels[0].left;
        let mut row = vec![0.0; left.side()];
        let mut largest = 0.0_f64;
        self.each_row(left, |at| {
            left.read(at, &mut row);
            largest = row.iter().fold(largest, |largest, value| largest.max(value.abs()));
        });
        let guard = self.largest.lock()?;
        guard.set(guard.get().max(largest));
        guard.release()?;
        self.svm.barrier()?;
        let guard = self.largest.lock()?;
        let found = guard.get();
        guard.release()?;
        self.svm.barrier()?;
        Ok(found)
    }
}
