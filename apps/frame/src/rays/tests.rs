//! Tests of scenes as a whole: the octree against all objects one by one, and walks through scenes
//! of which parts are missing now and then.

use crate::random::Random;
use crate::rays::generate::{field, flake};
use crate::rays::nff::read;
use crate::rays::object::{ObjectFinish, ObjectShape, meets};
use crate::rays::octree::OctreeNode;
use crate::rays::scene_world::{SceneHeader, SceneWorld, WholeScene};
use crate::rays::search::{ObjectSearch, SceneParts, SearchRange};
use crate::rays::tracer::PixelWalk;
use crate::rays::vector::{Ray, Vector, unit};
use std::cell::RefCell;
use std::convert::Infallible;

/// A scene of which a part is missing about every other time.
struct PatchyScene<'a>(&'a WholeScene, RefCell<Random>);

impl PatchyScene<'_> {
    fn sometimes<T>(&self, part: Result<Option<T>, Infallible>) -> Result<Option<T>, Infallible> {
        if self.1.borrow_mut().below(2) == 0 { Ok(None) } else { part }
    }
}

impl SceneParts for PatchyScene<'_> {
    type Error = Infallible;

    fn node(&self, number: usize) -> Result<Option<OctreeNode>, Infallible> {
        self.sometimes(self.0.node(number))
    }

    fn with_shape<R>(
        &self,
        number: usize,
        run: impl FnOnce(&ObjectShape) -> R,
    ) -> Result<Option<R>, Infallible> {
        self.sometimes(self.0.with_shape(number, run))
    }

    fn finish(&self, number: usize) -> Result<Option<ObjectFinish>, Infallible> {
        self.sometimes(self.0.finish(number))
    }
}

fn scenes() -> [WholeScene; 2] {
    [flake(300, (24, 20)), field(200, 5, (24, 20))].map(|text| read(&text).unwrap().scene)
}

fn picture(scene: &WholeScene, parts: &impl SceneParts<Error = Infallible>) -> Vec<Vector> {
    let frame = scene.header.view.frame().unwrap();
    let world = SceneWorld::new(&scene.header, parts);
    let mut walk = PixelWalk::new(5);
    let (columns, rows) = frame.size();
    let trace = |pixel: usize| {
        walk.begin(frame.ray(pixel));
        loop {
            let Ok(light) = walk.advance(&world);
            if let Some(light) = light {
                return light;
            }
        }
    };
    (0..columns * rows).map(trace).collect()
}

#[test]
fn missing_parts_do_not_change_a_picture() {
    for scene in scenes() {
        let whole = picture(&scene, &scene);
        let patchy = PatchyScene(&scene, RefCell::new(Random::from(1, 0)));
        assert!(whole == picture(&scene, &patchy));
        let colours = whole.iter().flatten().filter(|part| **part > 0.0).count();
        assert!(colours > whole.len(), "a picture that is not black");
    }
}

#[test]
fn the_octree_finds_what_all_objects_one_by_one_have() {
    for scene in scenes() {
        let (mut random, mut met) = (Random::from(3, 0), 0);
        let (cube, range) =
            (scene.header.cube, SearchRange { near: 1e-7, far: f64::INFINITY, any: false });
        let mut search = ObjectSearch::default();
        for turn in 0..2000 {
            let mut place = || -> Vector {
                std::array::from_fn(|at| cube.middle[at] + cube.half * (2.0 * random.share() - 1.0))
            };
            let (from, to) = (place(), place());
            let mut way = unit(std::array::from_fn(|at| to[at] - from[at]));
            if turn % 4 == 0 {
                // Along an axis.
                way = std::array::from_fn(|at| if at == turn / 4 % 3 { -1.0 } else { 0.0 });
            }
            let ray = Ray { from, way };
            let each = scene.shapes.iter().filter_map(|shape| meets(shape, &ray, range.near));
            let nearest = each.map(|hit| hit.far).fold(f64::INFINITY, f64::min);
            let Ok(found) = search.advance(&scene, cube, &ray, range);
            let found = found.flatten().map_or(f64::INFINITY, |(_, _, hit)| hit.far);
            assert_eq!(found, nearest, "{ray:?}");
            met += usize::from(found < f64::INFINITY);
            let Ok(any) = search.advance(&scene, cube, &ray, SearchRange { any: true, ..range });
            assert_eq!(any.flatten().is_some(), nearest < f64::INFINITY);
        }
        assert!(met > 300, "{met} rays met something");
    }
}

#[test]
fn a_head_is_the_one_that_was_sent() {
    for scene in scenes() {
        let numbers = scene.header.to_numbers();
        assert_eq!(SceneHeader::from_numbers(&numbers), Some(scene.header));
        assert_eq!(SceneHeader::from_numbers(&numbers[..5]), None);
    }
}
