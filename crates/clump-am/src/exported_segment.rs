//! The memory that an endpoint exports for deposits.

use crate::context::RankContext;
use crate::error::{ErrorKind, Result};
use clump_shm::block::EndpointBlock;
use clump_shm::name::Name;
use clump_shm::segment::{self, Segment};
use clump_shm::shared::Shared;

/// The segment of an endpoint, once it has one, and what is reserved for it.
#[derive(Debug, Default)]
pub(crate) struct ExportedSegment {
    segment: Option<Segment>,
    /// Offset in the node's memory.
    offset: u64,
    /// Bytes up to which it may grow.
    reserved: u64,
}

impl ExportedSegment {
    /// Returns the segment, if the endpoint has one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Segment> {
        self.segment.as_ref()
    }

    /// Exports `bytes` bytes of zeroed memory.
    pub(crate) fn export(
        &mut self,
        context: &RankContext,
        (name, block): (Name, &Shared<EndpointBlock>),
        bytes: u64,
    ) -> Result<Segment> {
        if let Some(segment) = &self.segment {
            return Err(ErrorKind::HasSegment(segment.len() as u64).into());
        }
        debug_assert!(self.reserved == 0, "reserved before it was exported");
        self.offset = context.reserve_segment(bytes, bytes)?;
        self.reserved = bytes;
        self.announce(context, (name, block), bytes)
    }

    /// Exports memory that later calls with more bytes let grow, up to `reserved` bytes of the
    /// first call.
    pub(crate) fn export_growing(
        &mut self,
        context: &RankContext,
        (name, block): (Name, &Shared<EndpointBlock>),
        reserved: u64,
        bytes: u64,
    ) -> Result<Segment> {
        match &self.segment {
            Some(segment) if segment.len() as u64 >= bytes => return Ok(segment.clone()),
            Some(_) if bytes > self.reserved => {
                return Err(ErrorKind::HasSegment(self.reserved).into());
            }
            Some(_) => context.commit_segment(self.offset, bytes)?,
            None => {
                debug_assert!(self.reserved == 0, "reserved before it was exported");
                let reserved = reserved.max(bytes);
                self.offset = context.reserve_segment(reserved, bytes)?;
                self.reserved = reserved;
            }
        }
        self.announce(context, (name, block), bytes)
    }

    /// Makes the first `bytes` bytes known to peers.
    fn announce(
        &mut self,
        context: &RankContext,
        (name, block): (Name, &Shared<EndpointBlock>),
        bytes: u64,
    ) -> Result<Segment> {
        debug_assert!(bytes <= self.reserved, "more is announced than was reserved");
        debug_assert!(name.rank() == context.rank(), "another rank's endpoint");
        let grown = |segment: &Segment| segment.len() as u64 <= bytes;
        debug_assert!(self.segment.as_ref().is_none_or(grown), "a segment does not shrink");
        let at = (self.offset, bytes);
        let segment = segment::announce(context.node(), context.rank(), block, at)?;
        debug_assert!(segment.len() as u64 == bytes, "announced {bytes}, got {}", segment.len());
        self.segment = Some(segment.clone());
        if let Some(network) = context.network() {
            network.set_segment(name, Some(segment.clone()));
        }
        Ok(segment)
    }

    /// Gives the memory back; peers that still have it mapped keep their mapping.
    pub(crate) fn close(&mut self, context: &RankContext) {
        if self.segment.take().is_some() {
            context.give_back_segment(self.offset, self.reserved);
        }
        debug_assert!(self.segment.is_none(), "the memory is given back and still used");
    }
}
