//! Regions that a node owns: memory that outlives the ranks that use it.
//!
//! A region has a number and, from it, a window of the node's memory file ([`REGION_SPACE`] bytes
//! each); so nothing has to be allocated, and no rank can die in the middle of that. One
//! compare-and-swap creates a region, and it lasts until the job ends. Windows are sparse:
//! untouched pages cost nothing and read as zero.

use crate::geometry::{PAGE, REGION_ENTRY, REGION_SPACE};
use crate::shared::{SharedLayout, SharedSlice};
use clump_os::sync::{AtomicU64, Ordering};

/// Size of the pages requested for a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// Pages of 4 KiB, and never larger ones.
    #[default]
    Base,
    /// Huge pages, where the machine has some to give.
    Huge,
}

/// The properties of a region that never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionShape {
    /// Bytes that it may grow to, whole pages.
    pub reserved: u64,
    /// The pages requested for it.
    pub pages: Pages,
}

/// Bit of a shape's word that requests huge pages; the rest is `reserved`, whole pages.
const HUGE_BIT: u64 = 1;

impl RegionShape {
    fn pack(self) -> u64 {
        let bits = self.reserved | if self.pages == Pages::Huge { HUGE_BIT } else { 0 };
        debug_assert_eq!(Self::unpack(bits), Some(self), "a shape is read as it was written");
        bits
    }

    /// Reads a shape that any rank may have written; `None` for none, and for what is none.
    fn unpack(bits: u64) -> Option<Self> {
        let pages = if bits & HUGE_BIT == 0 { Pages::Base } else { Pages::Huge };
        let reserved = bits & !HUGE_BIT;
        let sane = reserved.is_multiple_of(PAGE as u64) && (1..=REGION_SPACE).contains(&reserved);
        sane.then_some(Self { reserved, pages })
    }
}

/// A region in the table.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RegionEntry {
    /// Shape of the region; 0 until it is created.
    shape: AtomicU64,
    /// Bytes that may be accessed now.
    bytes: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl SharedLayout for RegionEntry {}
const _: () = assert!(size_of::<RegionEntry>() == REGION_ENTRY);

/// The table of the regions, which any rank of the node may write.
#[derive(Debug)]
pub(crate) struct RegionTable(pub(crate) SharedSlice<RegionEntry>);

impl RegionTable {
    /// Creates region `number`, unless it is there; returns its shape, which may differ from
    /// `shape`. `None` if there is no such number.
    pub(crate) fn open(&self, number: usize, shape: RegionShape) -> Option<RegionShape> {
        debug_assert!(shape.reserved <= REGION_SPACE, "a region lies in its window");
        debug_assert!(shape.reserved.is_multiple_of(PAGE as u64), "and is made of pages");
        let entry = self.0.get(number)?;
        let (new, old) = (Ordering::AcqRel, Ordering::Acquire);
        match entry.shape.compare_exchange(0, shape.pack(), new, old) {
            Ok(_) => Some(shape),
            Err(found) => RegionShape::unpack(found),
        }
    }

    /// Makes the first `bytes` bytes of a region accessible; a region never shrinks. Returns false
    /// if there is no such region, or it cannot be so long.
    pub(crate) fn grow(&self, number: usize, bytes: u64) -> bool {
        let entry = self.0.get(number);
        let shape = self.look_up(number).map(|(shape, _)| shape);
        let (Some(entry), Some(shape)) = (entry, shape) else { return false };
        debug_assert!(number < self.0.len(), "a region has a number of the table");
        let fits = bytes <= shape.reserved;
        if fits {
            debug_assert!(bytes <= REGION_SPACE, "a region ends in its window");
            entry.bytes.fetch_max(bytes, Ordering::AcqRel);
        }
        fits
    }

    /// Returns the shape of a region, and the bytes of it that may be accessed now.
    pub(crate) fn look_up(&self, number: usize) -> Option<(RegionShape, u64)> {
        let entry = self.0.get(number)?;
        let shape = RegionShape::unpack(entry.shape.load(Ordering::Acquire))?;
        // Any rank may have written them.
        let bytes = entry.bytes.load(Ordering::Acquire).min(shape.reserved);
        debug_assert!(bytes <= REGION_SPACE, "a region lies in its window");
        Some((shape, bytes))
    }
}
