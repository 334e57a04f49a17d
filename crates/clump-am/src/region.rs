//! Registered memory of a rank: entries of its table of exports.

use crate::context::RankContext;
use crate::error::{Error, ErrorKind, Result};
use clump_os::map::PAGE;
use clump_os::sync::{AtomicBool, Ordering};
use clump_shm::export::{EXPORTS, Extent, SegmentName};
use std::sync::Arc;

/// Zeroed memory of this rank that others may access, by one-sided operations under its name and by
/// deposits to endpoints that it was given to. Clones are the same memory, which lives as long as
/// one of them.
#[derive(Debug, Clone)]
pub struct Region {
    entry: Arc<ExportedEntry>,
}

/// An entry of this rank's table of exports, and its memory.
#[derive(Debug)]
struct ExportedEntry {
    context: Arc<RankContext>,
    name: SegmentName,
    offset: u64,
    reserved: u64,
    /// True if it outlives this rank's part in the job.
    stays: AtomicBool,
}

impl Region {
    /// Registers `bytes` bytes, with address space for `reserved` bytes, which [`Region::grow`]
    /// fills.
    ///
    /// # Errors
    /// Memory, space for segments, or the table has run out.
    pub fn register(context: &Arc<RankContext>, bytes: u64, reserved: u64) -> Result<Self> {
        let page = PAGE as u64;
        // If it cannot be rounded up it is more than there is, and refused below.
        let whole = reserved.max(bytes).max(1);
        let whole = whole.checked_next_multiple_of(page).unwrap_or(whole);
        // One thread at a time takes memory and an entry.
        let mut space = context.segment_space();
        let offset = space.take_reserved(whole, bytes)?;
        debug_assert!(bytes <= whole && reserved <= whole, "all of it has address space");
        debug_assert!((offset | whole).is_multiple_of(page), "each region has pages of its own");
        let extent = Extent { offset, reserved: whole, bytes };
        let Some((index, generation)) = context.block().exports().open(extent) else {
            space.give_back(offset, whole);
            return Err(ErrorKind::TooManyRegions(EXPORTS).into());
        };
        drop(space);
        let name = SegmentName::new(context.rank(), index, generation);
        let context = context.clone();
        let stays = AtomicBool::new(false);
        let entry = ExportedEntry { context, name, offset, reserved: whole, stays };
        Ok(Self { entry: Arc::new(entry) })
    }

    /// Returns its name, under which other ranks access it.
    pub fn name(&self) -> SegmentName {
        self.entry.name
    }

    /// Keeps it exported after its last clone is dropped, as long as the node's memory: others may
    /// still read this rank's last data.
    pub fn outlive_rank(&self) {
        self.entry.stays.store(true, Ordering::Relaxed);
        debug_assert!(self.name().rank() == self.entry.context.rank(), "a rank decides on its own");
    }

    /// Returns the bytes that it may grow to.
    pub fn reserved(&self) -> u64 {
        self.entry.reserved
    }

    /// Makes it `bytes` bytes long, if it is shorter. New bytes are zero. Other ranks may access
    /// them once the program has sent them the new length.
    ///
    /// # Errors
    /// That is more than was reserved; memory has run out; another process overwrote its entry.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        let ExportedEntry { context, name, offset, reserved, stays: _ } = &*self.entry;
        if bytes > *reserved {
            return Err(ErrorKind::CannotGrow { asked: bytes, reserved: *reserved }.into());
        }
        let mut space = context.segment_space();
        let exports = context.block().exports();
        // Exported as long as it lives; but others can write the table.
        let known = exports.bytes_of(name.index(), name.generation()).ok_or_else(overwritten)?;
        if known < bytes {
            debug_assert!(bytes <= *reserved, "more is refused");
            space.commit(*offset, known, bytes)?;
            exports.grow(name.index(), bytes);
        }
        Ok(())
    }
}

/// Returns the error of a region whose entry is not what this rank wrote there.
#[cold]
pub(crate) fn overwritten() -> Error {
    ErrorKind::Overwritten.into()
}

impl Drop for ExportedEntry {
    fn drop(&mut self) {
        // The memory is the rank's, not its child's by `fork`.
        if clump_os::forked::is_child() || self.stays.load(Ordering::Relaxed) {
            return;
        }
        debug_assert!(self.name.rank() == self.context.rank(), "a rank gives back its own");
        let mut space = self.context.segment_space();
        self.context.block().exports().close(self.name.index());
        space.give_back(self.offset, self.reserved);
    }
}
