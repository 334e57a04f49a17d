//! The search for the first object that a ray meets, through an octree of which parts may be
//! missing: it goes on where it stopped.

use crate::rays::object::{ObjectFinish, ObjectHit, ObjectShape, meets};
use crate::rays::octree::{LIST, OctreeNode, SceneCube};
use crate::rays::vector::Ray;

/// Parts of a scene, in any memory. `None`: it is missing for now.
pub trait SceneParts {
    /// Reason for which a part can never be had.
    type Error;

    /// Returns a node of the octree.
    ///
    /// # Errors
    /// Fails if it can never be had.
    fn node(&self, number: usize) -> Result<Option<OctreeNode>, Self::Error>;
    /// Runs `run` on the shape of an object, where that is: most rays miss most objects, so a copy
    /// of each would cost more than the search.
    ///
    /// # Errors
    /// Fails if it can never be had.
    fn with_shape<R>(
        &self,
        number: usize,
        run: impl FnOnce(&ObjectShape) -> R,
    ) -> Result<Option<R>, Self::Error>;
    /// Returns the finish of an object.
    ///
    /// # Errors
    /// Fails if it can never be had.
    fn finish(&self, number: usize) -> Result<Option<ObjectFinish>, Self::Error>;
}

/// Object that a ray has met: its number, its shape, and where.
pub type FoundObject = (usize, ObjectShape, ObjectHit);

/// A part of a cell that the ray goes through: its word, its cube, and the distances at which the
/// ray enters and leaves it.
#[derive(Debug, Clone, Copy)]
struct CrossedPart {
    word: u32,
    cube: SceneCube,
    enters: f64,
    leaves: f64,
}

/// A search that was stopped.
#[derive(Debug, Default)]
pub struct ObjectSearch {
    is_begun: bool,
    /// Parts still to be searched, the nearest last.
    open: Vec<CrossedPart>,
    /// A list that is searched, and the next of its words.
    list: Option<(OctreeNode, usize)>,
    best: Option<FoundObject>,
}

/// Distances between which something counts as met, and true if any object will do.
#[derive(Debug, Clone, Copy)]
pub struct SearchRange {
    /// Objects nearer than this are not met.
    pub near: f64,
    /// Objects farther than this are not met.
    pub far: f64,
    /// True if the search ends with any object.
    pub any: bool,
}

impl ObjectSearch {
    /// Searches on. Returns the first object at the end, if there is one, and is empty again.
    ///
    /// # Errors
    /// Fails if a part of the scene can never be had.
    pub fn advance<S: SceneParts>(
        &mut self,
        scene: &S,
        cube: SceneCube,
        ray: &Ray,
        range: SearchRange,
    ) -> Result<Option<Option<FoundObject>>, S::Error> {
        if !self.is_begun {
            self.is_begun = true;
            self.open.extend(crossing(cube, ray));
        }
        loop {
            if let Some((list, next)) = &mut self.list {
                let word = list.get(*next).copied().unwrap_or(0);
                if word & LIST != 0 {
                    let Some(more) = scene.node((word & !LIST) as usize)? else { return Ok(None) };
                    (*list, *next) = (more, 0);
                } else if word == 0 {
                    self.list = None;
                } else {
                    let object = word as usize - 1;
                    let best = &mut self.best;
                    let far = best.as_ref().map_or(range.far, |(_, _, hit)| hit.far);
                    let is_met = scene.with_shape(object, |shape| {
                        let hit = meets(shape, ray, range.near).filter(|hit| hit.far < far);
                        hit.map(|hit| *best = Some((object, *shape, hit))).is_some()
                    })?;
                    let Some(is_met) = is_met else { return Ok(None) };
                    *next += 1;
                    if is_met && range.any {
                        return Ok(Some(self.end()));
                    }
                }
                continue;
            }
            let best = self.best.as_ref().map_or(range.far, |(_, _, hit)| hit.far);
            let Some(part) = self.open.last().copied().filter(|part| part.enters <= best) else {
                return Ok(Some(self.end()));
            };
            let Some(node) = scene.node((part.word & !LIST) as usize)? else { return Ok(None) };
            self.open.pop();
            if part.word & LIST != 0 {
                self.list = Some((node, 0));
            } else {
                self.open_cell(&node, &part, ray);
            }
        }
    }

    /// Empties the search, and returns what it has found.
    fn end(&mut self) -> Option<FoundObject> {
        self.open.clear();
        (self.list, self.is_begun) = (None, false);
        self.best.take()
    }

    /// Opens those parts of a cell that the ray crosses, four at most, in the order in which it
    /// does.
    fn open_cell(&mut self, node: &OctreeNode, cell: &CrossedPart, ray: &Ray) {
        let begin = self.open.len();
        let (mut octant, mut crosses) = (0, [f64::INFINITY; 3]);
        for (at, crosses) in crosses.iter_mut().enumerate() {
            let (from, way, middle) = (ray.from[at], ray.way[at], cell.cube.middle[at]);
            let distance = (middle - from) / way;
            let is_above = if way == 0.0 {
                from >= middle
            } else if distance > cell.enters {
                *crosses = distance;
                way < 0.0
            } else {
                way > 0.0
            };
            octant |= usize::from(is_above) << at;
        }
        let mut enters = cell.enters;
        loop {
            let nearer =
                |best: usize, at: usize| if crosses[at] < crosses[best] { at } else { best };
            let next = nearer(nearer(0, 1), 2);
            let leaves = crosses[next].min(cell.leaves);
            if node[octant] != 0 {
                let (word, cube) = (node[octant], cell.cube.part(octant));
                self.open.push(CrossedPart { word, cube, enters, leaves });
            }
            if crosses[next] >= cell.leaves {
                break;
            }
            octant ^= 1 << next;
            enters = crosses[next];
            crosses[next] = f64::INFINITY;
        }
        self.open[begin..].reverse();
    }
}

/// Returns the root of the octree, if the ray crosses it.
fn crossing(cube: SceneCube, ray: &Ray) -> Option<CrossedPart> {
    let (mut enters, mut leaves) = (0.0_f64, f64::INFINITY);
    for at in 0..3 {
        let (from, way) = (ray.from[at] - cube.middle[at], ray.way[at]);
        if way == 0.0 {
            if from.abs() > cube.half {
                return None;
            }
            continue;
        }
        let (a, b) = ((-cube.half - from) / way, (cube.half - from) / way);
        (enters, leaves) = (enters.max(a.min(b)), leaves.min(a.max(b)));
    }
    (enters <= leaves).then_some(CrossedPart { word: 0, cube, enters, leaves })
}
