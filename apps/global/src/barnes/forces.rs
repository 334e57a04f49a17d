//! Forces on the bodies of a rank: walks through the tree, many at a time, so that what they miss
//! is fetched together.

use crate::barnes::body_store::OwnBody;
use crate::barnes::global_octree::GlobalOctree;
use anyhow::Result;
use clump_app_frame::barnes::walk::{BodyWalk, Opening};

/// Finds the forces on bodies, with up to `window` walks at a time. Returns the interactions.
///
/// # Errors
/// Fails if a rank is lost.
pub fn find_forces(
    tree: &GlobalOctree,
    opening: Opening,
    bodies: &mut [OwnBody],
    window: usize,
) -> Result<u64> {
    let (mut interactions, mut next) = (0, 0);
    let mut walks: Vec<(usize, BodyWalk)> = Vec::new();
    loop {
        while walks.len() < window.max(1) && next < bodies.len() {
            let mut walk = BodyWalk::default();
            walk.begin(bodies[next].index, &bodies[next].placed, opening.side);
            walks.push((next, walk));
            next += 1;
        }
        let mut at = 0;
        while at < walks.len() {
            let (number, walk) = &mut walks[at];
            let Some(found) = walk.advance(tree, opening)? else {
                at += 1;
                continue;
            };
            found.record(&mut bodies[*number].motion);
            interactions += found.interactions;
            if let Some(body) = bodies.get(next) {
                walk.begin(body.index, &body.placed, opening.side);
                *number = next;
                next += 1;
            } else {
                walks.swap_remove(at);
            }
        }
        if walks.is_empty() {
            return Ok(interactions);
        }
        tree.cache().fetch()?;
    }
}
