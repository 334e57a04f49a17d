//! Components of the vertices of one rank: union by lower root, paths halved.

use crate::connect::graph::EdgeSource;
use std::ops::Range;

/// Components of some vertices, and the edges that leave them.
#[derive(Debug)]
pub struct LocalComponents {
    first: u64,
    /// Parents, from the first vertex on; a root's is itself.
    parents: Vec<u64>,
    /// Edges to vertices of other ranks: the vertex here, and the other.
    pub leaving: Vec<(u64, u64)>,
}

impl LocalComponents {
    /// Finds the components of the vertices `own`.
    pub fn find(source: &EdgeSource, own: Range<u64>) -> Self {
        let parents = own.clone().collect();
        let mut components = Self { first: own.start, parents, leaving: Vec::new() };
        source.visit(own.clone(), |a, b| {
            debug_assert!(own.contains(&a), "edges are visited at their lower vertex");
            if own.contains(&b) { components.unite(a, b) } else { components.leaving.push((a, b)) }
        });
        components
    }

    /// Returns the lowest vertex of a vertex's component.
    pub fn root(&mut self, mut vertex: u64) -> u64 {
        loop {
            let parent = self.parents[(vertex - self.first) as usize];
            if parent == vertex {
                return vertex;
            }
            let above = self.parents[(parent - self.first) as usize];
            self.parents[(vertex - self.first) as usize] = above;
            vertex = above;
        }
    }

    fn unite(&mut self, a: u64, b: u64) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[(a.max(b) - self.first) as usize] = a.min(b);
    }
}
