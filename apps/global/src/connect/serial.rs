//! The serial version: components of the whole graph in one process, by traversal. It shares
//! nothing with the parallel one but the edges.

use crate::connect::graph::EdgeSource;

/// Returns the lowest vertex of each vertex's component.
pub fn labels(source: &EdgeSource) -> Vec<u64> {
    let count = source.vertices() as usize;
    // Neighbours of each vertex, one after the other.
    let mut begins = vec![0_usize; count + 1];
    source.visit(0..count as u64, |a, b| {
        begins[a as usize] += 1;
        begins[b as usize] += 1;
    });
    let mut sum = 0;
    for begin in &mut begins {
        sum += std::mem::replace(begin, sum);
    }
    let mut neighbours = vec![0_u64; sum];
    let mut next = begins.clone();
    let mut add = |of: u64, other| {
        let place = &mut next[of as usize];
        neighbours[*place] = other;
        *place += 1;
    };
    source.visit(0..count as u64, |a, b| {
        add(a, b);
        add(b, a);
    });
    let mut labels = vec![u64::MAX; count];
    let mut waiting = Vec::new();
    for vertex in 0..count {
        if labels[vertex] != u64::MAX {
            continue;
        }
        // Vertices are taken in order, so the first of a component is its lowest.
        labels[vertex] = vertex as u64;
        waiting.push(vertex);
        while let Some(at) = waiting.pop() {
            for &other in &neighbours[begins[at]..begins[at + 1]] {
                if labels[other as usize] == u64::MAX {
                    labels[other as usize] = vertex as u64;
                    waiting.push(other as usize);
                }
            }
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::labels;
    use crate::connect::graph::{EdgeSource, Lattice};
    use crate::connect::local::LocalComponents;

    #[test]
    fn labels_are_lowest_vertices() {
        let list = EdgeSource::List { vertices: 7, edges: vec![(0, 3), (1, 2), (2, 5), (3, 3)] };
        assert_eq!(labels(&list), [0, 1, 1, 0, 4, 1, 6]);
    }

    #[test]
    fn two_algorithms_find_the_same() {
        for percent in [0, 10, 25, 60, 100] {
            let lattice = Lattice { sides: [12, 11, 10], percent, seed: percent };
            let source = EdgeSource::Lattice(lattice);
            let mut components = LocalComponents::find(&source, 0..1320);
            let found: Vec<_> = (0..1320).map(|vertex| components.root(vertex)).collect();
            assert_eq!(found, labels(&source), "{percent} %");
            assert!(components.leaving.is_empty());
        }
    }
}
