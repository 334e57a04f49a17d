//! Payload bytes in shared memory: the bulk ring of a lane, and bytes that must not be borrowed.
//!
//! The sender of a lane writes an entry in one piece, never across the end of the ring, and the
//! receiver computes its position from the lengths of the entries before it: no offset is read from
//! shared memory (invariant 5 of the crate).

use std::ptr::NonNull;

/// The bytes of a bulk ring in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct Bulk {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: only raw copies go through it; the slices of the lane keep the memory mapped.
unsafe impl Send for Bulk {}

impl Bulk {
    /// # Safety
    /// `bytes` bytes from `base` stay mapped while the lane that holds this lives.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
        debug_assert!(bytes != 0 && bytes.is_multiple_of(LINE), "a ring is made of whole lines");
        Self { base, bytes }
    }

    /// Returns the bytes that the ring holds.
    pub(crate) fn len(self) -> usize {
        self.bytes
    }

    /// Returns where an entry of `len` bytes starts when the ring's position is `at`: never across
    /// the end.
    pub(crate) fn place(self, at: u64, len: usize) -> u64 {
        debug_assert!(len <= self.bytes, "an entry fits into the ring");
        let ring = self.bytes as u64;
        let left = ring - at % ring;
        let start = if left < len as u64 { at + left } else { at };
        debug_assert!(start % ring + len as u64 <= ring, "no entry lies across the end");
        debug_assert!(start - at < ring, "no more than the rest of a lap is skipped");
        start
    }

    pub(crate) fn address(self, at: u64) -> NonNull<u8> {
        // SAFETY: the remainder lies inside the ring.
        unsafe { self.base.add((at % self.bytes as u64) as usize) }
    }

    /// Returns the `len` bytes of an entry that starts at `at`, as [`Bulk::place`] returned it, or
    /// fewer where the ring ends before them.
    pub(crate) fn bytes_at(self, at: u64, len: usize) -> SharedBytes {
        let left = self.bytes - (at % self.bytes as u64) as usize;
        debug_assert!((1..=self.bytes).contains(&left), "a position lies inside of the ring");
        SharedBytes { base: self.address(at), len: len.min(left) }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Returns the bytes that an entry takes: entries of a bulk ring start on cache lines.
pub(crate) fn padded(len: usize) -> u64 {
    len.next_multiple_of(LINE) as u64
}

/// Bytes in shared memory: a sender may still be able to write them, so they are only copied, never
/// borrowed.
#[derive(Debug, Clone, Copy)]
pub struct SharedBytes {
    base: NonNull<u8>,
    len: usize,
}

impl SharedBytes {
    /// No bytes.
    pub const EMPTY: SharedBytes = SharedBytes { base: NonNull::dangling(), len: 0 };

    /// # Safety
    /// `len` bytes from `base` stay mapped for as long as the value is used.
    pub unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns their address.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.base.as_ptr()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes from `from`, at most `len` of them; clamped to what there is.
    pub fn part(&self, from: usize, len: usize) -> SharedBytes {
        let from = from.min(self.len);
        let len = len.min(self.len - from);
        debug_assert!(from + len <= self.len, "a part ends inside of the whole");
        // SAFETY: `from` is at most `len`.
        SharedBytes { base: unsafe { self.base.add(from) }, len }
    }

    /// Copies the first `to.len()` bytes, or all there are; returns how many.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let len = self.len.min(to.len());
        debug_assert!(
            len == 0 || !to.as_ptr_range().contains(&self.base.as_ptr().cast_const()),
            "shared bytes are not borrowed"
        );
        // SAFETY: both ranges hold `len` bytes; `to` is private memory, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr(), to.as_mut_ptr(), len) };
        len
    }

    /// Appends all bytes to `to`.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        let before = to.len();
        to.reserve(self.len);
        debug_assert!(to.capacity() - before >= self.len, "there is room behind the vector");
        // SAFETY: `reserve` made room for `len` bytes behind the vector's length; they are
        // initialized by the copy before the length grows.
        unsafe {
            let end = to.as_mut_ptr().add(before);
            std::ptr::copy_nonoverlapping(self.base.as_ptr(), end, self.len);
            to.set_len(before + self.len);
        }
    }
}
