//! Layouts of arrays over ranks: pure arithmetic.

/// Distribution of an array's elements over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One contiguous block for each rank, as even as whole elements allow.
    Block,
    /// Element by element, around all ranks.
    Cyclic,
    /// Blocks of so many elements, around all ranks.
    BlockCyclic(usize),
}

/// Location of an element: its rank, and its index among the elements there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementPlace {
    /// The rank.
    pub rank: usize,
    /// Index among the rank's elements.
    pub local: usize,
}

/// Divisor that is often a power of two: then a shift divides by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divisor {
    value: usize,
    shift: Option<u32>,
}

impl Divisor {
    fn new(value: usize) -> Self {
        debug_assert!(value > 0, "nothing is divided by zero");
        Self { value, shift: value.is_power_of_two().then(|| value.trailing_zeros()) }
    }

    /// Returns quotient and remainder.
    #[inline(always)]
    fn divide(self, number: usize) -> (usize, usize) {
        match self.shift {
            Some(shift) => (number >> shift, number & (self.value - 1)),
            None => (number / self.value, number % self.value),
        }
    }
}

/// Arithmetic of an array of so many elements in a layout over so many ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpreadLayout {
    len: usize,
    block: Divisor,
    ranks: Divisor,
}

impl SpreadLayout {
    /// Creates the arithmetic of `len` elements over `ranks` ranks; `None` for blocks of no
    /// elements, or without a rank.
    pub fn new(len: usize, layout: Layout, ranks: usize) -> Option<Self> {
        let block = match layout {
            Layout::Block => len.div_ceil(ranks.max(1)).max(1),
            Layout::Cyclic => 1,
            Layout::BlockCyclic(block) => block,
        };
        let possible = block > 0 && ranks > 0;
        possible.then(|| Self { len, block: Divisor::new(block), ranks: Divisor::new(ranks) })
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the elements of a block.
    pub fn block(&self) -> usize {
        self.block.value
    }

    /// Returns the place of an element; `None` beyond the end.
    #[inline(always)]
    pub fn place(&self, index: usize) -> Option<ElementPlace> {
        if index >= self.len {
            return None;
        }
        let (block, within) = self.block.divide(index);
        let (turn, rank) = self.ranks.divide(block);
        Some(ElementPlace { rank, local: turn * self.block.value + within })
    }

    /// Returns the index of the element at a place; `None` if none is there.
    pub fn index(&self, place: ElementPlace) -> Option<usize> {
        let (turn, within) = self.block.divide(place.local);
        let block = turn.checked_mul(self.ranks.value)?.checked_add(place.rank)?;
        let index = block.checked_mul(self.block.value)?.checked_add(within)?;
        (place.rank < self.ranks.value && index < self.len).then_some(index)
    }

    /// Returns the number of elements at a rank.
    pub fn count(&self, rank: usize) -> usize {
        let (block, ranks) = (self.block.value, self.ranks.value);
        let (whole, rest) = self.block.divide(self.len);
        let (turns, left) = self.ranks.divide(whole);
        debug_assert!(rank < ranks, "a rank of the job");
        let more = match rank.cmp(&left) {
            std::cmp::Ordering::Less => block,
            std::cmp::Ordering::Equal => rest,
            std::cmp::Ordering::Greater => 0,
        };
        turns * block + more
    }
}

#[cfg(test)]
mod tests;
