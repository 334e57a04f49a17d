//! Graphs: lattices, of whose edges a share exists, and lists of edges in files.

use anyhow::{Context, Result, bail};
use clump_app_frame::random::Random;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;

/// Edges of a graph.
#[derive(Debug, Clone)]
pub enum EdgeSource {
    /// A lattice.
    Lattice(Lattice),
    /// Edges of a file, the lower vertex first, in order.
    List {
        /// Number of vertices: those that edges name.
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

/// Most bytes of a line of a list.
const MAX_LINE: usize = 4096;

impl EdgeSource {
    /// Reads a list of edges: two numbers of vertices in each line, separated by spaces. Lines that
    /// begin with `#`, and empty ones, are left out. Vertices that no edge names are none: memory
    /// is that of the edges, whatever their numbers are.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has a line of another kind.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("reading {name}"))?;
        Self::of_lines(BufReader::new(file)).with_context(|| format!("{name}"))
    }

    fn of_lines(mut from: impl BufRead) -> Result<Self> {
        let (mut edges, mut first, mut line) = (Vec::new(), None, Vec::new());
        for number in 1_u64.. {
            line.clear();
            let read = (&mut from).take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            let text = line.trim_ascii();
            if text.is_empty() || text.starts_with(b"#") {
                // What is left of a long comment is none: it is read to its end.
                skip_line(&mut from, &line)?;
                continue;
            }
            let Some(edge) = edge(text).filter(|_| read < MAX_LINE) else {
                bail!("line {number}: an edge is two numbers of vertices");
            };
            first.get_or_insert((number, edge));
            edges.push((edge.0.min(edge.1), edge.0.max(edge.1)));
        }
        if let Some((number, (vertices, count))) = first
            && is_head(vertices, count, &edges)
        {
            bail!(
                "line {number}: `{vertices} {count}` is a head line of {vertices} vertices and \
                 {count} edges, as it seems, and would be an edge: remove it (or, if it is an edge, \
                 write it as `{count} {vertices}`)"
            );
        }
        Ok(Self::numbered(edges))
    }

    /// Numbers the vertices that edges name from 0, in their order.
    fn numbered(mut edges: Vec<(u64, u64)>) -> Self {
        let mut names: Vec<u64> = edges.iter().flat_map(|&(a, b)| [a, b]).collect();
        names.sort_unstable();
        names.dedup();
        let number = |name: u64| names.partition_point(|&other| other < name) as u64;
        edges.iter_mut().for_each(|(a, b)| (*a, *b) = (number(*a), number(*b)));
        edges.sort_unstable();
        Self::List { vertices: names.len() as u64, edges }
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

/// Parses a line.
fn edge(line: &[u8]) -> Option<(u64, u64)> {
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace().map(str::parse);
    let edge = (words.next()?.ok()?, words.next()?.ok()?);
    words.next().is_none().then_some(edge)
}

/// Reads on to the end of a line of which `line` is the beginning.
fn skip_line(from: &mut impl BufRead, line: &[u8]) -> std::io::Result<()> {
    let mut ended = line.ends_with(b"\n");
    while !ended {
        let buffer = from.fill_buf()?;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        ended = end.is_some() || used == 0;
        from.consume(used);
    }
    Ok(())
}

/// Returns true if the first line of a list counts the vertices and the edges of the others.
fn is_head(vertices: u64, count: u64, edges: &[(u64, u64)]) -> bool {
    let others = edges.get(1..).unwrap_or_default();
    let last = others.iter().map(|edge| edge.1).max();
    count == others.len() as u64 && last.is_some_and(|last| vertices >= last)
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
    fn a_list_takes_no_more_memory_than_its_edges() {
        let read = |text: &str| EdgeSource::of_lines(text.as_bytes());
        let far = read("# a comment\n0 4294967296\n\n18446744073709551615 7\n7 7").unwrap();
        assert_eq!(far.vertices(), 4);
        assert_eq!(edges(&far), [(0, 2), (1, 1), (1, 3)]);
        let comment = format!("#{}\n1 2\n", "x".repeat(9_999));
        assert_eq!(edges(&read(&comment).unwrap()), [(0, 1)]);
        let long = "1".repeat(100_000);
        for bad in ["1\n", "1 2 3\n", "1 -2\n", "1 18446744073709551616\n", &long] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.starts_with("line 1: an edge is two numbers"), "{error}");
        }
        assert_eq!(read("").unwrap().vertices(), 0);
    }

    #[test]
    fn a_head_line_is_no_edge() {
        let read = |text: &str| EdgeSource::of_lines(text.as_bytes());
        for head in ["# made\n5 3\n0 1\n1 2\n3 4\n", "5 3\n1 2\n2 3\n4 5\n"] {
            let error = read(head).unwrap_err().to_string();
            assert!(error.contains("`5 3` is a head line of 5 vertices and 3 edges"), "{error}");
        }
        for list in
            ["3 5\n0 1\n1 2\n3 4\n", "5 2\n0 1\n1 2\n3 4\n", "4 3\n0 1\n1 2\n5 6\n", "1 0\n"]
        {
            assert!(read(list).is_ok(), "{list}");
        }
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
