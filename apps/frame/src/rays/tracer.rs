//! Rays, from the eye to what they meet, and on from there: through any world.

use crate::rays::vector::{Ray, Vector};
use clump_bug::bug;

/// Objects and lights that rays meet, in any memory. Parts of it may be missing for now: those of
/// other nodes, say. Then `None` is returned, and the search goes on where it stopped.
pub trait RayWorld {
    /// Reason for which a part can never be had.
    type Error;
    /// A search that was stopped; empty before the first step and behind the last.
    type Search: Default;
    /// A point that a ray has met, with its surface.
    type Point;

    /// Returns the first point that a ray meets, if there is one.
    ///
    /// # Errors
    /// Fails if a part of the world can never be had.
    fn first(&self, ray: &Ray, search: &mut Self::Search) -> Found<Option<Self::Point>, Self>;
    /// Returns true if a ray meets anything nearer than `far`.
    ///
    /// # Errors
    /// Fails if a part of the world can never be had.
    fn is_blocked(&self, ray: &Ray, far: f64, search: &mut Self::Search) -> Found<bool, Self>;
    /// Returns the number of lights.
    fn lights(&self) -> usize;
    /// Returns the ray from a point to a light, and its length; `None` where the surface is turned
    /// away from it.
    fn to_light(&self, point: &Self::Point, light: usize) -> Option<(Ray, f64)>;
    /// Returns the light at a point that comes from no light.
    fn ambient(&self, point: &Self::Point) -> Vector;
    /// Returns the light that a point adds to a ray, of a light in direction `to`.
    fn lit(&self, ray: &Ray, point: &Self::Point, light: usize, to: Vector) -> Vector;
    /// Returns the colour of a point, given the sum of its lights.
    fn own_colour(&self, point: &Self::Point, lights: Vector) -> Vector;
    /// Returns the share of a point's own colour, and the rays that go on from it, each with the
    /// share that it brings.
    fn further(&self, ray: &Ray, point: &Self::Point) -> (f64, FurtherRays);
    /// Returns the colour of a ray that meets nothing.
    fn background(&self, ray: &Ray) -> Vector;
}

/// Result of a search in a world; `None` where a part of it is missing.
pub type Found<T, W> = Result<Option<T>, <W as RayWorld>::Error>;

/// Rays that go on from a point, with their shares.
pub type FurtherRays = [Option<(Ray, f64)>; 2];

/// A ray that is followed.
#[derive(Debug)]
struct RayFrame<P> {
    ray: Ray,
    /// Share of what it brings.
    share: f64,
    colour: Vector,
    stage: RayStage<P>,
}

/// Step of a ray.
#[derive(Debug)]
enum RayStage<P> {
    /// The first point that it meets is searched.
    First,
    /// The light of the lights from this one on is searched.
    Lights(P, usize),
    /// These rays are still to be followed.
    Further(FurtherRays),
}

/// The walk of all rays of a pixel. It stops where a part of the world is missing, and goes on
/// there.
#[derive(Debug)]
pub struct PixelWalk<W: RayWorld + ?Sized> {
    /// Rays, each begun by the one before it.
    frames: Vec<RayFrame<W::Point>>,
    search: W::Search,
    /// Rays that may follow one another.
    deepest: usize,
}

impl<W: RayWorld> PixelWalk<W> {
    /// Creates a walk of up to `deepest` rays that follow one another, beside the first.
    pub fn new(deepest: usize) -> Self {
        Self { frames: Vec::new(), search: W::Search::default(), deepest }
    }

    /// Begins the walk of another pixel, once the one before has ended.
    pub fn begin(&mut self, ray: Ray) {
        debug_assert!(self.frames.is_empty(), "the walk before has ended");
        self.push(ray, 1.0);
    }

    fn push(&mut self, ray: Ray, share: f64) {
        self.frames.push(RayFrame { ray, share, colour: [0.0; 3], stage: RayStage::First });
    }

    /// Walks on. Returns the colour at the end, and `None` where a part is missing.
    ///
    /// # Errors
    /// Fails if a part of the world can never be had.
    pub fn advance(&mut self, world: &W) -> Found<Vector, W> {
        loop {
            let is_deepest = self.frames.len() > self.deepest;
            let Some(frame) = self.frames.last_mut() else {
                bug!("a walk has its first ray until it ends");
                return Ok(Some([0.0; 3]));
            };
            let mut ended = false;
            match &mut frame.stage {
                RayStage::First => match world.first(&frame.ray, &mut self.search)? {
                    None => return Ok(None),
                    Some(None) => (frame.colour, ended) = (world.background(&frame.ray), true),
                    Some(Some(point)) => {
                        frame.colour = world.ambient(&point);
                        frame.stage = RayStage::Lights(point, 0);
                    }
                },
                RayStage::Lights(point, light) if *light < world.lights() => {
                    if let Some((to, far)) = world.to_light(point, *light) {
                        match world.is_blocked(&to, far, &mut self.search)? {
                            None => return Ok(None),
                            Some(true) => {}
                            Some(false) => {
                                let more = world.lit(&frame.ray, point, *light, to.way);
                                add(&mut frame.colour, more, 1.0);
                            }
                        }
                    }
                    *light += 1;
                }
                RayStage::Lights(point, _) => {
                    frame.colour = world.own_colour(point, frame.colour);
                    let mut rest = [None; 2];
                    if !is_deepest {
                        let keep;
                        (keep, rest) = world.further(&frame.ray, point);
                        frame.colour = frame.colour.map(|part| part * keep);
                    }
                    frame.stage = RayStage::Further(rest);
                }
                RayStage::Further(rest) => match rest.iter_mut().find_map(Option::take) {
                    Some((ray, share)) => self.push(ray, share),
                    None => ended = true,
                },
            }
            if !ended {
                continue;
            }
            let Some(RayFrame { colour, share, .. }) = self.frames.pop() else { continue };
            match self.frames.last_mut() {
                Some(before) => add(&mut before.colour, colour, share),
                None => return Ok(Some(colour)),
            }
        }
    }
}

#[inline]
fn add(sum: &mut Vector, more: Vector, share: f64) {
    sum.iter_mut().zip(more).for_each(|(sum, part)| *sum += part * share);
}
