//! Recursive coordinate bisection: parts of space with equally many points.

use crate::unstructured::predicates::GridPoint;

/// Points, part by part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Numbers of points, in their order within each part.
    pub order: Vec<u32>,
    /// The first place of each part in that order, and the end.
    pub starts: Vec<usize>,
}

impl Partition {
    /// Divides points among parts: halves them along the longest side of the box around them, and
    /// so on. Parts differ by the rounding of halves alone.
    pub fn of(points: &[GridPoint], parts: usize) -> Self {
        debug_assert!(parts > 0, "a part at least");
        let mut order: Vec<_> = (0..points.len() as u32).collect();
        let mut starts = vec![0];
        bisect(points, &mut order, parts, &mut starts);
        debug_assert_eq!(starts.len(), parts + 1, "a start a part");
        debug_assert_eq!(starts.last(), Some(&points.len()), "all points are in parts");
        Self { order, starts }
    }

    /// Returns the part that a place in the order belongs to.
    pub fn part_of(&self, place: usize) -> usize {
        self.starts.partition_point(|&start| start <= place) - 1
    }
}

/// Divides some points, and appends the end of each of their parts.
fn bisect(points: &[GridPoint], some: &mut [u32], parts: usize, ends: &mut Vec<usize>) {
    if parts == 1 {
        // In their first order, which is the same for any number of parts.
        some.sort_unstable();
        ends.push(ends.last().copied().unwrap_or(0) + some.len());
        return;
    }
    let reach = |axis: usize| {
        let along = some.iter().map(|&point| points[point as usize][axis]);
        along.clone().max().unwrap_or(0) - along.min().unwrap_or(0)
    };
    let axis = (0..3).max_by_key(|&axis| (reach(axis), 3 - axis)).unwrap_or(0);
    let (half, at) = (parts / 2, some.len() * (parts / 2) / parts);
    if at < some.len() {
        some.select_nth_unstable_by_key(at, |&point| (points[point as usize][axis], point));
    }
    let (low, high) = some.split_at_mut(at);
    bisect(points, low, half, ends);
    bisect(points, high, parts - half, ends);
}

#[cfg(test)]
mod tests {
    use super::Partition;
    use crate::unstructured::predicates::GridPoint;

    #[test]
    fn parts_are_boxes_of_equally_many_points() {
        let cube: Vec<GridPoint> =
            (0..512).map(|at| [at % 8, at / 8 % 8, at / 64].map(|part| part * 10)).collect();
        for parts in [1, 2, 3, 4, 7, 8] {
            let partition = Partition::of(&cube, parts);
            let mut sorted = partition.order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..512), "each point is in one part");
            for part in partition.starts.windows(2) {
                assert!((part[1] - part[0]).abs_diff(512 / parts) <= 3, "{:?}", partition.starts);
                assert_eq!(partition.part_of(part[0]), partition.part_of(part[1] - 1));
            }
        }
        let eight = Partition::of(&cube, 8);
        for part in 0..8 {
            let inside = &eight.order[eight.starts[part]..eight.starts[part + 1]];
            let octant = |&point: &u32| cube[point as usize].map(|along| along / 40);
            assert!(inside.iter().all(|point| octant(point) == octant(&inside[0])), "{part}");
        }
    }

    #[test]
    fn more_parts_than_points_leave_some_empty() {
        let partition = Partition::of(&[[0, 0, 0], [5, 0, 0]], 5);
        assert_eq!(partition.starts.len(), 6);
        assert_eq!(partition.order.len(), 2);
    }
}
