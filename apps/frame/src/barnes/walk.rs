//! Trees of cells in any memory, and the walk through one that finds the force on a body.

use crate::barnes::body::PlacedMass;
use crate::barnes::key::{CubeKey, MAX_LEVELS, key_of, octant};
use crate::barnes::moments::{Attraction, CellMoments};
use anyhow::{Result, ensure};
use clump_bug::bug;
use std::convert::Infallible;

/// Part of a cell, as a word: 0 if there is nothing.
pub type OctantWord = u64;

/// Part of a cell that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OctantChild {
    /// One body.
    Body(usize),
    /// A smaller cell.
    Cell(usize),
}

impl OctantChild {
    /// Decodes a word.
    #[inline]
    pub fn of(word: OctantWord) -> Option<Self> {
        match (word, word % 2) {
            (0, _) => None,
            (word, 0) => Some(Self::Body((word / 2 - 1) as usize)),
            (word, _) => Some(Self::Cell((word / 2) as usize)),
        }
    }

    /// Returns the word for it.
    pub fn word(self) -> OctantWord {
        match self {
            Self::Body(number) => 2 * (number as u64 + 1),
            Self::Cell(number) => 2 * number as u64 + 1,
        }
    }
}

/// Returns the parts of a cell at `level` that has two bodies; `None` if both are in one part.
fn octants_of_two(
    one: (usize, CubeKey),
    other: (usize, CubeKey),
    level: usize,
) -> Option<[OctantWord; 8]> {
    let (at, other_at) = (octant(&one.1, level), octant(&other.1, level));
    let mut octants = [0; 8];
    octants[at] = OctantChild::Body(one.0).word();
    octants[other_at] = OctantChild::Body(other.0).word();
    (at != other_at).then_some(octants)
}

/// Makes a cell at `level` of two bodies, and smaller ones until they are in different parts, by
/// `make`: a cell at a level, of these parts. Returns the cell's number.
///
/// # Errors
/// Fails if the bodies are in one part at every level, or as `make` does.
pub fn part_bodies(
    make: &mut impl FnMut(usize, &[OctantWord; 8]) -> Result<usize>,
    one: (usize, CubeKey),
    other: (usize, CubeKey),
    level: usize,
) -> Result<usize> {
    ensure!(level < MAX_LEVELS, "bodies {} and {} are too close", one.0, other.0);
    let octants = match octants_of_two(one, other, level) {
        Some(octants) => octants,
        None => {
            let mut octants = [0; 8];
            let part = part_bodies(make, one, other, level + 1)?;
            octants[octant(&one.1, level)] = OctantChild::Cell(part).word();
            octants
        }
    };
    make(level, &octants)
}

/// A tree of cells, in any memory; cell 0 is the root.
pub trait Octree {
    /// Returns the parts of a cell.
    fn octants(&self, cell: usize) -> [OctantWord; 8];
    /// Returns the sums of a cell.
    fn moments(&self, cell: usize) -> CellMoments;
    /// Returns place and mass of a body.
    fn placed(&self, body: usize) -> PlacedMass;
}

/// A tree of which parts may be missing for now: those of other nodes, say.
pub trait PartialOctree {
    /// Reason for which a part can never be had.
    type Error;

    /// Returns the parts of a cell.
    ///
    /// # Errors
    /// Fails if they can never be had.
    fn try_octants(&self, cell: usize) -> Result<Option<[OctantWord; 8]>, Self::Error>;
    /// Runs `run` on the sums of a cell, which are long to copy.
    ///
    /// # Errors
    /// Fails if they can never be had.
    fn with_moments<R>(
        &self,
        cell: usize,
        run: impl FnOnce(&CellMoments) -> R,
    ) -> Result<Option<R>, Self::Error>;
    /// Returns place and mass of a body.
    ///
    /// # Errors
    /// Fails if they can never be had.
    fn try_placed(&self, body: usize) -> Result<Option<PlacedMass>, Self::Error>;
}

impl<T: Octree> PartialOctree for T {
    type Error = Infallible;

    #[inline]
    fn try_octants(&self, cell: usize) -> Result<Option<[OctantWord; 8]>, Infallible> {
        Ok(Some(self.octants(cell)))
    }

