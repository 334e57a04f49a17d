//! The registered memory that an endpoint offers for deposits.

use crate::context::RankContext;
use crate::error::{ErrorKind, Result};
use crate::region::Region;
use clump_shm::block::EndpointBlock;
use clump_shm::name::Name;
use clump_shm::segment::Segment;
use clump_shm::shared::Shared;
use std::sync::Arc;

/// The segment of an endpoint, once it has one, and the region that it is.
#[derive(Debug, Default)]
pub(crate) struct ExportedSegment {
    offered: Option<(Arc<Region>, Segment)>,
}

impl ExportedSegment {
    /// Returns the segment, if the endpoint has one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Segment> {
        self.offered.as_ref().map(|(_, segment)| segment)
    }

    /// Exports `bytes` bytes of zeroed memory.
    pub(crate) fn export(
        &mut self,
        context: &Arc<RankContext>,
        endpoint: (Name, &Shared<EndpointBlock>),
        bytes: u64,
    ) -> Result<Segment> {
        self.check_has_none()?;
        let region = Region::register(context, bytes, bytes)?;
        self.offer(context, endpoint, &Arc::new(region), bytes)
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
        let region = match &self.offered {
            Some((_, segment)) if segment.len() as u64 >= bytes => return Ok(segment.clone()),
            Some((region, _)) if bytes > region.reserved() => {
                return Err(ErrorKind::HasSegment(region.reserved()).into());
            }
            Some((region, _)) => {
                region.grow(bytes)?;
                region.clone()
            }
            None => Arc::new(Region::register(context, reserved, bytes)?),
        };
        self.offer(context, endpoint, &region, bytes)
    }

    /// Offers a region of this rank, as long as it is now.
    pub(crate) fn set(
        &mut self,
        context: &Arc<RankContext>,
        endpoint: (Name, &Shared<EndpointBlock>),
        region: &Arc<Region>,
    ) -> Result<Segment> {
        match &self.offered {
            Some((offered, _)) if offered.name() == region.name() => {}
            _ => self.check_has_none()?,
        }
        self.offer(context, endpoint, region, region.bytes())
    }

    fn check_has_none(&self) -> Result<()> {
        match self.get() {
            Some(segment) => Err(ErrorKind::HasSegment(segment.len() as u64).into()),
            None => Ok(()),
        }
    }

    /// Makes the first `bytes` bytes of a region known to peers.
    fn offer(
        &mut self,
        context: &RankContext,
        (name, block): (Name, &Shared<EndpointBlock>),
        region: &Arc<Region>,
        bytes: u64,
    ) -> Result<Segment> {
        debug_assert!(bytes <= region.bytes(), "more is offered than is registered");
        debug_assert!(name.rank() == context.rank(), "another rank's endpoint");
        debug_assert!(region.name().rank() == context.rank(), "another rank's memory");
        let grown = |segment: &Segment| segment.len() as u64 <= bytes;
        debug_assert!(self.get().is_none_or(grown), "a segment does not shrink");
        let segment = Segment::registered(context.node(), region.name(), bytes)?;
        debug_assert!(segment.is_some() || bytes == 0, "registered memory can be mapped");
        let segment = segment.ok_or(clump_shm::Error::NotANode("a segment without bytes"))?;
        block.set_segment(region.name(), bytes);
        debug_assert!(segment.len() as u64 == bytes, "offered {bytes}, got {}", segment.len());
        if let Some(network) = context.network() {
            network.set_segment(name, Some(segment.clone()));
        }
        self.offered = Some((region.clone(), segment.clone()));
        Ok(segment)
    }

    /// Lets go of the memory; peers that still have it mapped keep their mapping.
    pub(crate) fn close(&mut self) {
        self.offered = None;
    }
}
