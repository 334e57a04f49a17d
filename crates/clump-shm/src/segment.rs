//! Segments: exported memory, mapped for deposits.

use crate::bulk::SharedBytes;
use crate::export::{Extent, SegmentName};
use crate::node::NodeMemory;
use crate::supply::{self, MachineSupply, MemorySupply};
use crate::{Error, Result};
use clump_os::map::{self, Mapping, PAGE};
use std::ptr::NonNull;

#[cfg(test)]
mod tests;

/// A mapped segment, the owner's or a peer's.
#[derive(Debug, Clone)]
pub struct Segment {
    map: Mapping,
    bytes: usize,
}

impl Segment {
    /// Maps the segment that is exported under that name, as long as it is now; returns `None` when
    /// there is none, or when it is outside of its rank's space.
    ///
    /// # Errors
    /// The segment cannot be mapped.
    pub fn exported(node: &NodeMemory, name: SegmentName) -> Result<Option<Self>> {
        let Some(Extent { offset, bytes, .. }) = node.extent_of(name) else { return Ok(None) };
        let Some(len) = usize::try_from(bytes).ok().filter(|&len| len != 0) else {
            return Ok(None);
        };
        let map = node.map(offset, len.next_multiple_of(PAGE))?;
        debug_assert!(map.bytes() >= len, "all of the segment is mapped");
        map.advise_huge();
        Ok(Some(Self { map, bytes: len }))
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns its address in this process, valid as long as this value or a clone of it lives.
    /// Other processes write it.
    pub fn base(&self) -> NonNull<u8> {
        self.map.base()
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns true if `[offset, offset + len)` lies inside.
    pub fn holds(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.bytes as u64)
    }

    fn address(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.bytes, "an address inside, or the end");
        // SAFETY: callers checked `holds`.
        unsafe { self.map.base().add(offset) }
    }

    /// Copies `data` to `offset`; returns false, and writes nothing, when it does not fit.
    pub fn write(&self, offset: u64, data: &[u8]) -> bool {
        if !self.holds(offset, data.len() as u64) {
            return false;
        }
        let to = self.address(offset as usize);
        // SAFETY: in bounds (just checked); `data` is private, so the ranges do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.as_ptr(), data.len()) };
        true
    }

    /// Runs `work` on the bytes `[offset, offset + len)`, for a deposit that is received there;
    /// returns false, without a call, when they are not all inside. `work` only moves bytes there
    /// and reads them as bytes.
    pub fn with_bytes_mut(&self, offset: u64, len: u64, work: &mut dyn FnMut(&mut [u8])) -> bool {
        if !self.holds(offset, len) {
            return false;
        }
        let to = self.address(offset as usize);
        // SAFETY: in bounds (just checked), mapped as long as this value lives, and any bytes are
        // valid. Other processes may write there meanwhile, as during any deposit: that is a race
        // of the program, and `work` relies on nothing that it has read twice.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), len as usize) };
        debug_assert_eq!(bytes.len() as u64, len, "all of it");
        work(bytes);
        true
    }

    /// Returns the bytes `[offset, offset + len)`; `None` when they are not all inside.
    pub fn bytes(&self, offset: u64, len: u64) -> Option<SharedBytes> {
        if !self.holds(offset, len) {
            return None;
        }
        // SAFETY: in bounds (just checked); the holder of the segment keeps it mapped.
        let bytes = unsafe { SharedBytes::new(self.address(offset as usize), len as usize) };
        debug_assert!(bytes.len() <= self.bytes, "a part is no longer than the whole");
        Some(bytes)
    }
}

/// Allocator of the segment space of one rank, first fit.
#[derive(Debug)]
pub struct SegmentSpace {
    node: NodeMemory,
    start: u64,
    end: u64,
    /// End of what was ever taken.
    next: u64,
    /// Memory that was given back and not taken again: offset and bytes.
    free: Vec<(u64, u64)>,
    supply: Box<dyn MemorySupply>,
}

impl SegmentSpace {
    /// Creates the allocator of all of the space of `rank`, of this node. One per rank.
    ///
    /// # Errors
    /// The rank is of another node.
    pub fn new(node: &NodeMemory, rank: u32) -> Result<Self> {
        Self::with_supply(node, rank, Box::new(MachineSupply::new(node.ranks())))
    }

    /// Creates the allocator of all of the space of `rank`; `supply` decides which memory can be
    /// had for it.
    ///
    /// # Errors
    /// The rank is of another node.
    pub fn with_supply(
        node: &NodeMemory,
        rank: u32,
        supply: Box<dyn MemorySupply>,
    ) -> Result<Self> {
        let (g, here) = (node.geometry(), node.is_local(rank));
        let slot = g.slot_of(rank).filter(|_| here);
        let slot = slot.ok_or(Error::NotANode("this rank has no segments in it"))?;
        let (start, end) = (g.segments(slot), g.segments(slot + 1));
        debug_assert!((start | end).is_multiple_of(PAGE as u64), "memory is taken in pages");
        debug_assert!(start < end && end <= g.total_bytes(), "the space lies in the file");
        Ok(Self { node: node.clone(), start, end, next: start, free: Vec::new(), supply })
    }