    #[inline]
    fn with_moments<R>(
        &self,
        cell: usize,
        run: impl FnOnce(&CellMoments) -> R,
    ) -> Result<Option<R>, Infallible> {
        Ok(Some(run(&self.moments(cell))))
    }

    #[inline]
    fn try_placed(&self, body: usize) -> Result<Option<PlacedMass>, Infallible> {
        Ok(Some(self.placed(body)))
    }
}

/// Rule by which cells are opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Opening {
    /// Side of the root.
    pub side: f64,
    /// Side of a cell over its distance from which on it is opened.
    pub angle: f64,
}

/// A cell that a walk goes through: its parts, level, if the body is in it, and the next part.
type OpenCell = ([OctantWord; 8], usize, bool, usize);

/// The walk through a tree that finds the attraction on a body. It stops where a part of the tree
/// is missing, and goes on there.
#[derive(Debug, Clone, Default)]
pub struct BodyWalk {
    body: usize,
    key: CubeKey,
    from: [f64; 3],
    sum: Attraction,
    open: Option<OpenCell>,
    /// Cells that it has yet to visit, with their levels, and if the body itself is in them.
    stack: Vec<(usize, usize, bool)>,
}

impl BodyWalk {
    /// Begins the walk of another body, at the root.
    pub fn begin(&mut self, body: usize, placed: &PlacedMass, side: f64) {
        (self.body, self.key) = (body, key_of(placed, side));
        self.from = [placed[0], placed[1], placed[2]];
        (self.sum, self.open) = Default::default();
        self.stack.clear();
        self.stack.push((0, 0, true));
    }

    /// Walks on. Returns the attraction at the end, and `None` where a part is missing. A cell that
    /// contains the body is always opened.
    ///
    /// # Errors
    /// Fails if a part of the tree can never be had.
    pub fn advance<T: PartialOctree>(
        &mut self,
        tree: &T,
        opening: Opening,
    ) -> Result<Option<Attraction>, T::Error> {
        let (from, mut sum) = (self.from, self.sum);
        loop {
            let (octants, level, inside, first) = match self.open.take() {
                Some(open) => open,
                None => {
                    let Some(&(cell, level, inside)) = self.stack.last() else {
                        return Ok(Some(sum));
                    };
                    let Some(octants) = tree.try_octants(cell)? else {
                        self.sum = sum;
                        return Ok(None);
                    };
                    self.stack.pop();
                    (octants, level, inside, 0)
                }
            };
            let own = octant(&self.key, level);
            for (at, word) in octants.into_iter().enumerate().skip(first) {
                let is_there = match OctantChild::of(word) {
                    Some(OctantChild::Body(other)) if other != self.body => {
                        let placed = tree.try_placed(other)?;
                        placed.inspect(|placed| sum.add_body(&from, placed)).is_some()
                    }
                    Some(OctantChild::Cell(part)) => {
                        let inside = inside && at == own;
                        let visit = |moments: &CellMoments| {
                            let square: f64 =
                                (0..3).map(|at| (moments[at] - from[at]).powi(2)).sum();
                            let side = opening.side / (1_u64 << (level + 1)) as f64;
                            if inside || side * side >= opening.angle * opening.angle * square {
                                self.stack.push((part, level + 1, inside));
                            } else {
                                sum.add_cell(&from, moments);
                            }
                        };
                        tree.with_moments(part, visit)?.is_some()
                    }
                    _ => true,
                };
                if !is_there {
                    (self.sum, self.open) = (sum, Some((octants, level, inside, at)));
                    return Ok(None);
                }
            }
        }
    }
}

/// Returns the attraction on a body of a tree that is all there.
pub fn attraction(
    tree: &impl Octree,
    body: usize,
    opening: Opening,
    walk: &mut BodyWalk,
) -> Attraction {
    walk.begin(body, &tree.placed(body), opening.side);
    match walk.advance(tree, opening) {
        Ok(Some(sum)) => sum,
        Ok(None) => {
            bug!("a tree that is all there has no missing part");
            Attraction::default()
        }
        Err(never) => match never {},
    }
}
