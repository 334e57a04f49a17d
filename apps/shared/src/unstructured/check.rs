//! The serial version, and the rules of meshes.

use crate::unstructured::delaunay::DelaunayMesh;
use crate::unstructured::edge_loops::StepSums;
use crate::unstructured::flow::{
    FIELDS, Quantities, first_quantities, flux, roughness, slope, squares, weight,
};
use crate::unstructured::predicates::inside_sphere;

/// Result of the serial version: quantities of points, and sums at the end of each step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerialFlow {
    /// Quantities of points, in their order.
    pub quantities: Vec<Quantities>,
    /// Sums at the end of each step.
    pub sums: Vec<StepSums>,
}

/// Returns the quantities of all points at first.
pub fn begin(mesh: &DelaunayMesh, seed: u64) -> Vec<Quantities> {
    let first = |(number, &point): (usize, &_)| first_quantities(seed, number, point);
    mesh.points().iter().enumerate().map(first).collect()
}

/// Runs the steps in the order of points.
pub fn run(mesh: &DelaunayMesh, seed: u64, steps: usize) -> SerialFlow {
    let (points, ends) = (mesh.points(), mesh.edges());
    let mut degrees = vec![0; points.len()];
    ends.iter().flatten().for_each(|&point| degrees[point as usize] += 1);
    let edge = |pair: &[u32; 2]| {
        let pair = pair.map(|point| point as usize);
        (pair, weight(pair.map(|point| points[point]), pair.map(|point| degrees[point])))
    };
    let edges: Vec<_> = ends.iter().map(edge).collect();
    let mut quantities = begin(mesh, seed);
    let mut sums = Vec::with_capacity(steps);
    for _ in 0..steps {
        let mut slopes = vec![0; points.len()];
        for &([a, b], weight) in &edges {
            let steep = slope(weight, &quantities[a], &quantities[b]);
            slopes[a] += steep;
            slopes[b] += steep;
        }
        let mut flows = vec![[0; FIELDS]; points.len()];
        for &([a, b], weight) in &edges {
            let gain = flux(weight, [slopes[a], slopes[b]], &quantities[a], &quantities[b]);
            for (field, gain) in gain.into_iter().enumerate() {
                flows[a][field] += gain;
                flows[b][field] -= gain;
            }
        }
        let parts = quantities.iter_mut().flatten().zip(flows.iter().flatten());
        parts.for_each(|(quantity, flow)| *quantity += flow);
        let rough = |&([a, b], weight): &([usize; 2], i64)| {
            roughness(weight, &quantities[a], &quantities[b])
        };
        sums.push([quantities.iter().map(squares).sum(), edges.iter().map(rough).sum()]);
    }
    SerialFlow { quantities, sums }
}

/// Returns how many quantities have another sum over all nodes than at first, and how many steps
/// made the sum of squares grow. Both are 0 where nothing is wrong.
pub fn unlawful(first: &[Quantities], last: &[Quantities], sums: &[StepSums]) -> u64 {
    let total = |of: &[Quantities], field: usize| of.iter().map(|node| node[field]).sum::<i64>();
    let changed = (0..FIELDS).filter(|&field| total(first, field) != total(last, field)).count();
    let before = std::iter::once(first.iter().map(squares).sum()).chain(sums.iter().map(|s| s[0]));
    let grown = before.zip(sums).filter(|(before, after)| after[0] > *before).count();
    (changed + grown) as u64
}

/// Counts of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshVerdict {
    /// Tetrahedra.
    pub tetrahedra: u64,
    /// Faces of the hull.
    pub hull: u64,
    /// Rules that the mesh breaks: 0 where nothing is wrong.
    pub wrong: u64,
}

/// Checks a mesh: Euler's relations for a ball and for its surface, and that no point lies inside
/// the sphere of any of about `sample` tetrahedra.
pub fn mesh(mesh: &DelaunayMesh, edges: usize, sample: usize) -> MeshVerdict {
    let corners: Vec<_> = mesh.inner().collect();
    let hull: Vec<_> = mesh.hull().collect();
    let mut on_hull: Vec<_> = hull.iter().flatten().collect();
    on_hull.sort_unstable();
    on_hull.dedup();
    let faces = (4 * corners.len() + hull.len()) / 2;
    let (points, tetrahedra) = (mesh.points(), corners.len());
    // Corners, less edges, plus faces, less tetrahedra: 1; a surface of triangles has 2 V - 4.
    let ball = points.len() + faces != edges + tetrahedra + 1;
    let surface = hull.len() + 4 != 2 * on_hull.len();
    let filled = |corners: &[u32; 4]| {
        let corners = corners.map(|corner| points[corner as usize]);
        points.iter().any(|&point| inside_sphere(corners, point))
    };
    let step = tetrahedra.div_ceil(sample.max(1)).max(1);
    let filled = corners.iter().step_by(step).filter(|corners| filled(corners)).count();
    MeshVerdict {
        tetrahedra: tetrahedra as u64,
        hull: hull.len() as u64,
        wrong: filled as u64 + u64::from(ball) + u64::from(surface),
    }
}

