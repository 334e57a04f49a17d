//! The octree of a scene: cells, and lists of the objects that reach into those that are not
//! divided.

use crate::rays::object::{ObjectShape, bounds};
use crate::rays::vector::Vector;
use std::collections::VecDeque;

/// A node: a cell has a word for each part, in the order of octants (first x, then y, then z); a
/// list has objects, their numbers plus one.
pub type OctreeNode = [u32; 8];

/// Bit of a word of a cell whose other bits are the number of a list; and of the last word of a
/// list that goes on at another.
pub const LIST: u32 = 1 << 31;
/// Objects that a part of a cell has without being divided.
const FEW: usize = 8;
/// Levels of cells.
pub const MAX_LEVELS: u32 = 16;
/// Objects of a list: each is looked at for each ray that crosses its part.
pub const MAX_LIST: usize = 1 << 16;
/// Room around a cell in which objects count as in it, as a share of the half of its side.
const SLACK: f64 = 1e-7;

/// Cube that a scene is in: its middle, and half of its side.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SceneCube {
    /// Middle.
    pub middle: Vector,
    /// Half of the side.
    pub half: f64,
}

impl SceneCube {
    /// Returns the cube around objects.
    pub fn around(shapes: &[ObjectShape]) -> Self {
        let (mut least, mut most) = ([f64::MAX; 3], [f64::MIN; 3]);
        for [low, high] in shapes.iter().map(bounds) {
            least = std::array::from_fn(|at| least[at].min(low[at]));
            most = std::array::from_fn(|at| most[at].max(high[at]));
        }
        let middle = std::array::from_fn(|at| (least[at] + most[at]) / 2.0);
        let side = (0..3).fold(0.0_f64, |side, at| side.max(most[at] - least[at]));
        Self { middle, half: (side / 2.0 * (1.0 + 1e-6)).max(f64::MIN_POSITIVE) }
    }

    /// Returns a part of the cube.
    #[inline]
    pub fn part(&self, octant: usize) -> Self {
        let half = self.half / 2.0;
        let side = |at: usize| if octant >> at & 1 == 1 { half } else { -half };
        Self { middle: std::array::from_fn(|at| self.middle[at] + side(at)), half }
    }

    fn holds(&self, [low, high]: &[Vector; 2]) -> bool {
        let reach = self.half * (1.0 + SLACK);
        (0..3).all(|at| low[at] <= self.middle[at] + reach && high[at] >= self.middle[at] - reach)
    }
}

/// A part of a cell that is still to be made: its cell, its octant, its cube, level and objects.
struct OpenPart {
    cell: usize,
    octant: usize,
    cube: SceneCube,
    level: u32,
    objects: Vec<u32>,
}

/// Makes the octree of objects; node 0 is the root. Cells are divided level by level, until there
/// are few objects in each, or as many entries in all lists as the number of objects allows.
pub fn build(shapes: &[ObjectShape], cube: SceneCube) -> Vec<OctreeNode> {
    debug_assert!(shapes.len() < LIST as usize, "a number fits into a word");
    let boxes: Vec<_> = shapes.iter().map(bounds).collect();
    let most = 8 * shapes.len() + 4096;
    let mut entries = shapes.len();
    let mut nodes = vec![[0; 8]];
    let mut open = VecDeque::new();
    let all: Vec<u32> = (0..shapes.len() as u32).collect();
    divide((0, cube, 0), &all, &boxes, &mut open);
    while let Some(OpenPart { cell, octant, cube, level, objects }) = open.pop_front() {
        let mut parts = VecDeque::new();
        if objects.len() > FEW && level < MAX_LEVELS && entries < most {
            divide((nodes.len(), cube, level), &objects, &boxes, &mut parts);
        }
        let divided: usize = parts.iter().map(|part| part.objects.len()).sum();
        // Where each part has nearly all objects, a division would help no ray.
        if parts.is_empty() || divided > 6 * objects.len() {
            nodes[cell][octant] = list(&mut nodes, &objects);
            continue;
        }
        entries += divided.saturating_sub(objects.len());
        nodes[cell][octant] = nodes.len() as u32;
        nodes.push([0; 8]);
        open.append(&mut parts);
    }
    nodes
}

