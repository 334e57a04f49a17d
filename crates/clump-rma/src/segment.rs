//! Exported memory of this rank.

use crate::error::Result;
use crate::rma::Rma;
use crate::target::Target;
use clump_am::Region;
use std::ops::Deref;

/// Zeroed memory that other ranks may access under its name, until it is dropped. Its owner
/// accesses it as any other [`Target`].
#[derive(Debug)]
pub struct Segment {
    target: Target,
    region: Region,
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
        let region = Region::register(&self.inner.context, bytes, reserved)?;
        let target = self.target(region.name())?;
        debug_assert!(target.is_near(), "this rank's exports are on its node");
        debug_assert!(
            region.reserved() >= bytes.max(reserved),
            "it may grow to the requested length"
        );
        Ok(Segment { target, region })
    }
}

impl Segment {
    /// Makes the segment `bytes` bytes long, if it is shorter. New bytes are zero. Other ranks may
    /// access them once the program has sent them the new length.
    ///
    /// # Errors
    /// Fails if that is more than was reserved, or if memory has run out.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        debug_assert_eq!(self.target.name(), self.region.name(), "the owner's target is its own");
        Ok(self.region.grow(bytes)?)
    }

    /// Returns the memory, for endpoints that take deposits in it
    /// ([`clump_am::Endpoint::use_region`]).
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl Deref for Segment {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}
