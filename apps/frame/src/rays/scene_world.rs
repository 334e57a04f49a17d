//! The world of a scene file: its objects, in any memory, and its lights.
//!
//! A surface scatters the light of lights (Lambert), mirrors them (Phong), and mirrors and passes
//! on what rays that go on from it bring. Any object between a point and a light is a shadow.

use crate::rays::object::{self, ObjectFinish, ObjectHit, ObjectShape, Surface, normals, surface};
use crate::rays::octree::{self, OctreeNode, SceneCube};
use crate::rays::search::{FoundObject, ObjectSearch, SceneParts, SearchRange};
use crate::rays::tracer::{Found, FurtherRays, RayWorld};
use crate::rays::vector::{Ray, Vector, along, dot, minus, unit};
use crate::rays::view::View;
use clump_bug::bug;
use std::convert::Infallible;

/// Distance that a ray goes before it meets anything, as a share of half the cube's side.
const NEAR: f64 = 1e-7;
/// Numbers of a view, a background and a cube.
const FIXED: usize = 20;

/// A light at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SceneLight {
    /// Place.
    pub at: Vector,
    /// Colour, as bright as it is.
    pub colour: Vector,
}

/// Head of a scene, which all ranks have: all but its objects and their octree.
#[derive(Debug, Clone, PartialEq)]
pub struct SceneHeader {
    /// The eye.
    pub view: View,
    /// Colour of rays that meet nothing.
    pub background: Vector,
    /// Lights.
    pub lights: Vec<SceneLight>,
    /// Cube that all objects are in.
    pub cube: SceneCube,
}

/// A scene in private memory.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeScene {
    /// Its head.
    pub header: SceneHeader,
    /// Its octree.
    pub nodes: Vec<OctreeNode>,
    /// Its objects.
    pub shapes: Vec<ObjectShape>,
    /// Their surfaces.
    pub finishes: Vec<ObjectFinish>,
}

/// The world of a scene whose parts are in some memory.
#[derive(Debug)]
pub struct SceneWorld<'a, S> {
    header: &'a SceneHeader,
    parts: &'a S,
}

/// A point of an object.
#[derive(Debug)]
pub struct ScenePoint {
    at: Vector,
    /// Normals on the side that the ray comes from: of the shape, and of its light.
    flat: Vector,
    normal: Vector,
    /// True if the ray comes from inside.
    is_inside: bool,
    surface: Surface,
}

/// A search for a point: its object, and, once that is known, its surface.
#[derive(Debug, Default)]
pub struct PointSearch {
    object: ObjectSearch,
    found: Option<FoundObject>,
}

impl SceneHeader {
    /// Returns the numbers that it consists of, to be sent.
    pub fn to_numbers(&self) -> Vec<f64> {
        let View { from, at, up, angle, hither, size } = self.view;
        let SceneCube { middle, half } = self.cube;
        let mut numbers = [from, at, up, self.background, middle].as_flattened().to_vec();
        numbers.extend([angle, hither, size.0 as f64, size.1 as f64, half]);
        debug_assert_eq!(numbers.len(), FIXED, "lights follow");
        numbers.extend(self.lights.iter().flat_map(|it| [it.at, it.colour]).flatten());
        numbers
    }

    /// Returns the head that consists of these numbers; `None` if none does.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (fixed, lights) = numbers.split_at_checked(FIXED)?;
        let three = |at: usize| [fixed[at], fixed[at + 1], fixed[at + 2]];
        let size = (fixed[17] as usize, fixed[18] as usize);
        let (angle, hither) = (fixed[15], fixed[16]);
        let view = View { from: three(0), at: three(3), up: three(6), angle, hither, size };
        let light =
            |it: &[f64]| SceneLight { at: [it[0], it[1], it[2]], colour: [it[3], it[4], it[5]] };
        Some(Self {
            view,
            background: three(9),
            lights: lights.chunks_exact(6).map(light).collect(),
            cube: SceneCube { middle: three(12), half: fixed[19] },
        })
    }
}

impl WholeScene {
    /// Makes a scene of its objects.
    pub fn new(mut header: SceneHeader, objects: Vec<(ObjectShape, ObjectFinish)>) -> Self {
        let (shapes, finishes): (Vec<_>, Vec<_>) = objects.into_iter().unzip();
        header.cube = SceneCube::around(&shapes);
        let nodes = octree::build(&shapes, header.cube);
        Self { header, nodes, shapes, finishes }
    }
}

impl SceneParts for WholeScene {
    type Error = Infallible;

    #[inline]
    fn node(&self, number: usize) -> Result<Option<OctreeNode>, Infallible> {
        Ok(self.nodes.get(number).copied())
    }

    #[inline]
    fn with_shape<R>(
        &self,
        number: usize,
        run: impl FnOnce(&ObjectShape) -> R,
    ) -> Result<Option<R>, Infallible> {
        Ok(self.shapes.get(number).map(run))
    }

