//! The mesh of random points as text, for a check by other means (`oracles/check_mesh.py`): lines
//! `p X Y Z` of points, then `t A B C D` of tetrahedra.
//!
//! ```text
//! cargo run -p clump-shared-apps --example mesh -- POINTS SEED
//! ```

use clump_shared_apps::unstructured::delaunay::DelaunayMesh;
use clump_shared_apps::unstructured::flow::random_points;
use std::io::{BufWriter, Write};

fn main() -> anyhow::Result<()> {
    let numbers = std::env::args_os().skip(1).map(|word| word.to_string_lossy().parse());
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
    let &[points, seed] = &numbers[..] else { anyhow::bail!("give a number of points and a seed") };
    let mesh = DelaunayMesh::of(random_points(usize::try_from(points)?, seed))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for [x, y, z] in mesh.points() {
        writeln!(out, "p {x} {y} {z}")?;
    }
    for [a, b, c, d] in mesh.inner() {
        writeln!(out, "t {a} {b} {c} {d}")?;
    }
    Ok(out.flush()?)
}
