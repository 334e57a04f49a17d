//! Global pointers: addresses of elements in the memory of any rank.

use crate::error::{ErrorKind, Result};
use clump_rma::SegmentName;
use std::marker::PhantomData;

/// Address of an element of type `T` in global memory: a rank, and a place in memory that it
/// exports. Arithmetic moves within that rank's memory, as in Split-C; a pointer may point
/// anywhere, but only be used inside the memory that it was made of.
pub struct GlobalPtr<T> {
    segment: SegmentName,
    offset: u64,
    end: u64,
    of: PhantomData<T>,
}

impl<T> GlobalPtr<T> {
    pub(crate) fn new(segment: SegmentName, offset: u64, end: u64) -> Self {
        Self { segment, offset, end, of: PhantomData }
    }

    /// Returns the rank whose memory it points to; a number that no rank has for memory that a node
    /// owns.
    pub fn rank(&self) -> usize {
        self.segment.rank() as usize
    }

    /// Returns the segment that it points into.
    pub fn segment(&self) -> SegmentName {
        self.segment
    }

    /// Returns the offset in that segment, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the pointer so many elements further on, or back.
    #[must_use]
    pub fn offset_by(self, elements: isize) -> Self {
        let bytes = (elements as i64).wrapping_mul(size_of::<T>() as i64);
        Self { offset: self.offset.wrapping_add_signed(bytes), ..self }
    }

    /// Returns the distance from `other` in elements; `None` if that is in other memory, or not a
    /// whole number of them.
    pub fn distance_from(&self, other: &Self) -> Option<isize> {
        let bytes = self.offset.wrapping_sub(other.offset) as i64;
        let size = size_of::<T>() as i64;
        let whole = self.segment == other.segment && size > 0 && bytes % size == 0;
        whole.then(|| (bytes / size) as isize)
    }

    /// Returns the same address as that of another type.
    #[must_use]
    pub fn cast<U>(self) -> GlobalPtr<U> {
        GlobalPtr::new(self.segment, self.offset, self.end)
    }

    /// Encodes it as three words of a message.
    pub fn to_words(self) -> [u64; 3] {
        [self.segment.to_bits(), self.offset, self.end]
    }

    /// Returns the pointer that [`GlobalPtr::to_words`] gave.
    pub fn from_words([segment, offset, end]: [u64; 3]) -> Self {
        Self::new(SegmentName::from_bits(segment), offset, end)
    }

    /// Checks that it points to `count` elements inside its memory.
    ///
    /// # Errors
    /// Fails if they are not inside, or not at a multiple of their size.
    pub fn check(&self, count: usize) -> Result<()> {
        let size = size_of::<T>() as u64;
        let bytes = size.saturating_mul(count as u64);
        let inside = self.offset.checked_add(bytes).is_some_and(|end| end <= self.end);
        // Elements of other sizes are never words, and may be at any offset.
        let aligned = !size.is_power_of_two() || size > 8 || self.offset.is_multiple_of(size);
        if inside && aligned {
            return Ok(());
        }
        let Self { segment, offset, end, .. } = *self;
        Err(ErrorKind::BadPointer { segment, offset, bytes, end }.into())
    }
}

impl<T> Clone for GlobalPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalPtr<T> {}

impl<T> PartialEq for GlobalPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.segment, self.offset) == (other.segment, other.offset)
    }
}

impl<T> Eq for GlobalPtr<T> {}

impl<T> std::fmt::Debug for GlobalPtr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GlobalPtr(offset {} of {})", self.offset, self.segment)
    }
}