    #[inline]
    fn finish(&self, number: usize) -> Result<Option<ObjectFinish>, Infallible> {
        Ok(self.finishes.get(number).copied())
    }
}

impl<'a, S: SceneParts> SceneWorld<'a, S> {
    /// Creates the world of a scene.
    pub fn new(header: &'a SceneHeader, parts: &'a S) -> Self {
        Self { header, parts }
    }

    fn range(&self, far: f64, any: bool) -> SearchRange {
        SearchRange { near: NEAR * self.header.cube.half, far, any }
    }
}

/// Returns the point where a ray has met an object.
fn point(ray: &Ray, shape: &ObjectShape, finish: &ObjectFinish, hit: &ObjectHit) -> ScenePoint {
    let at = along(ray.from, hit.far, ray.way);
    let [flat, normal] = normals(shape, finish, at, hit);
    let is_inside = dot(ray.way, flat) > 0.0;
    let turn = |normal: Vector| if is_inside { normal.map(|part| -part) } else { normal };
    let (flat, normal) = (turn(flat), turn(normal));
    ScenePoint { at, flat, normal, is_inside, surface: surface(finish) }
}

/// Returns the direction in which a ray is mirrored.
fn mirrored(way: Vector, normal: Vector) -> Vector {
    unit(along(way, -2.0 * dot(way, normal), normal))
}

/// Returns the direction in which a ray goes on behind a surface (Snell); where it cannot, the one
/// in which it is mirrored.
fn refracted(way: Vector, point: &ScenePoint) -> Vector {
    let index = point.surface.refraction;
    let ratio = if point.is_inside { index } else { 1.0 / index };
    let cosine = -dot(way, point.normal);
    let square = 1.0 - ratio * ratio * (1.0 - cosine * cosine);
    if square < 0.0 {
        return mirrored(way, point.normal);
    }
    let bent = way.map(|part| part * ratio);
    unit(along(bent, ratio * cosine - square.sqrt(), point.normal))
}

impl<S: SceneParts> RayWorld for SceneWorld<'_, S> {
    type Error = S::Error;
    type Search = PointSearch;
    type Point = ScenePoint;

    fn first(&self, ray: &Ray, search: &mut PointSearch) -> Found<Option<ScenePoint>, Self> {
        if search.found.is_none() {
            let (cube, range) = (self.header.cube, self.range(f64::INFINITY, false));
            match search.object.advance(self.parts, cube, ray, range)? {
                None => return Ok(None),
                Some(None) => return Ok(Some(None)),
                Some(found) => search.found = found,
            }
        }
        let Some((object, shape, hit)) = &search.found else { return Ok(Some(None)) };
        let Some(finish) = self.parts.finish(*object)? else { return Ok(None) };
        let point = point(ray, shape, &finish, hit);
        search.found = None;
        Ok(Some(Some(point)))
    }

    fn is_blocked(&self, ray: &Ray, far: f64, search: &mut PointSearch) -> Found<bool, Self> {
        let range = self.range(far, true);
        let found = search.object.advance(self.parts, self.header.cube, ray, range)?;
        Ok(found.map(|found| found.is_some()))
    }

    fn lights(&self) -> usize {
        self.header.lights.len()
    }

    fn to_light(&self, point: &ScenePoint, light: usize) -> Option<(Ray, f64)> {
        let to = minus(self.header.lights.get(light)?.at, point.at);
        let far = dot(to, to).sqrt();
        let way = to.map(|part| part / far);
        let is_turned = dot(point.flat, way) > 0.0 && dot(point.normal, way) > 0.0;
        is_turned.then_some((Ray { from: point.at, way }, far))
    }

    fn ambient(&self, _: &ScenePoint) -> Vector {
        [0.0; 3]
    }

    fn lit(&self, ray: &Ray, point: &ScenePoint, light: usize, to: Vector) -> Vector {
        let Some(light) = self.header.lights.get(light) else {
            bug!("the lights of a scene are counted");
            return [0.0; 3];
        };
        let Surface { colour, diffuse, specular, shine, .. } = point.surface;
        let scattered = diffuse * dot(point.normal, to);
        let straight = dot(mirrored(ray.way, point.normal), to);
        let mut highlight = 0.0;
        if specular > 0.0 && straight > 0.0 {
            highlight = specular * straight.powf(shine);
        }
        std::array::from_fn(|at| (colour[at] * scattered + highlight) * light.colour[at])
    }

    fn own_colour(&self, _: &ScenePoint, lights: Vector) -> Vector {
        lights
    }

    fn further(&self, ray: &Ray, point: &ScenePoint) -> (f64, FurtherRays) {
        let object::Surface { specular, transmitted, .. } = point.surface;
        let back = (specular > 0.0)
            .then(|| (Ray { from: point.at, way: mirrored(ray.way, point.normal) }, specular));
        let on = (transmitted > 0.0)
            .then(|| (Ray { from: point.at, way: refracted(ray.way, point) }, transmitted));
        (1.0, [back, on])
    }

    fn background(&self, _: &Ray) -> Vector {
        self.header.background
    }
}
