//! Delaunay mesh of points in space, built point by point (Bowyer 1981, Watson 1981).

use crate::unstructured::predicates::{COORDINATE_BITS, GridPoint, inside_sphere, orientation};
use anyhow::{Result, ensure};

/// The corner of tetrahedra outside: a point that lies beyond every face of the hull.
pub const OUTSIDE: u32 = u32::MAX;
/// No tetrahedron.
const NONE: u32 = u32::MAX;

/// Four corners, in an order of [`orientation`] above 0, and the tetrahedron behind the face
/// opposite each.
#[derive(Debug, Clone, Copy)]
struct Tetrahedron {
    corners: [u32; 4],
    behind: [u32; 4],
}

impl Tetrahedron {
    /// Returns which corner is [`OUTSIDE`], if one is.
    fn outside(&self) -> Option<usize> {
        self.corners.iter().position(|&corner| corner == OUTSIDE)
    }
}

/// A mesh of tetrahedra that fill the hull of points. No point lies inside the sphere through the
/// corners of any. Faces of the hull have a tetrahedron outside, whose fourth corner is
/// [`OUTSIDE`].
#[derive(Debug)]
pub struct DelaunayMesh {
    points: Vec<GridPoint>,
    tetrahedra: Vec<Tetrahedron>,
    /// Places of tetrahedra that were removed.
    free: Vec<u32>,
    /// Insertion that each tetrahedron was last found to be in the way of, or not: its number
    /// twice, and 1 more if it was.
    marks: Vec<u64>,
    insertions: u64,
    /// A tetrahedron of the last insertion, where the search for the next begins.
    newest: u32,
}

/// Face of a hole in the mesh: the new tetrahedron before it, and which of its corners is new.
struct HoleFace {
    tetrahedron: u32,
    new: usize,
}

