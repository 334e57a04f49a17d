//! Private memory for bulk work: page-aligned ranges of one arena, and how much of it is in use.
//!
//! A first touch of a page costs far more than its use (in a virtual machine about 1 us), so that
//! phases which follow each other take their buffers from one [`Arena`] and reuse the pages.

use crate::error::{OsError, Result};
use crate::file::BLOCK;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a huge page: an arena that uses them may have one more resident than was touched.
pub const HUGE: usize = 2 << 20;

/// Minimal bytes of an arena that requests huge pages.
pub const HUGE_FROM: usize = 16 * HUGE;

/// A private mapping, unmapped when dropped.
#[derive(Debug)]
struct Mapped {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Mapped is an address range; its owners below decide which part may be touched.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `bytes`, a multiple of the page. Large ranges start on a huge page and request such
    /// pages; only the requested pages stay mapped.
    fn new(bytes: usize) -> Result<Self> {
        if bytes < HUGE_FROM {
            return Self::map(bytes);
        }
        let mut wide = Self::map(bytes + HUGE)?;
        let front = wide.base.as_ptr().align_offset(HUGE);
        let back = HUGE - front;
        // SAFETY: both ranges are inside the mapping that `wide` owns and leave its middle alone;
        // the base moves inside the mapping.
        unsafe {
            if front > 0 {
                let _ = rustix::mm::munmap(wide.base.as_ptr().cast(), front);
            }
            wide.base = wide.base.add(front);
            if back > 0 {
                let _ = rustix::mm::munmap(wide.base.add(bytes).as_ptr().cast(), back);
            }
        }
        wide.bytes = bytes;
        // SAFETY: advice on a range that this value owns; contents do not change.
        let _ = unsafe {
            rustix::mm::madvise(wide.base.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage)
        };
        Ok(wide)
    }

    fn map(bytes: usize) -> Result<Self> {
        let call = || format!("mapping {bytes} bytes of memory");
        // SAFETY: a fresh private mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|e| OsError::new(call(), e))?;
        let base =
            NonNull::new(base.cast::<u8>()).ok_or_else(|| OsError::new(call(), Errno::FAULT))?;
        Ok(Self { base, bytes })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly the range that is still mapped, and this is its only owner.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Maps `bytes` of zeroed memory, rounded up to whole pages, that is never given back: nothing
/// besides is allocated, which a search for leaks would report. Pages cost memory once touched.
///
/// # Errors
/// Address space has run out.
pub fn zeroed_for_ever(bytes: usize) -> Result<NonNull<u8>> {
    let mapped = Mapped::new(bytes.max(1).next_multiple_of(BLOCK))?;
    let base = mapped.base;
    std::mem::forget(mapped);
    Ok(base)
}

#[derive(Debug)]
struct Shared {
    mapped: Mapped,
    /// Free ranges as (start, bytes), in order, not touching each other.
    free: Mutex<Vec<(usize, usize)>>,
}

/// Address space from which page-aligned memory is taken and to which it is given back. Clones
/// share it.
#[derive(Debug, Clone)]
pub struct Arena(Arc<Shared>);

impl Arena {
    /// Creates an arena of `bytes`, rounded up to whole pages. Nothing is resident before it is
    /// touched.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn new(bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(BLOCK);
        let free = Mutex::new(vec![(0, bytes)]);
        Ok(Self(Arc::new(Shared { mapped: Mapped::new(bytes)?, free })))
    }

    /// Takes `bytes`, rounded up to whole pages, from the lowest range that has so many in a row;
    /// returns `None` if there is none. The contents are what an earlier owner left.
    pub fn take(&self, bytes: usize) -> Option<Aligned> {
        let bytes = bytes.max(1).next_multiple_of(BLOCK);
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.iter().position(|&(_, room)| room >= bytes)?;
        let (start, room) = free[at];
        if room == bytes {
            free.remove(at);
        } else {
            free[at] = (start + bytes, room - bytes);
        }
        Some(Aligned { arena: self.0.clone(), start, bytes })
    }
}

/// Page-aligned memory of this process alone; returned to its arena when dropped.
#[derive(Debug)]
pub struct Aligned {
    arena: Arc<Shared>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    /// Takes `bytes`, rounded up to whole pages, of zeroed memory in an arena of its own.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn new(bytes: usize) -> Result<Self> {
        let arena = Arena::new(bytes)?;
        arena.take(bytes).ok_or_else(|| OsError::new("taking new memory", Errno::NOMEM))
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: the range that `take` handed out is inside the arena's mapping.
        unsafe { self.arena.mapped.base.as_ptr().add(self.start) }
    }
}

