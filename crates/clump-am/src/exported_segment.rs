//! The memory that an endpoint exports for deposits.

use crate::context::RankContext;
use crate::error::{ErrorKind, Result};
use crate::region::{Region, overwritten};
use clump_shm::block::EndpointBlock;
use clump_shm::name::Name;
use clump_shm::segment::Segment;
use clump_shm::shared::Shared;
use std::sync::Arc;

/// The region that takes deposits for an endpoint, once it has one, as mapped here.
#[derive(Debug, Default)]
pub(crate) struct ExportedSegment {
    exported: Option<(Region, Segment)>,
}

impl ExportedSegment {
    /// Returns the segment, if the endpoint has one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Segment> {
        self.exported.as_ref().map(|(_, segment)| segment)
    }

    /// Fails if the endpoint has a segment.
    fn check_has_none(&self) -> Result<()> {
        match self.get() {
            Some(segment) => Err(ErrorKind::HasSegment(segment.len() as u64).into()),
            None => Ok(()),
        }
    }

    /// Exports `bytes` bytes of zeroed memory.
    pub(crate) fn export(
        &mut self,
        context: &Arc<RankContext>,
        endpoint: (Name, &Shared<EndpointBlock>),
        bytes: u64,
    ) -> Result<Segment> {
        self.check_has_none()?;
        self.publish(context, endpoint, Region::register(context, bytes, bytes)?)
    }

    /// Takes deposits in a region that this rank has registered.
    pub(crate) fn use_region(
        &mut self,
        context: &Arc<RankContext>,
        endpoint: (Name, &Shared<EndpointBlock>),
        region: &Region,
    ) -> Result<Segment> {
        self.check_has_none()?;
        debug_assert!(endpoint.0.rank() == context.rank(), "another rank's endpoint");
        if region.name().rank() != context.rank() {
            return Err(ErrorKind::ForeignRegion(region.name().rank()).into());
        }
        self.publish(context, endpoint, region.clone())
    }

    /// Exports memory that later calls with more bytes let grow, up to `reserved` bytes of the
    /// first call.
    pub(crate) fn export_growing(
        &mut self,
        context: &Arc<RankContext>,
        endpoint: (Name, &Shared<EndpointBlock>),
        reserved: u64,
        bytes: u64,
    ) -> Result<Segment> {
        let region = match &self.exported {
            Some((_, segment)) if segment.len() as u64 >= bytes => return Ok(segment.clone()),
            Some((region, _)) if bytes > region.reserved() => {
                return Err(ErrorKind::HasSegment(region.reserved()).into());
            }
            Some((region, _)) => region.clone(),
            None => Region::register(context, bytes, reserved.max(bytes))?,
        };
        region.grow(bytes)?;
        debug_assert!(bytes <= region.reserved(), "more was refused");
        let segment = self.publish(context, endpoint, region)?;
        if (segment.len() as u64) < bytes {
            return Err(overwritten());
        }
        Ok(segment)
    }

    /// Maps a region as long as it is now, and names it to peers.
    fn publish(
        &mut self,
        context: &RankContext,
        (name, block): (Name, &Shared<EndpointBlock>),
        region: Region,
    ) -> Result<Segment> {
        debug_assert!(name.rank() == context.rank(), "another rank's endpoint");
        let segment = Segment::exported(context.node(), region.name())?;
        let Some(segment) = segment else {
            // The table of exports is in memory that others can write.
            return Err(ErrorKind::EmptySegment.into());
        };
        let known = self.get().map_or(0, Segment::len);
        if segment.len() < known || segment.len() as u64 > region.reserved() {
            return Err(overwritten());
        }
        block.set_segment(region.name());
        if let Some(network) = context.network() {
            network.set_segment(name, Some(segment.clone()));
        }
        self.exported = Some((region, segment.clone()));
        debug_assert!(self.check_has_none().is_err(), "a second region could be given");
        Ok(segment)
    }

    /// Gives the memory back, unless the program has it otherwise; peers that still have it mapped
    /// keep their mapping.
    pub(crate) fn close(&mut self) {
        self.exported = None;
    }
}
