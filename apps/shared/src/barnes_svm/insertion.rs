//! Building of the tree by all ranks at once, body by body, under the locks of cells (paper 003,
//! Barnes-original).

use crate::barnes_svm::shared_octree::SharedOctree;
use anyhow::{Result, ensure};
use clump::svm::SharedLocks;
use clump_app_frame::barnes::key::{CubeKey, MAX_LEVELS, key_of, octant};
use clump_app_frame::barnes::walk::{OctantChild, OctantWord, Octree, octants_of_two};
use std::collections::HashMap;

/// Cells as this rank last saw them under their locks. A part that is a cell stays one, so that a
/// rank takes no lock to go down there again (invariant 1).
type SeenCells = HashMap<usize, [OctantWord; 8]>;

/// Inserts bodies of this rank into a tree that has a root.
///
/// # Errors
/// Fails if two bodies are too close, if there are too many cells, or if a rank died.
pub fn insert_all(tree: &mut SharedOctree, bodies: &[usize], side: f64) -> Result<()> {
    let (mut seen, locks) = (SeenCells::new(), tree.locks().clone());
    bodies.iter().try_for_each(|&body| insert(tree, &locks, &mut seen, (body, side)))
}

fn insert(
    tree: &mut SharedOctree,
    locks: &SharedLocks,
    seen: &mut SeenCells,
    (body, side): (usize, f64),
) -> Result<()> {
    let key = key_of(&tree.placed(body), side);
    let (mut cell, mut level) = (0, 0);
    loop {
        let at = octant(&key, level);
        let known = seen.get(&cell).and_then(|octants| OctantChild::of(octants[at]));
        if let Some(OctantChild::Cell(part)) = known {
            (cell, level) = (part, level + 1);
            continue;
        }
        let held = locks.lock(cell)?;
        let mut octants = tree.octants(cell);
        let put = match OctantChild::of(octants[at]) {
            Some(OctantChild::Cell(_)) => None,
            None => Some(OctantChild::Body(body)),
            Some(OctantChild::Body(other)) => {
                let other = (other, key_of(&tree.placed(other), side));
                Some(OctantChild::Cell(part_them(tree, (body, key), other, level + 1)?))
            }
        };
        if let Some(child) = put {
            tree.set_octant(cell, at, child);
            octants[at] = child.word();
        }
        held.release()?;
        seen.insert(cell, octants);
        if put.is_some() {
            return Ok(());
        }
    }
}

/// Makes a cell at `level` of two bodies, and smaller ones until they are in different parts.
fn part_them(
    tree: &mut SharedOctree,
    one: (usize, CubeKey),
    other: (usize, CubeKey),
    level: usize,
) -> Result<usize> {
    ensure!(level < MAX_LEVELS, "bodies {} and {} are too close", one.0, other.0);
    let octants = match octants_of_two(one, other, level) {
        Some(octants) => octants,
        None => {
            let mut octants = [0; 8];
            let part = part_them(tree, one, other, level + 1)?;
            octants[octant(&one.1, level)] = OctantChild::Cell(part).word();
            octants
        }
    };
    tree.make(level, &octants)
}
