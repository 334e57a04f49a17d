//! The memory of a node, as those that run its protocol access it.

use clump_interface::{Memory, NodeSegments, ServiceContext};
use clump_onesided::Refusal;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;

/// Access to the regions of a node.
pub(crate) trait NodeRegions {
    /// Returns the region of that name, if `[offset, offset + bytes)` of it may be accessed now.
    ///
    /// # Errors
    /// Fails with the reason if it may not be accessed.
    fn segment(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<&Cells, Refusal>;
}

impl NodeRegions for ServiceContext<'_> {
    fn segment(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<&Cells, Refusal> {
        ServiceContext::segment(self, name, offset, bytes)
    }
}

impl NodeRegions for NodeSegments {
    fn segment(&mut self, name: SegmentName, offset: u64, bytes: u64) -> Result<&Cells, Refusal> {
        Memory::segment(self, name, offset, bytes)
    }
}
