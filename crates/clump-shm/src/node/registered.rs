//! Registered memory of a node: what ranks export, and the regions that the node owns, under one
//! kind of name.

use super::NodeMemory;
use crate::cells::Cells;
use crate::export::{Extent, SegmentName, SegmentOwner};
use crate::geometry::{NODE_REGIONS, PAGE, REGION_SPACE};
use crate::region::{Pages, RegionShape, RegionTable};
use crate::supply::{self, MemorySupply};
use crate::{Error, Result};
use clump_os::map::Mapping;
use std::ops::Range;

impl NodeMemory {
    /// Returns the number of the node that holds the memory of that name; a number beyond the last
    /// node if none has it.
    #[inline]
    pub fn home_of(&self, name: SegmentName) -> u32 {
        match name.owner() {
            SegmentOwner::Rank(rank) => {
                let home = self.node_of(rank);
                debug_assert_eq!(home == self.node, self.is_local(rank), "ranks of this node");
                home
            }
            SegmentOwner::Node(node) => node,
        }
    }

    /// Returns the extent of the memory of that name; `None` when none of this node is registered
    /// under it now, or it is outside of its owner's space.
    pub fn extent_of(&self, name: SegmentName) -> Option<Extent> {
        self.find(name).map(|(extent, _)| extent)
    }

    /// Maps the memory of that name, all that it may grow to. Returns `None` as
    /// [`NodeMemory::extent_of`] does.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn map_registered(&self, name: SegmentName) -> Result<Option<(Mapping, Extent)>> {
        let Some((extent, pages)) = self.find(name) else { return Ok(None) };
        let Ok(len) = usize::try_from(extent.reserved) else { return Ok(None) };
        let map = self.map(extent.offset, len)?;
        advise(&map, name, pages);
        debug_assert_eq!(map.bytes(), len, "all that it may grow to");
        debug_assert!(map.bytes() as u64 >= extent.bytes, "what may be accessed is mapped");
        Ok(Some((map, extent)))
    }

    /// Maps, for an observer, the pages of `bytes` bytes at `offset` of the memory of that name,
    /// and returns the place of those bytes in them. Returns `None` as [`NodeMemory::extent_of`]
    /// does, and if they may not all be accessed.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub fn map_part(
        &self,
        name: SegmentName,
        (offset, bytes): (u64, u64),
    ) -> Result<Option<(Cells, u64)>> {
        let page = PAGE as u64;
        let Some(extent) = self.extent_of(name) else { return Ok(None) };
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= extent.bytes);
        let first = offset - offset % page;
        let place = offset - first;
        debug_assert!(place < page, "a place in the first page");
        let len = usize::try_from((place + bytes).next_multiple_of(page));
        match len {
            Ok(len) if is_inside && bytes != 0 => {
                Ok(Some((Cells::over(self.map(extent.offset + first, len)?), place)))
            }
            _ => Ok(None),
        }
    }

    /// Maps the memory of that name at `address`, all that it may grow to. Returns `None` as
    /// [`NodeMemory::extent_of`] does.
    ///
    /// # Errors
    /// Something else is mapped there, or the memory cannot be mapped.
    pub fn map_registered_at(&self, name: SegmentName, address: usize) -> Result<Option<Mapping>> {
        let Some((extent, pages)) = self.find(name) else { return Ok(None) };
        let Ok(len) = usize::try_from(extent.reserved) else { return Ok(None) };
        let map = Mapping::shared_at(&self.fd, extent.offset, len, address)?;
        advise(&map, name, pages);
        debug_assert_eq!(map.bytes(), len, "all that it may grow to");
        debug_assert_eq!(map.base().addr().get(), address, "there and nowhere else");
        Ok(Some(map))
    }

    /// Maps the memory of that name, all that it may grow to, in place of private memory of this
    /// process: from an address on, of which so many bytes are replaced. Returns `None` as
    /// [`NodeMemory::extent_of`] does.
    ///
    /// # Errors
    /// Something else is mapped behind those bytes, or the memory cannot be mapped.
    ///
    /// # Safety
    /// As for [`Mapping::shared_over`].
    pub unsafe fn map_registered_over(
        &self,
        name: SegmentName,
        place: (usize, usize),
    ) -> Result<Option<Mapping>> {
        let Some((extent, pages)) = self.find(name) else { return Ok(None) };
        let Ok(len) = usize::try_from(extent.reserved) else { return Ok(None) };
        // SAFETY: the caller gives up the bytes there.
        let map = unsafe { Mapping::shared_over(&self.fd, extent.offset, len, place) }?;
        advise(&map, name, pages);
        debug_assert_eq!(map.base().addr().get(), place.0, "there and nowhere else");
        Ok(Some(map))
    }

    fn find(&self, name: SegmentName) -> Option<(Extent, Pages)> {
        let (extent, space, pages) = match name.owner() {
            SegmentOwner::Rank(rank) => {
                // An interface has no space for segments.
                let block = self.rank(rank).filter(|_| self.is_local(rank))?;
                let (generation, extent) = block.exports().look_up(name.index())?;
                if generation != name.generation() {
                    return None;
                }
                let slot = self.geometry.slot_of(rank)?;
                let space = self.geometry.segments(slot)..self.geometry.segments(slot + 1);
                (extent, space, Pages::Huge)
            }
            SegmentOwner::Node(_) => {
                let number = region_number(self, name)?;
                let (shape, bytes) = self.regions().ok()?.look_up(number)?;
                let offset = self.geometry.region(number);
                let extent = Extent { offset, reserved: shape.reserved, bytes };
                (extent, offset..offset + REGION_SPACE, shape.pages)
            }
        };
        debug_assert!(space.end <= self.geometry.total_bytes(), "spaces lie in the file");
        is_inside(extent, &space).then_some((extent, pages))
    }

    /// Creates a region of this node, or of a virtual one, with address space for `reserved` bytes,
    /// or finds the one that is there. All of it is zero, and none of it may be accessed yet.
    ///
    /// # Errors
    /// There is no region of that name; `reserved` is 0 or too much; the region is there with
    /// other properties.
    pub fn open_region(&self, name: SegmentName, reserved: u64, pages: Pages) -> Result<()> {
        let refused = |found| Error::Region { number: name.index(), reserved, found };
        let number = region_number(self, name).ok_or_else(|| refused(None))?;
        if !(1..=REGION_SPACE).contains(&reserved) {
            return Err(refused(None));
        }
        let shape = RegionShape { reserved: reserved.next_multiple_of(PAGE as u64), pages };
        debug_assert!(shape.reserved >= reserved, "at least the requested bytes");
        let found = self.regions()?.open(number, shape);
        match found {
            Some(found) if found == shape => Ok(()),
            _ => Err(refused(found)),
        }
    }

    /// Makes a region `bytes` bytes long, if it is shorter.
    ///
    /// # Errors
    /// There is no such region, or it has address space for fewer bytes.
    pub fn grow_region(&self, name: SegmentName, bytes: u64) -> Result<()> {
        let refused = |found| Error::Region { number: name.index(), reserved: bytes, found };
        let number = region_number(self, name).ok_or_else(|| refused(None))?;
        let regions = self.regions()?;
        if regions.grow(number, bytes) {
            return Ok(());
        }
        Err(refused(regions.look_up(number).map(|(shape, _)| shape)))
    }

    /// Allocates memory for `bytes` bytes at an offset of what is registered under `name`, as far
    /// as the supply grants it, so that a full machine is an error here and not the end of a
    /// process at a store.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn commit(
        &self,
        name: SegmentName,
        (offset, bytes): (u64, u64),
        supply: &mut dyn MemorySupply,
    ) -> Result<()> {
        let whole = |extent: &Extent| {
            offset.checked_add(bytes).is_some_and(|end| end <= extent.reserved) && bytes != 0
        };
        let Some(extent) = self.extent_of(name).filter(whole) else {
            return Err(Error::NotANode("memory to be committed lies outside of its segment"));
        };
        debug_assert!((offset | bytes).is_multiple_of(PAGE as u64), "memory is committed in pages");
        debug_assert!(extent.offset + offset + bytes <= self.geometry.total_bytes(), "of the file");
        let range = (extent.offset + offset, bytes);
        supply::commit(self.fd(), supply, range).map_err(|(error, _)| error)
    }

    fn regions(&self) -> Result<RegionTable> {
        let all = self.geometry.region_owners() * NODE_REGIONS;
        debug_assert!(all >= NODE_REGIONS, "those of one node at least");
        super::place_slice(&self.front, self.geometry.region_table(), all).map(RegionTable)
    }
}

