//! Graphs: lattices, of whose edges a share exists, and lists of edges in files.

use anyhow::{Context, Result, bail};
use clump_app_frame::random::Random;
use std::ops::Range;
use std::path::Path;

/// Edges of a graph.
#[derive(Debug, Clone)]
pub enum EdgeSource {
    /// A lattice.
    Lattice(Lattice),
    /// Edges of a file, the lower vertex first, in order.
    List {
        /// Number of vertices.
        vertices: u64,
        /// The edges.
        edges: Vec<(u64, u64)>,
    },
}

/// A lattice of two or three dimensions. Whether an edge exists is a function of its number.
#[derive(Debug, Clone, Copy)]
pub struct Lattice {
    /// Vertices in each direction; the last is 1 in two dimensions.
    pub sides: [u64; 3],
    /// Share of the edges that exist, in percent.
    pub percent: u64,
    /// Seed of that.
    pub seed: u64,
}

/// Most vertices of a list.
const MAX_VERTICES: u64 = 1 << 36;

impl EdgeSource {
    /// Reads a list of edges: two numbers of vertices in each line, separated by spaces. Lines that
    /// begin with `#`, and empty ones, are left out.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has a line of another kind.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
        let (mut edges, mut vertices) = (Vec::new(), 0);
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed: Option<Vec<u64>> =
                line.split_whitespace().map(|word| word.parse().ok()).collect();
            let Some(&[a, b]) = parsed.as_deref() else {
                bail!("{name}, line {number}: an edge is two numbers of vertices");
            };
            let last = a.max(b);
            if last >= MAX_VERTICES {
                bail!("{name}, line {number}: vertex {last} is beyond the most, {MAX_VERTICES}");
            }
            vertices = vertices.max(last + 1);
            edges.push((a.min(b), last));
        }
        edges.sort_unstable();
        Ok(Self::List { vertices, edges })
    }

    /// Returns the number of vertices.
    pub fn vertices(&self) -> u64 {
        match self {
            Self::Lattice(lattice) => lattice.sides.iter().product(),
            Self::List { vertices, .. } => *vertices,
        }
    }

    /// Calls `visit` for each edge whose lower vertex is one of these, with that first.
    pub fn visit(&self, lower: Range<u64>, mut visit: impl FnMut(u64, u64)) {
        match self {
            Self::Lattice(lattice) => lattice.visit(lower, visit),
            Self::List { edges, .. } => {
                let first = edges.partition_point(|edge| edge.0 < lower.start);
                let those = edges[first..].iter().take_while(|edge| edge.0 < lower.end);
                those.for_each(|&(a, b)| visit(a, b));
            }
        }
    }
}

impl Lattice {
    fn visit(&self, lower: Range<u64>, mut visit: impl FnMut(u64, u64)) {
        let [x, y, z] = self.sides;
        for vertex in lower {
            let place = [vertex % x, vertex / x % y, vertex / x / y];
            let mut random = Random::from(self.seed, vertex * 3);
            for (direction, step) in [1, x, x * y].into_iter().enumerate() {
                let exists = random.below(100) < self.percent as usize;
                if exists && place[direction] + 1 < [x, y, z][direction] {
                    visit(vertex, vertex + step);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EdgeSource, Lattice};

    fn edges(source: &EdgeSource) -> Vec<(u64, u64)> {
        let mut edges = Vec::new();
        source.visit(0..source.vertices(), |a, b| edges.push((a, b)));
        edges
    }

    #[test]
    fn a_lattice_has_its_edges() {
        let full = |sides| EdgeSource::Lattice(Lattice { sides, percent: 100, seed: 1 });
        assert_eq!(
            edges(&full([3, 2, 1])),
            [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]
        );
        assert_eq!(edges(&full([5, 5, 5])).len(), 3 * 4 * 5 * 5);
        let some = Lattice { sides: [40, 40, 40], percent: 25, seed: 1 };
        let count = edges(&EdgeSource::Lattice(some)).len();
        assert!((45_000..48_600).contains(&count), "a quarter of 187,200: {count}");
    }
}