/// Opens those parts of a cell that have objects.
fn divide(
    (cell, cube, level): (usize, SceneCube, u32),
    objects: &[u32],
    boxes: &[[Vector; 2]],
    open: &mut VecDeque<OpenPart>,
) {
    for octant in 0..8 {
        let cube = cube.part(octant);
        let here = objects.iter().copied().filter(|&object| cube.holds(&boxes[object as usize]));
        let objects: Vec<u32> = here.collect();
        if !objects.is_empty() {
            open.push_back(OpenPart { cell, octant, cube, level: level + 1, objects });
        }
    }
}

/// Makes the lists of objects, one behind the other, and returns the word for them.
fn list(nodes: &mut Vec<OctreeNode>, objects: &[u32]) -> u32 {
    let first = nodes.len() as u32 | LIST;
    let mut rest = objects;
    while !rest.is_empty() {
        let (these, behind) = rest.split_at(if rest.len() > 8 { 7 } else { rest.len() });
        let mut node = [0; 8];
        node.iter_mut().zip(these).for_each(|(word, object)| *word = object + 1);
        if !behind.is_empty() {
            node[7] = (nodes.len() as u32 + 1) | LIST;
        }
        nodes.push(node);
        rest = behind;
    }
    first
}

/// Returns the number of objects in the longest list: as many are looked at for a ray that crosses
/// its part.
pub fn longest_list(nodes: &[OctreeNode]) -> usize {
    let (mut open, mut longest) = (vec![0], 0);
    let node = |word: u32| nodes.get((word & !LIST) as usize).copied().unwrap_or_default();
    while let Some(cell) = open.pop() {
        for part in node(cell).into_iter().filter(|part| *part != 0) {
            if part & LIST == 0 {
                open.push(part);
                continue;
            }
            let (mut count, mut next) = (0, Some(part));
            while let Some(list) = next.map(node) {
                count += list.iter().filter(|word| **word != 0 && **word & LIST == 0).count();
                next = list.into_iter().find(|word| word & LIST != 0);
            }
            longest = longest.max(count);
        }
    }
    debug_assert!(longest < LIST as usize, "numbers of objects fit into words");
    longest
}

#[cfg(test)]
mod tests {
    use super::{LIST, OctreeNode, SceneCube, build, longest_list};
    use crate::rays::object::ball;
    use std::collections::BTreeSet;

    fn objects(nodes: &[OctreeNode], word: u32, found: &mut BTreeSet<u32>) {
        let node = nodes[(word & !LIST) as usize];
        for inner in node.into_iter().filter(|inner| *inner != 0) {
            if word & LIST == 0 || inner & LIST != 0 {
                objects(nodes, inner, found);
            } else {
                found.insert(inner - 1);
            }
        }
    }

    #[test]
    fn each_object_is_in_a_list_and_nodes_are_bounded() {
        for (count, same) in [(1, false), (9, false), (500, false), (500, true)] {
            let at = |number: usize| if same { 0.0 } else { number as f64 };
            let shapes: Vec<_> = (0..count)
                .map(|it| ball([at(it), at(it * it % 97), at(it * 7 % 31)], 1.0))
                .collect();
            let nodes = build(&shapes, SceneCube::around(&shapes));
            let mut found = BTreeSet::new();
            objects(&nodes, 0, &mut found);
            assert_eq!(found.len(), count);
            let longest = longest_list(&nodes);
            let together = if same { count..=count } else { 1..=60 };
            assert!(together.contains(&longest), "{longest} of {count}, {same}");
            assert!(nodes.len() < 20 * count + 4096, "{} nodes", nodes.len());
        }
    }
}
