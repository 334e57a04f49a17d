//! Pictures of scenes, traced ray by ray: the parts that do not depend on where the scene is.
//!
//! [`tracer`] follows rays through any world; a walk stops where a part of the world is missing for
//! now, and goes on there. [`balls`] is the world of the application Raytrace: balls over a
//! chequered floor. Scenes of files are those of Pray: [`nff`] reads their text, [`generate`] makes
//! some, [`polygon`] cuts polygons into triangles; [`view`] has the rays of pixels, [`object`] what
//! rays do to one object, [`octree`] the cells that lists of objects are in, [`search`] the first
//! object of a ray, and [`scene_world`] the light of it all. Objects are read by
//! [`search::SceneParts`], in any memory.
//!
//! Main types: [`tracer::PixelWalk`], [`scene_world::WholeScene`].
//!
//! # Invariants
//! 1. A pixel is a function of scene and place alone: pictures are equal bit by bit, whichever rank
//!    traces it, whatever was missing on the way.
//! 2. A reader of any file is bounded in bytes, objects, corners and comparisons.

pub mod balls;
pub mod generate;
pub mod nff;
pub mod object;
pub mod octree;
pub mod polygon;
pub mod scene_world;
pub mod search;
pub mod tracer;
pub mod vector;
pub mod view;

#[cfg(test)]
mod tests;

use clump_bug::bug;
use scene_world::{SceneWorld, WholeScene};
use tracer::PixelWalk;

/// Traces all pixels of a scene in private memory, one after the other: the serial version.
/// `deepest`: reflections and refractions that a ray is followed through.
pub fn trace_alone(scene: &WholeScene, deepest: usize) -> Vec<u32> {
    let Some(frame) = scene.header.view.frame() else {
        bug!("a scene that was read or made has a view with a direction");
        return Vec::new();
    };
    let world = SceneWorld::new(&scene.header, scene);
    let mut walk = PixelWalk::new(deepest);
    let (columns, rows) = frame.size();
    let trace = |pixel: usize| {
        walk.begin(frame.ray(pixel));
        match walk.advance(&world) {
            Ok(Some(light)) => vector::pixel_word(light),
            Ok(None) => {
                bug!("a scene that is all there has no missing part");
                0
            }
            Err(never) => match never {},
        }
    };
    (0..columns * rows).map(trace).collect()
}
