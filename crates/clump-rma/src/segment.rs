//! Exported memory of this rank.

use crate::error::{ErrorKind, Result};
use crate::rma::Rma;
use crate::target::Target;
use clump_am::Region;
use std::ops::Deref;
use std::sync::Arc;

/// Zeroed memory that other ranks may access under its name, until it is dropped. Its owner
/// accesses it as any other [`Target`].
#[derive(Debug)]
pub struct Segment {
    target: Target,
    region: Arc<Region>,
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
        let region = Arc::new(Region::register(&self.inner.context, reserved, bytes)?);
        debug_assert!(region.reserved() >= reserved.max(bytes), "all of it has address space");
        let target = self.target(region.name())?;
        debug_assert!(target.is_near(), "what this rank exports lies on its node");
        Ok(Segment { target, region })
    }
}

impl Segment {
    /// Makes the segment `bytes` bytes long, if it is shorter. New bytes are zero. Other ranks may
    /// access them once they know of the new length; nothing tells them.
    ///
    /// # Errors
    /// Fails if that is more than was reserved, or if memory has run out.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        debug_assert_eq!(self.target.name(), self.region.name(), "the target is the region");
        if bytes > self.region.reserved() {
            let segment = self.target.name();
            let (asked, reserved) = (bytes, self.region.reserved());
            return Err(ErrorKind::CannotGrow { segment, asked, reserved }.into());
        }
        Ok(self.region.grow(bytes)?)
    }

    /// Returns the registered memory itself, to be offered for deposits of long messages too
    /// ([`clump_am::Endpoint::set_segment`]).
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }
}

impl Deref for Segment {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}
