//! Arithmetic of rings in global memory: numbers of items count from the beginning, places repeat.
//! Pure.

/// Items of a ring that were put in and not taken out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RingSpan {
    /// Number of the first item that is there.
    pub(crate) first: u64,
    /// Number of the item that comes next.
    pub(crate) end: u64,
}

impl RingSpan {
    /// Returns the number of items that are there.
    pub(crate) fn len(self) -> usize {
        self.end.saturating_sub(self.first) as usize
    }

    /// Returns the items that still have room.
    pub(crate) fn room(self, capacity: usize) -> usize {
        capacity.saturating_sub(self.len())
    }

    /// Returns how many items a thief takes: half of them, one at least.
    pub(crate) fn half(self) -> usize {
        self.len().div_ceil(2)
    }
}

/// Returns the places of `count` items from number `first` on: up to two runs, of place and length.
pub(crate) fn places(first: u64, count: usize, capacity: usize) -> [(usize, usize); 2] {
    debug_assert!(count <= capacity && capacity > 0, "{count} items of {capacity}");
    let begin = (first % capacity.max(1) as u64) as usize;
    let until_end = count.min(capacity - begin);
    [(begin, until_end), (0, count - until_end)]
}

#[cfg(test)]
mod tests {
    use super::{RingSpan, places};

    #[test]
    fn items_take_one_place_each_and_wrap() {
        assert_eq!(places(5, 3, 8), [(5, 3), (0, 0)]);
        assert_eq!(places(14, 5, 8), [(6, 2), (0, 3)]);
        assert_eq!(places(8, 8, 8), [(0, 8), (0, 0)]);
        let span = RingSpan { first: 10, end: 15 };
        assert_eq!((span.len(), span.half(), span.room(8)), (5, 3, 3));
        assert_eq!(RingSpan::default().half(), 0);
    }
}
