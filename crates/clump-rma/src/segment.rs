//! Exported memory of this rank.

use crate::error::{ErrorKind, Result};
use crate::rma::Rma;
use crate::target::Target;
use clump_am::RankContext;
use clump_shm::export::{EXPORTS, Extent, SegmentName};
use std::ops::Deref;
use std::sync::Arc;

/// Zeroed memory that other ranks may access under its name, until it is dropped. Its owner
/// accesses it as any other [`Target`].
#[derive(Debug)]
pub struct Segment {
    target: Target,
    export: Export,
}

/// An entry of this rank's table of exports.
#[derive(Debug)]
struct Export {
    context: Arc<RankContext>,
    index: u8,
    offset: u64,
    reserved: u64,
}

impl Rma {
    /// Exports `bytes` bytes of zeroed memory.
    ///
    /// # Errors
    /// Fails if memory, space for segments, or the table has run out.
    pub fn export(&self, bytes: u64) -> Result<Segment> {
        self.export_growing(bytes, bytes)
    }

    /// Exports `bytes` bytes, with address space for `reserved` bytes, which [`Segment::grow`]
    /// fills.
    ///
    /// # Errors
    /// Fails as [`Rma::export`] does.
    pub fn export_growing(&self, bytes: u64, reserved: u64) -> Result<Segment> {
        let context = &self.inner.context;
        let page = clump_os::map::PAGE as u64;
        // If it cannot be rounded up it is more than there is, and refused below.
        let whole = reserved.max(bytes).max(1);
        let whole = whole.checked_next_multiple_of(page).unwrap_or(whole);
        let offset = context.reserve_segment(whole, bytes)?;
        debug_assert!(bytes <= whole && reserved <= whole, "all of it has address space");
        debug_assert!((offset | whole).is_multiple_of(page), "each segment has pages of its own");
        let extent = Extent { offset, reserved: whole, bytes };
        let Some((index, generation)) = context.block().exports().open(extent) else {
            context.give_back_segment(offset, whole);
            return Err(ErrorKind::TooManySegments(EXPORTS).into());
        };
        let export = Export { context: context.clone(), index, offset, reserved: whole };
        debug_assert!(usize::from(index) < EXPORTS, "the table has the entry");
        let target = self.target(SegmentName::new(context.rank(), index, generation))?;
        debug_assert!(target.is_near(), "what this rank exports lies on its node");
        Ok(Segment { target, export })
    }
}

impl Segment {
    /// Makes the segment `bytes` bytes long, if it is shorter. New bytes are zero. Other ranks may
    /// access them once they know of the new length; nothing tells them.
    ///
    /// # Errors
    /// Fails if that is more than was reserved, or if memory has run out.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        let Export { context, index, offset, reserved } = &self.export;
        debug_assert_eq!(self.target.name().index(), *index, "the name is that of the export");
        debug_assert_eq!(self.target.name().rank(), context.rank(), "the owner lets it grow");
        if bytes > *reserved {
            let segment = self.target.name();
            let (asked, reserved) = (bytes, *reserved);
            return Err(ErrorKind::CannotGrow { segment, asked, reserved }.into());
        }
        let exports = context.block().exports();
        if exports.look_up(*index).is_some_and(|(_, extent)| extent.bytes < bytes) {
            context.commit_segment(*offset, bytes)?;
            exports.grow(*index, bytes);
        }
        Ok(())
    }
}

impl Deref for Segment {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // The segment is the rank's, not its child's by `fork`.
        if clump_os::forked::is_child() {
            return;
        }
        debug_assert!(self.offset.checked_add(self.reserved).is_some(), "it was reserved");
        self.context.block().exports().close(self.index);
        self.context.give_back_segment(self.offset, self.reserved);
    }
}
