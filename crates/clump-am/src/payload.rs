//! The payload of a message, as its handler sees it.

use clump_shm::bulk::SharedBytes;
use std::marker::PhantomData;

/// Bytes that came with a message: in the bulk ring (medium) or in this endpoint's segment (long).
///
/// They lie in memory that other processes can write, so they are copied out, never borrowed
/// (a slice would promise the compiler that nobody changes them).
#[derive(Debug)]
pub struct Payload<'a> {
    bytes: SharedBytes,
    offset: Option<u64>,
    life: PhantomData<&'a ()>,
}

impl Payload<'_> {
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Self::new(SharedBytes::EMPTY, None)
    }

    #[inline(always)]
    pub(crate) fn new(bytes: SharedBytes, offset: Option<u64>) -> Self {
        Self { bytes, offset, life: PhantomData }
    }

    /// Bytes of the payload; 0 for short messages.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// For a long message: where in this endpoint's segment the bytes lie.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Copies the first `to.len()` bytes, or all there are; returns how many.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        self.bytes.copy_to(to)
    }

    /// Copies from byte `from` on, up to `to.len()` bytes; returns how many.
    pub fn copy_part(&self, from: usize, to: &mut [u8]) -> usize {
        self.bytes.part(from, to.len()).copy_to(to)
    }

    /// Appends all bytes to `to`.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        self.bytes.append_to(to);
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.append_to(&mut all);
        all
    }
}
