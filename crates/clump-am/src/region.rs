//! Memory that a rank registers: one region serves the deposits of long messages and one-sided
//! operations.

use crate::context::RankContext;
use crate::error::Result;
use clump_os::map::PAGE;
use clump_shm::export::{EXPORTS, Extent, SegmentName};
use std::sync::Arc;

/// Zeroed memory of this rank under a name by which others reach it, until it is dropped.
#[derive(Debug)]
pub struct Region {
    context: Arc<RankContext>,
    name: SegmentName,
    /// Offset in the node's memory.
    offset: u64,
    /// Bytes up to which it may grow, whole pages.
    reserved: u64,
}

impl Region {
    /// Registers `bytes` bytes of zeroed memory, with address space for `reserved` bytes.
    ///
    /// # Errors
    /// Space, memory or the rank's table has run out.
    pub fn register(context: &Arc<RankContext>, reserved: u64, bytes: u64) -> Result<Self> {
        // If it cannot be rounded up it is more than there is, and refused below.
        let whole = reserved.max(bytes).max(1);
        let whole = whole.checked_next_multiple_of(PAGE as u64).unwrap_or(whole);
        let offset = context.reserve_segment(whole, bytes)?;
        debug_assert!(bytes <= whole && reserved <= whole, "all of it has address space");
        debug_assert!((offset | whole).is_multiple_of(PAGE as u64), "it has pages of its own");
        let extent = Extent { offset, reserved: whole, bytes };
        let Some((index, generation)) = context.block().exports().open(extent) else {
            context.give_back_segment(offset, whole);
            return Err(clump_shm::Error::TooManySegments(EXPORTS).into());
        };
        debug_assert!(usize::from(index) < EXPORTS, "the table has the entry");
        let name = SegmentName::new(context.rank(), index, generation);
        Ok(Self { context: context.clone(), name, offset, reserved: whole })
    }

    /// Makes the region `bytes` bytes long, if it is shorter. New bytes are zero.
    ///
    /// # Errors
    /// It has address space for fewer bytes; memory has run out.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        if bytes > self.reserved {
            let (asked, free) = (bytes, self.reserved);
            return Err(clump_shm::Error::SegmentSpace { asked, free }.into());
        }
        if self.bytes() < bytes {
            self.context.commit_segment(self.offset, bytes)?;
            self.context.block().exports().grow(self.name.index(), bytes);
            debug_assert!(self.bytes() >= bytes, "a region does not shrink");
        }
        Ok(())
    }

    /// Returns the name by which others reach it.
    pub fn name(&self) -> SegmentName {
        self.name
    }

    /// Returns the number of bytes that may be accessed now.
    pub fn bytes(&self) -> u64 {
        let found = self.context.block().exports().look_up(self.name.index());
        debug_assert!(
            found.is_some_and(|(generation, _)| generation == self.name.generation()),
            "it is registered until it is dropped"
        );
        found.map_or(0, |(_, extent)| extent.bytes)
    }

    /// Returns the number of bytes up to which it may grow.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // The memory is the rank's, not its child's by `fork`.
        if clump_os::forked::is_child() {
            return;
        }
        debug_assert!(self.offset.checked_add(self.reserved).is_some(), "it was reserved");
        self.context.block().exports().close(self.name.index());
        self.context.give_back_segment(self.offset, self.reserved);
    }
}
