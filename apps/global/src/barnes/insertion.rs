//! Building of the tree by all ranks at once, body by body, under the locks of cells of any rank.

use crate::barnes::global_octree::{GlobalOctree, Octants};
use anyhow::Result;
use clump_app_frame::barnes::key::{key_of, octant};
use clump_app_frame::barnes::walk::{OctantChild, part_bodies};
use std::collections::HashMap;

/// Cells as this rank last saw them under their locks: it takes no lock to go down to a part that
/// is a cell (invariant 1).
type SeenCells = HashMap<usize, Octants>;

/// Inserts the bodies of this rank into a tree that has a root.
///
/// # Errors
/// Fails if two bodies are too close, if there are too many cells, if a rank is lost, or if
/// attempts at naive locks never end.
pub fn insert_all(tree: &GlobalOctree, side: f64) -> Result<()> {
    let mut seen = SeenCells::new();
    tree.bodies().own().try_for_each(|body| insert(tree, &mut seen, (body, side)))
}

fn insert(tree: &GlobalOctree, seen: &mut SeenCells, (body, side): (usize, f64)) -> Result<()> {
    let key = key_of(&tree.leaf(body)?, side);
    let (mut cell, mut level) = (0, 0);
    loop {
        let at = octant(&key, level);
        let known = seen.get(&cell).and_then(|octants| OctantChild::of(octants[at]));
        if let Some(OctantChild::Cell(part)) = known {
            (cell, level) = (part, level + 1);
            continue;
        }
        let (octants, is_in) = tree.locks().with(tree.lock_of(cell), || {
            tree.locks().serve()?;
            let mut octants = tree.locked_octants(cell)?;
            let child = match OctantChild::of(octants[at]) {
                Some(OctantChild::Cell(_)) => return anyhow::Ok((octants, false)),
                None => OctantChild::Body(body),
                Some(OctantChild::Body(other)) => {
                    let other = (other, key_of(&tree.leaf(other)?, side));
                    OctantChild::Cell(part_bodies(
                        &mut |level, octants| tree.make(level, octants),
                        (body, key),
                        other,
                        level + 1,
                    )?)
                }
            };
            tree.locks().serve()?;
            tree.set_octant(cell, at, child)?;
            octants[at] = child.word();
            Ok((octants, true))
        })?;
        seen.insert(cell, octants);
        if is_in {
            return Ok(());
        }
    }
}
