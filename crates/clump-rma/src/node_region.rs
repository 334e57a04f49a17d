//! Memory that a node owns, and that outlives the ranks that use it.

use crate::error::{Refusal, Result, refused};
use crate::rma::Rma;
use crate::target::Target;
use clump_os::map::{Mapping, PAGE};
use clump_os::sync::AtomicU64;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::geometry::REGION_SPACE;
use clump_shm::region::Pages;
use clump_shm::supply::MachineSupply;
use std::ops::Deref;
use std::ptr::NonNull;

/// Properties of a region of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionOptions {
    /// Bytes of address space, up to which it may grow; rounded up to whole pages of 4 KiB.
    pub reserved: u64,
    /// The pages requested for it.
    pub pages: Pages,
}

impl Default for RegionOptions {
    /// Returns the largest address space of a region, 1 TiB, and pages of 4 KiB.
    fn default() -> Self {
        Self { reserved: REGION_SPACE, pages: Pages::Base }
    }
}

/// A region of this rank's node, to operate on as any other [`Target`]. It lasts until the job
/// ends, whether or not a rank that uses it lives; dropping this closes only this rank's access.
///
/// A region is sparse: untouched memory costs nothing and reads as zero. Operations of ranks of
/// other nodes on memory that the machine does not have are refused ([`crate::Refusal::NoMemory`]).
/// Ranks of its node have it mapped: a store of theirs to memory that cannot be had ends the rank
/// by SIGBUS, unless [`NodeRegion::commit`] has allocated it before.
#[derive(Debug)]
pub struct NodeRegion {
    target: Target,
}

/// A region mapped once more, until it is dropped.
#[derive(Debug)]
pub struct RegionView {
    cells: Cells,
}

impl Rma {
    /// Opens region `number` (0 to 15) of this rank's node, and makes it at least `bytes` bytes
    /// long. The first rank that opens it creates it; all give the same options.
    ///
    /// # Errors
    /// Fails if there is no such number, if the region is there with other properties, if it has
    /// address space for fewer bytes, or if address space of this process has run out (the error
    /// names the limit).
    pub fn node_region(
        &self,
        number: u8,
        bytes: u64,
        options: RegionOptions,
    ) -> Result<NodeRegion> {
        let memory = self.inner.context.node();
        let RegionOptions { reserved, pages } = options;
        let name = SegmentName::of_node(self.inner.context.node_number(), number);
        debug_assert!(self.inner.context.home_of(name) < self.inner.context.nnodes(), "a node");
        memory.open_region(name, reserved, pages)?;
        memory.grow_region(name, bytes)?;
        let target = self.target(name)?;
        debug_assert!(target.is_near(), "a rank opens regions of its own node");
        debug_assert!(target.near_end() >= bytes & !7, "it has the requested length");
        Ok(NodeRegion { target })
    }

    /// Returns region `number` of a node, to operate on. On another node, only an operation shows
    /// whether it has been created.
    ///
    /// # Errors
    /// Fails as [`Rma::target`] does.
    pub fn target_on(&self, node: u32, number: u8) -> Result<Target> {
        let target = self.target(SegmentName::of_node(node, number))?;
        debug_assert_eq!(target.node, node, "a region is on the node that owns it");
        Ok(target)
    }
}

impl NodeRegion {
    /// Makes the region `bytes` bytes long, if it is shorter. New bytes are zero, and cost nothing
    /// until they are touched. Operations that reach beyond the length known find the new one.
    ///
    /// # Errors
    /// Fails if that is more than was reserved.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        let memory = self.target.inner.context.node();
        memory.grow_region(self.target.name(), bytes)?;
        debug_assert!(self.bytes() >= bytes, "a region does not shrink");
        Ok(())
    }

    /// Returns the number of bytes that may be accessed now.
    pub fn bytes(&self) -> u64 {
        let found = self.target.inner.context.node().extent_of(self.target.name());
        debug_assert!(found.is_some(), "a region lasts as long as its job");
        found.map_or(0, |extent| extent.bytes)
    }

    /// Allocates memory for `[offset, offset + bytes)` now, in whole pages: stores there need no
    /// more.
    ///
    /// # Errors
    /// Fails if memory has run out, or if that is outside of the region.
    pub fn commit(&self, offset: u64, bytes: u64) -> Result<()> {
        self.target.check(offset, bytes)?;
        let page = PAGE as u64;
        let (start, end) = (offset & !(page - 1), (offset + bytes).next_multiple_of(page));
        debug_assert!(start <= offset && end >= offset + bytes, "all of it");
        if bytes != 0 {
            let node = self.target.inner.context.node();
            let mut supply = MachineSupply::new(node.ranks());
            let committed = node.commit(self.target.name(), (start, end - start), &mut supply);
            committed.map_err(|error| match error {
                clump_shm::Error::NoMemory { .. } => {
                    refused(self.name(), offset, Refusal::NoMemory)
                }
                error => error.into(),
            })?;
        }
        Ok(())
    }

    /// Maps the region once more, all of its address space: views of one region show the same
    /// bytes. Bytes beyond [`NodeRegion::bytes`] must not be touched.
    ///
    /// # Errors
    /// Fails if address space of this process has run out.
    pub fn map(&self) -> Result<RegionView> {
        let found = self.target.inner.context.node().map_registered(self.target.name())?;
        self.view(found.map(|(map, _)| map))
    }

    /// Maps the region once more at `address`, a multiple of 4096, all of its address space. An
    /// existing mapping there is never replaced.
    ///
    /// # Errors
    /// Fails if something is mapped in that range, or if no process may use it.
    pub fn map_at(&self, address: usize) -> Result<RegionView> {
        let memory = self.target.inner.context.node();
        let view = self.view(memory.map_registered_at(self.target.name(), address)?)?;
        debug_assert_eq!(view.base().addr().get(), address, "there and nowhere else");
        Ok(view)
    }

    fn view(&self, map: Option<Mapping>) -> Result<RegionView> {
        let missing = || refused(self.name(), 0, Refusal::NoSuchSegment);
        Ok(RegionView { cells: Cells::over(map.ok_or_else(missing)?) })
    }
}

impl Deref for NodeRegion {
    type Target = Target;

    fn deref(&self) -> &Target {
        &self.target
    }
}

impl RegionView {
    /// Returns the address of the first byte. Other processes read and write the memory, so only
    /// atomics and raw copies may be used on it, and only up to the region's length.
    pub fn base(&self) -> NonNull<u8> {
        self.cells.base()
    }

    /// Returns the bytes of address space that are mapped.
    pub fn reserved(&self) -> u64 {
        self.cells.bytes()
    }

    /// Returns the word at `offset`; `None` if it is not aligned, or outside of the address space.
    pub fn word(&self, offset: u64) -> Option<&AtomicU64> {
        self.cells.word(offset)
    }
}