impl Deref for Aligned {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped while the arena lives, initialised by the kernel, and handed
        // out to no other owner before this is dropped: the free list holds every byte at most
        // once.
        unsafe { std::slice::from_raw_parts(self.base(), self.bytes) }
    }
}

impl DerefMut for Aligned {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base(), self.bytes) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        let mut free = self.arena.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.partition_point(|&(start, _)| start < self.start);
        free.insert(at, (self.start, self.bytes));
        if free.get(at + 1).is_some_and(|next| self.start + self.bytes == next.0) {
            free[at].1 += free.remove(at + 1).1;
        }
        if at > 0 && free[at - 1].0 + free[at - 1].1 == free[at].0 {
            free[at - 1].1 += free.remove(at).1;
        }
    }
}

/// Prefetches the cache line at `bytes[at]` before it is needed; without effect beyond the end.
#[inline(always)]
pub fn prefetch(bytes: &[u8], at: usize) {
    if let Some(byte) = bytes.get(at) {
        prefetch_at(byte);
    }
}

/// Prefetches the cache line of an address before it is needed: a hint, also where nothing is
/// mapped.
#[inline(always)]
pub fn prefetch_at(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program could see, and never faults.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Prefetches a cache line as [`prefetch_at`] does, and takes it from other processors, since it
/// will be written.
#[inline(always)]
pub fn prefetch_for_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint as above; processors that do not have it take it for no operation.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Returns the anonymous memory of this process that is resident now, in bytes (proc(5),
/// `RssAnon`).
pub fn anonymous_bytes() -> Option<u64> {
    status_bytes("RssAnon:")
}

/// Returns the most memory of any kind that this process ever had resident, in bytes (proc(5),
/// `VmHWM`).
pub fn peak_resident_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

fn status_bytes(field: &str) -> Option<u64> {
    // It contains the name of the program, which is any bytes.
    let status = std::fs::read("/proc/self/status").ok()?;
    let value = |line: &[u8]| {
        let text = std::str::from_utf8(line).ok()?.strip_prefix(field)?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let kib = status.split(|&byte| byte == b'\n').find_map(value)?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_is_zeroed_aligned_and_no_longer_than_asked_for() {
        let mut memory = Aligned::new(HUGE_FROM + 5).unwrap();
        assert_eq!(memory.len(), HUGE_FROM + BLOCK);
        assert_eq!(memory.as_ptr().align_offset(HUGE), 0);
        assert!(memory.iter().all(|&b| b == 0));
        memory.fill(7);
        assert_eq!(Aligned::new(0).unwrap().len(), BLOCK);
        prefetch(&memory, 5);
        prefetch(&memory, usize::MAX);
        prefetch_for_write(&memory[5]);
        prefetch_for_write(std::ptr::null());
    }

    #[test]
    fn pieces_of_an_arena_are_apart_and_come_back_whole() {
        let arena = Arena::new(8 * BLOCK).unwrap();
        // Give back in every order, and see that the whole can be taken again.
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let sizes = [BLOCK, 3 * BLOCK - 7, 4 * BLOCK];
            let mut pieces: Vec<_> = sizes.iter().map(|&n| arena.take(n)).collect();
            for (i, piece) in pieces.iter_mut().enumerate() {
                piece.as_mut().unwrap().fill(i as u8 + 1);
            }
            for (i, piece) in pieces.iter().enumerate() {
                assert!(piece.as_ref().unwrap().iter().all(|&b| b == i as u8 + 1));
            }
            assert!(arena.take(1).is_none());
            order.iter().for_each(|&i| pieces[i] = None);
            assert_eq!(arena.take(8 * BLOCK).unwrap().len(), 8 * BLOCK);
        }
    }

    #[test]
    fn memory_in_use_can_be_read() {
        assert!(anonymous_bytes().unwrap() > 0);
        assert!(peak_resident_bytes().unwrap() >= anonymous_bytes().unwrap());
    }
}
