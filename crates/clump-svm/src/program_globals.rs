//! The program's variables, as the beginning of the heap.

use crate::node_pages::PAGE;

/// Pages of the program's variables, which become the first ones of the heap: at the addresses
/// that the program knows, and with zeroes in place of what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramGlobals {
    first: usize,
    bytes: usize,
}

impl ProgramGlobals {
    /// Describes the pages of `bytes` bytes from an address on. Returns `None` if there are none,
    /// if they are no whole pages, or if there are too many.
    ///
    /// # Safety
    /// They are private memory of this process, which nobody uses while the heap is opened, and
    /// afterwards only as shared memory. Nobody needs their contents.
    pub unsafe fn new(first: usize, bytes: usize) -> Option<Self> {
        let whole = first.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE);
        let few = bytes > 0 && bytes / PAGE < 1 << 24 && first < 1 << 40;
        (whole && few && first > 0).then_some(Self { first, bytes })
    }

    /// Returns the first address, and the number of bytes.
    pub(crate) fn place(self) -> (usize, usize) {
        (self.first, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_are_taken() {
        // SAFETY: nothing is opened with them.
        let taken = |first, bytes| unsafe { ProgramGlobals::new(first, bytes) };
        assert_eq!(taken(PAGE, 2 * PAGE).map(ProgramGlobals::place), Some((PAGE, 2 * PAGE)));
        for (first, bytes) in [(0, PAGE), (PAGE, 0), (8, PAGE), (PAGE, 8), (1 << 40, PAGE)] {
            assert_eq!(taken(first, bytes), None, "{first} {bytes}");
        }
        assert_eq!(taken(PAGE, PAGE << 24), None);
    }
}
