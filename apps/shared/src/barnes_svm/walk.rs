//! Trees of cells in any memory, and the walk through one that finds the force on a body.

use crate::barnes_svm::body::PlacedMass;
use crate::barnes_svm::key::{CubeKey, octant};
use crate::barnes_svm::moments::{Attraction, CellMoments};

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

/// A tree of cells, in any memory; cell 0 is the root.
pub trait Octree {
    /// Returns the parts of a cell.
    fn octants(&self, cell: usize) -> [OctantWord; 8];
    /// Returns the sums of a cell.
    fn moments(&self, cell: usize) -> CellMoments;
    /// Returns place and mass of a body.
    fn placed(&self, body: usize) -> PlacedMass;
}

/// Rule by which cells are opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Opening {
    /// Side of the root.
    pub side: f64,
    /// Side of a cell over its distance from which on it is opened.
    pub angle: f64,
}

/// Cells that a walk has yet to visit, with their levels, and if the body itself is in them.
pub type WalkStack = Vec<(usize, usize, bool)>;

/// Returns the attraction on a body. A cell that contains the body is always opened.
pub fn attraction(
    tree: &impl Octree,
    (body, key): (usize, &CubeKey),
    opening: Opening,
    stack: &mut WalkStack,
) -> Attraction {
    let from = tree.placed(body);
    let from = [from[0], from[1], from[2]];
    let mut sum = Attraction::default();
    stack.clear();
    stack.push((0, 0, true));
    while let Some((cell, level, inside)) = stack.pop() {
        let own = octant(key, level);
        for (at, word) in tree.octants(cell).into_iter().enumerate() {
            match OctantChild::of(word) {
                Some(OctantChild::Body(other)) if other != body => {
                    sum.add_body(&from, &tree.placed(other));
                }
                Some(OctantChild::Cell(part)) => {
                    let inside = inside && at == own;
                    let moments = tree.moments(part);
                    let square: f64 = (0..3).map(|at| (moments[at] - from[at]).powi(2)).sum();
                    let side = opening.side / (1_u64 << (level + 1)) as f64;
                    if inside || side * side >= opening.angle * opening.angle * square {
                        stack.push((part, level + 1, inside));
                    } else {
                        sum.add_cell(&from, &moments);
                    }
                }
                _ => {}
            }
        }
    }
    sum
}
