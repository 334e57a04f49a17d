//! Building of the tree by all ranks at once, body by body, under the locks of cells (paper 003,
//! Barnes-original).

use crate::barnes_svm::shared_octree::SharedOctree;
use anyhow::Result;
use clump::svm::SharedLocks;
use clump_app_frame::barnes::key::{key_of, octant};
use clump_app_frame::barnes::walk::{OctantChild, OctantWord, Octree, part_bodies};
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
                Some(OctantChild::Cell(part_bodies(
                    &mut |level, octants| tree.make(level, octants),
                    (body, key),
                    other,
                    level + 1,
                )?))
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