impl DelaunayMesh {
    /// Builds the mesh of points.
    ///
    /// # Errors
    /// Fails if two points are equal, or if all lie in a plane.
    pub fn of(points: Vec<GridPoint>) -> Result<Self> {
        let mut sorted = points.clone();
        sorted.sort_unstable();
        ensure!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "two points are equal");
        let order = insertion_order(&points);
        let mut mesh = Self {
            points,
            tetrahedra: Vec::new(),
            free: Vec::new(),
            marks: Vec::new(),
            insertions: 0,
            newest: 0,
        };
        let first = mesh.begin(&order)?;
        for point in order.into_iter().filter(|point| !first.contains(point)) {
            mesh.insert(point);
        }
        Ok(mesh)
    }

    /// Returns the points.
    pub fn points(&self) -> &[GridPoint] {
        &self.points
    }

    fn point(&self, number: u32) -> GridPoint {
        self.points[number as usize]
    }

    /// Makes the first tetrahedron, of the first points in order that lie in no plane, and those
    /// outside its faces; returns its corners.
    fn begin(&mut self, order: &[u32]) -> Result<[u32; 4]> {
        let sign = |corners: [u32; 4]| {
            let [a, b, c, d] = corners.map(|corner| self.point(corner));
            orientation(a, b, c, d)
        };
        let fourth = |[a, b, c]: [u32; 3]| order.iter().find(|&&d| sign([a, b, c, d]) != 0);
        // Any two points are on a line; the third must leave it, or no fourth would do.
        let [a, b, ..] = *order else { anyhow::bail!("a mesh has 4 points at least") };
        let base = order[2..].iter().find_map(|&c| Some([a, b, c, *fourth([a, b, c])?]));
        let Some(mut corners) = base else { anyhow::bail!("all points lie in a plane") };
        if sign(corners) < 0 {
            corners.swap(0, 1);
        }
        self.tetrahedra.push(Tetrahedron { corners, behind: [1, 2, 3, 4] });
        for at in 0..4 {
            // Seen from outside, the corners of a face turn the other way.
            let mut outside = corners;
            outside[at] = OUTSIDE;
            let (one, other) = ((at + 1) % 4, (at + 2) % 4);
            outside.swap(one, other);
            let mut behind: [u32; 4] = std::array::from_fn(|face| {
                // The face opposite a corner of two that were swapped lies at the other's edge.
                let away = if face == one {
                    other
                } else if face == other {
                    one
                } else {
                    face
                };
                away as u32 + 1
            });
            behind[at] = 0;
            self.tetrahedra.push(Tetrahedron { corners: outside, behind });
        }
        self.marks = vec![0; 5];
        Ok(corners)
    }

    /// Returns the volume of a tetrahedron with a point in place of one of its corners, six times:
    /// below 0 if the point lies beyond the face opposite the corner.
    fn volume_with(&self, tetrahedron: &Tetrahedron, face: usize, point: GridPoint) -> i128 {
        let others =
            |at: usize| if at == face { point } else { self.point(tetrahedron.corners[at]) };
        let [a, b, c, d] = std::array::from_fn(others);
        orientation(a, b, c, d)
    }

    /// Finds a tetrahedron that a point lies in, or one outside a face that the point is beyond, by
    /// walking towards it. Walks end, because no point is inside a sphere (Edelsbrunner 1990).
    fn locate(&self, point: GridPoint) -> u32 {
        let mut at = self.newest;
        loop {
            let tetrahedron = &self.tetrahedra[at as usize];
            let volume = |face: usize| self.volume_with(tetrahedron, face, point);
            let next = match tetrahedron.outside() {
                Some(face) if volume(face) > 0 => None,
                // Not beyond this face of the hull: the walk goes in through it.
                Some(face) => Some(face),
                None => (0..4).find(|&face| volume(face) < 0),
            };
            match next {
                Some(face) => at = tetrahedron.behind[face],
                None => return at,
            }
        }
    }

    /// Returns true if a point lies inside the sphere of a tetrahedron. That of one outside is all
    /// space beyond its face, and the circle around the face: where the sphere of the tetrahedron
    /// behind the face meets its plane.
    fn in_the_way(&self, number: u32, point: GridPoint) -> bool {
        let tetrahedron = &self.tetrahedra[number as usize];
        let sphere = |of: &Tetrahedron| inside_sphere(of.corners.map(|at| self.point(at)), point);
        let Some(face) = tetrahedron.outside() else { return sphere(tetrahedron) };
        match self.volume_with(tetrahedron, face, point) {
            0 => sphere(&self.tetrahedra[tetrahedron.behind[face] as usize]),
            volume => volume > 0,
        }
    }

    /// Returns true if a tetrahedron is in the way of the point that is being inserted, which is
    /// found out once.
    fn marked(&mut self, number: u32, point: GridPoint) -> bool {
        let known = self.marks[number as usize];
        if known >> 1 != self.insertions {
            let found = self.in_the_way(number, point);
            self.marks[number as usize] = self.insertions << 1 | u64::from(found);
        }
        self.marks[number as usize] & 1 == 1
    }

    /// Inserts a point: removes all tetrahedra whose sphere it lies inside, and joins it with the
    /// faces of the hole.
    ///
    /// The point sees every face of the hole from inside, strictly: where the sphere of one
    /// tetrahedron reaches beyond its face, or to the face's plane, that of its neighbour contains
    /// it. Points on a sphere are not inside it, so this holds for any points.
    fn insert(&mut self, number: u32) {
        let point = self.point(number);
        self.insertions += 1;
        let first = self.locate(point);
        let is_in_the_way = self.marked(first, point);
        debug_assert!(is_in_the_way, "a point lies inside the sphere of what it lies in");
        let mut hole = vec![first];
        let mut faces = Vec::new();
        let mut next = 0;
        while let Some(&removed) = hole.get(next) {
            next += 1;
            let Tetrahedron { corners, behind } = self.tetrahedra[removed as usize];
            for (face, other) in behind.into_iter().enumerate() {
                let known = self.marks[other as usize] >> 1 == self.insertions;
                match (known, self.marked(other, point)) {
                    (true, true) => {}
                    (false, true) => hole.push(other),
                    (_, false) => faces.push((removed, corners, face, other)),
                }
            }
        }
        let mut joined = Vec::with_capacity(faces.len());
        for (removed, mut corners, face, other) in faces {
            corners[face] = number;
            let mut behind = [NONE; 4];
            behind[face] = other;
            let tetrahedron = self.add(Tetrahedron { corners, behind });
            let back = &mut self.tetrahedra[other as usize];
            let way = back.behind.iter_mut().find(|way| **way == removed);
            debug_assert!(way.is_some(), "neighbours are each other's");
            if let Some(way) = way {
                *way = tetrahedron;
            }
            joined.push(HoleFace { tetrahedron, new: face });
        }
        self.join(&joined);
        self.newest = joined.last().map_or(self.newest, |face| face.tetrahedron);
        self.free.extend(hole);
    }

    /// Stores a tetrahedron in a free place.
    fn add(&mut self, tetrahedron: Tetrahedron) -> u32 {
        if let Some(place) = self.free.pop() {
            self.tetrahedra[place as usize] = tetrahedron;
            self.marks[place as usize] = 0;
            return place;
        }
        self.tetrahedra.push(tetrahedron);
        self.marks.push(0);
        (self.tetrahedra.len() - 1) as u32
    }

    /// Makes new tetrahedra neighbours that share an edge of the hole's surface.
    fn join(&mut self, faces: &[HoleFace]) {
        let mut edges = Vec::with_capacity(3 * faces.len());
        for &HoleFace { tetrahedron, new } in faces {
            let corners = self.tetrahedra[tetrahedron as usize].corners;
            for opposite in (0..4).filter(|&opposite| opposite != new) {
                let [one, other]: [u32; 2] = edge(corners, new, opposite);
                edges.push((one.min(other), one.max(other), tetrahedron, opposite));
            }
        }
        edges.sort_unstable();
        debug_assert!(edges.len().is_multiple_of(2), "the surface is closed");
        for pair in edges.as_chunks().0 {
            let [(a, b, one, face), (c, d, other, opposite)] = *pair;
            debug_assert_eq!((a, b), (c, d), "each edge of the surface has two faces");
            self.tetrahedra[one as usize].behind[face] = other;
            self.tetrahedra[other as usize].behind[opposite] = one;
        }
    }

    /// Returns the tetrahedra that exist: four corners each, and those behind their faces.
    fn all(&self) -> impl Iterator<Item = &Tetrahedron> {
        let mut exists = vec![true; self.tetrahedra.len()];
        self.free.iter().for_each(|&place| exists[place as usize] = false);
        self.tetrahedra.iter().zip(exists).filter_map(|(one, exists)| exists.then_some(one))
    }

    /// Returns the corners of all tetrahedra inside the hull.
    pub fn inner(&self) -> impl Iterator<Item = [u32; 4]> {
        let corners = self.all().map(|tetrahedron| tetrahedron.corners);
        corners.filter(|corners| !corners.contains(&OUTSIDE))
    }

    /// Returns the corners of all faces of the hull.
    pub fn hull(&self) -> impl Iterator<Item = [u32; 3]> {
        self.all().filter_map(|tetrahedron| {
            let at = tetrahedron.outside()?;
            Some(std::array::from_fn(|face| tetrahedron.corners[(at + 1 + face) % 4]))
        })
    }

    /// Returns the edges, each once: its smaller end first, in order.
    pub fn edges(&self) -> Vec<[u32; 2]> {
        let pairs = |corners: [u32; 4]| {
            let pair = move |other: usize, one: usize| {
                [corners[one].min(corners[other]), corners[one].max(corners[other])]
            };
            (1..4).flat_map(move |other| (0..other).map(move |one| pair(other, one)))
        };
        let mut edges: Vec<_> = self.inner().flat_map(pairs).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}

/// Returns the two corners that are neither of two others.
fn edge(corners: [u32; 4], one: usize, other: usize) -> [u32; 2] {
    let mut left = (0..4).filter(|&at| at != one && at != other).map(|at| corners[at]);
    std::array::from_fn(|_| left.next().unwrap_or(OUTSIDE))
}

/// Returns points in an order that keeps searches short: in rounds of twice as many, each along a
/// curve through all space (Amenta, Choi and Rote 2003). Points are in no order themselves.
fn insertion_order(points: &[GridPoint]) -> Vec<u32> {
    let along = |&point: &u32| {
        let parts = points[point as usize];
        let bit = |at: u32| u64::from(parts[at as usize % 3] as u32 >> (at / 3) & 1) << at;
        (0..3 * COORDINATE_BITS).map(bit).sum::<u64>()
    };
    let mut order: Vec<_> = (0..points.len() as u32).collect();
    let mut from = 0;
    while from < order.len() {
        let to = order.len().min(2 * from + 64);
        order[from..to].sort_by_cached_key(along);
        from = to;
    }
    order
}