    /// Takes `bytes` bytes of committed memory; returns their offset in the node's memory.
    ///
    /// # Errors
    /// The rank's space is used up, or the system has no memory left.
    pub fn take(&mut self, bytes: u64) -> Result<u64> {
        self.take_reserved(bytes, bytes)
    }

    /// Takes `reserved` bytes of address space of which the first `bytes` are committed.
    ///
    /// # Errors
    /// The rank's space is used up, or the system has no memory left.
    pub fn take_reserved(&mut self, reserved: u64, bytes: u64) -> Result<u64> {
        let page = PAGE as u64;
        let too_long = Error::SegmentSpace { asked: reserved, free: self.end - self.next };
        let whole = reserved.max(bytes).checked_next_multiple_of(page).ok_or(too_long)?.max(page);
        debug_assert!(whole >= reserved && whole >= bytes, "at least the requested bytes");
        let fit = self.free.iter().position(|&(_, len)| len >= whole);
        let offset = if let Some(index) = fit {
            let (offset, len) = self.free.swap_remove(index);
            debug_assert!(len >= whole, "the first fit is long enough");
            if len > whole {
                self.free.push((offset + whole, len - whole));
            }
            offset
        } else if whole <= self.end - self.next {
            self.next += whole;
            self.next - whole
        } else {
            return Err(Error::SegmentSpace { asked: whole, free: self.end - self.next });
        };
        let now = bytes.next_multiple_of(page).max(page);
        if let Err(error) = self.commit_range(offset, now) {
            self.free.push((offset, whole));
            return Err(error);
        }
        debug_assert!(now <= whole, "no more is committed than was reserved");
        self.check_is_taken(offset, whole);
        self.check_invariants();
        Ok(offset)
    }

    /// Asserts that a range to be taken or freed is within the space ever taken, and is not free.
    fn check_is_taken(&self, offset: u64, whole: u64) {
        debug_assert!(
            offset >= self.start && offset + whole <= self.next,
            "memory of this rank's space"
        );
        debug_assert!(
            self.free.iter().all(|&(free, len)| free + len <= offset || offset + whole <= free),
            "free space has no owner and is not freed again"
        );
    }

    /// Asserts the relations between the fields.
    pub(crate) fn check_invariants(&self) {
        debug_assert!(self.start <= self.next && self.next <= self.end, "the space has bounds");
        debug_assert!(self.next.is_multiple_of(PAGE as u64), "memory is taken in pages");
        for (at, &(offset, len)) in self.free.iter().enumerate() {
            debug_assert!(
                len != 0 && (offset | len).is_multiple_of(PAGE as u64),
                "free memory is made of pages"
            );
            debug_assert!(
                offset >= self.start && offset + len <= self.next,
                "free memory was taken before"
            );
            debug_assert!(
                self.free[..at].iter().all(|&(o, l)| o + l <= offset || offset + len <= o),
                "no page is free twice"
            );
        }
    }

    /// Commits more of what was reserved at `offset`: all up to `bytes`, of which the first
    /// `before` are committed.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn commit(&mut self, offset: u64, before: u64, bytes: u64) -> Result<()> {
        let page = PAGE as u64;
        let (start, end) = (before.next_multiple_of(page), bytes.next_multiple_of(page));
        self.check_is_taken(offset, end);
        self.commit_range(offset + start, end.saturating_sub(start))
    }

    /// Commits pages that hold nothing yet; none if not all can be had.
    fn commit_range(&mut self, offset: u64, bytes: u64) -> Result<()> {
        debug_assert!(offset >= self.start && offset + bytes <= self.end, "this rank's space");
        let (fd, supply) = (self.node.fd(), &mut *self.supply);
        supply::commit(fd, supply, (offset, bytes)).map_err(|(error, done)| {
            if done > 0 {
                // Failing to punch the hole only means that the memory stays.
                let _ = map::release(fd, offset, done);
            }
            error
        })
    }

    /// Gives memory back that was taken here.
    pub fn give_back(&mut self, offset: u64, bytes: u64) {
        let whole = bytes.next_multiple_of(PAGE as u64).max(PAGE as u64);
        self.check_is_taken(offset, whole);
        // Failing to punch the hole only means that the memory stays until the job ends.
        let _ = map::release(self.node.fd(), offset, whole);
        self.free.push((offset, whole));
        self.check_invariants();
    }
}
