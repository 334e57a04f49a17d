//! The grid over which batches are routed: nodes in rows and columns, a batch along its sender's
//! row first, and then along its destination's column.

/// Arrangement of a job's nodes in rows of equal length; the last may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeGrid {
    nodes: u32,
    columns: u32,
}

impl NodeGrid {
    /// Arranges nodes in a grid that is as square as can be.
    pub fn new(nodes: u32) -> Self {
        let mut columns = nodes.isqrt();
        columns += u32::from(columns * columns < nodes);
        debug_assert!(nodes == 0 || columns >= 1, "a node has a place");
        Self { nodes, columns: columns.max(1) }
    }

    /// Returns the node that forwards updates from one node to another; `None` if they share a row
    /// or a column, and updates are sent directly.
    pub fn middle(&self, from: u32, to: u32) -> Option<u32> {
        let place = |node: u32| (node / self.columns, node % self.columns);
        let ((row, column), (to_row, to_column)) = (place(from), place(to));
        if row == to_row || column == to_column || from.max(to) >= self.nodes {
            return None;
        }
        // A short last row may lack the corner; the other one is in a whole row then.
        let corners = [(row, to_column), (to_row, column)];
        let nodes = corners.map(|(row, column)| row * self.columns + column);
        let middle = nodes.into_iter().find(|node| *node < self.nodes);
        debug_assert!(middle.is_some_and(|node| node != from && node != to), "another node");
        middle
    }
}

#[cfg(test)]
mod tests {
    use super::NodeGrid;
    use std::collections::BTreeSet;

    #[test]
    fn every_pair_has_one_node_between_at_most_and_few_are_reached_straight() {
        for nodes in 0..150_u32 {
            let grid = NodeGrid::new(nodes);
            for from in 0..nodes {
                let mut first = BTreeSet::new();
                for to in 0..nodes {
                    let middle = grid.middle(from, to);
                    first.insert(middle.unwrap_or(to));
                    if let Some(middle) = middle {
                        assert!(middle < nodes && middle != from && middle != to);
                        // The second step is direct.
                        assert_eq!(grid.middle(middle, to), None, "{nodes}: {from} {to}");
                        assert_eq!(grid.middle(from, middle), None, "{nodes}: {from} {to}");
                    }
                }
                let side = f64::from(nodes).sqrt().ceil() as usize;
                assert!(first.len() < 3 * side, "{nodes}: {from} reaches {first:?}");
            }
        }
        assert_eq!(NodeGrid::new(9).middle(0, 8), Some(2));
        assert_eq!(NodeGrid::new(9).middle(3, 5), None);
        assert_eq!(NodeGrid::new(9).middle(5, 9), None, "there is no such node");
    }
}