#[cfg(test)]
mod tests {
    use super::{begin, mesh, run, unlawful};
    use crate::unstructured::delaunay::DelaunayMesh;
    use crate::unstructured::flow::random_points;
    use crate::unstructured::predicates::{GridPoint, inside_sphere, orientation};

    /// Edges of all tetrahedra whose sphere has no point inside, by trying all of four points.
    fn edges_by_trying(points: &[GridPoint]) -> Vec<[u32; 2]> {
        let (count, mut edges) = (points.len(), Vec::new());
        let all = (0..count).flat_map(|d| (0..d).map(move |c| (c, d)));
        let all = all.flat_map(|(c, d)| (0..c).map(move |b| (b, c, d)));
        for (a, b, c, d) in all.flat_map(|(b, c, d)| (0..b).map(move |a| (a, b, c, d))) {
            let mut corners = [a, b, c, d].map(|at| points[at]);
            if orientation(corners[0], corners[1], corners[2], corners[3]) < 0 {
                corners.swap(0, 1);
            }
            if points.iter().all(|&point| !inside_sphere(corners, point)) {
                for (one, other) in [(a, b), (a, c), (a, d), (b, c), (b, d), (c, d)] {
                    edges.push([one as u32, other as u32]);
                }
            }
        }
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    #[test]
    fn meshes_have_the_edges_that_trying_all_tetrahedra_finds() {
        for (count, seed) in [(4, 1), (5, 2), (6, 3), (9, 4), (15, 5), (22, 6)] {
            let points = random_points(count, seed);
            let built = DelaunayMesh::of(points.clone()).unwrap();
            assert_eq!(built.edges(), edges_by_trying(&points), "{count} points of seed {seed}");
        }
    }

    #[test]
    fn meshes_of_random_points_and_of_lattices_keep_the_rules() {
        let lattice = |side: i32| {
            let at = move |n: i32| [n % side, n / side % side, n / side / side];
            (0..side.pow(3)).map(at).collect::<Vec<GridPoint>>()
        };
        for points in [random_points(600, 7), lattice(3), lattice(6)] {
            let count = points.len();
            let built = DelaunayMesh::of(points).unwrap();
            let verdict = mesh(&built, built.edges().len(), 200);
            assert_eq!(verdict.wrong, 0, "{count} points");
            assert!(verdict.tetrahedra > count as u64, "{verdict:?}");
            let volume = built.inner().map(|corners| {
                let [a, b, c, d] = corners.map(|corner| built.points()[corner as usize]);
                orientation(a, b, c, d)
            });
            let volume: Vec<_> = volume.collect();
            assert!(volume.iter().all(|&volume| volume > 0));
            if count == 216 {
                assert_eq!(volume.iter().sum::<i128>(), 6 * 125, "they fill the cube");
            }
        }
    }

    #[test]
    fn points_that_make_no_mesh_are_refused() {
        let flat: Vec<GridPoint> = (0..9).map(|at| [at % 3, at / 3, 5]).collect();
        let why = |points| DelaunayMesh::of(points).unwrap_err().to_string();
        assert_eq!(why(flat), "all points lie in a plane");
        assert_eq!(why(vec![[1, 2, 3]; 2]), "two points are equal");
        assert_eq!(why(vec![[1, 2, 3]]), "a mesh has 4 points at least");
    }

    #[test]
    fn flows_keep_sums_and_spread() {
        let built = DelaunayMesh::of(random_points(300, 2)).unwrap();
        let (first, flow) = (begin(&built, 2), run(&built, 2, 12));
        assert_eq!(unlawful(&first, &flow.quantities, &flow.sums), 0);
        let squares = flow.sums.iter().map(|sums| sums[0]);
        assert!(squares.clone().is_sorted_by(|before, after| before > after));
        let mut wrong = flow.quantities.clone();
        wrong[7][1] += 1;
        assert_eq!(unlawful(&first, &wrong, &flow.sums), 1);
    }
}