/// Returns the number of a region among all that a memory has; `None` if it has no such one.
fn region_number(memory: &NodeMemory, name: SegmentName) -> Option<usize> {
    let SegmentOwner::Node(node) = name.owner() else { return None };
    // A file with the regions of several nodes has those of all virtual ones, and is node 0's.
    let owner = node.checked_sub(memory.node)?;
    debug_assert!(memory.geometry.region_owners() == 1 || memory.node == 0, "one machine has all");
    let is_known = name == SegmentName::of_node(node, name.index());
    memory.geometry.region_number(owner, name.index()).filter(|_| is_known)
}

/// Returns true if an extent, which another process wrote, is one inside its owner's space.
fn is_inside(extent: Extent, space: &Range<u64>) -> bool {
    debug_assert!(space.start <= space.end, "a space has bounds");
    debug_assert!(
        (space.start | space.end).is_multiple_of(PAGE as u64),
        "which are those of pages"
    );
    let Extent { offset, reserved, bytes } = extent;
    let ends_inside = offset.checked_add(reserved).is_some_and(|end| end <= space.end);
    let aligned = (offset | reserved).is_multiple_of(PAGE as u64);
    offset >= space.start && ends_inside && aligned && reserved != 0 && bytes <= reserved
}

/// Advises the kernel of the pages that the memory is to have. Regions, which may be huge and
/// mostly empty, stay out of core dumps.
fn advise(map: &Mapping, name: SegmentName, pages: Pages) {
    debug_assert!(map.bytes().is_multiple_of(PAGE), "advice is about pages");
    match pages {
        Pages::Huge => map.advise_huge(),
        Pages::Base => map.advise_base(),
    }
    if matches!(name.owner(), SegmentOwner::Node(_)) {
        map.advise_no_dump();
    }
}
