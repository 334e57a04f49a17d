//! The payload of a message, as its handler sees it.

use clump_shm::bulk::SharedBytes;

/// Bytes that came with a message: in the bulk ring (medium) or in this endpoint's segment (long).
///
/// They are in memory that other processes can write, so they are copied out, never borrowed (a
/// slice would promise the compiler that they do not change).
#[derive(Debug)]
pub struct Payload<'a> {
    bytes: Bytes<'a>,
    offset: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Bytes<'a> {
    /// In memory that other processes can write.
    Shared(SharedBytes),
    /// In this process's own: in a packet from another node.
    Own(&'a [u8]),
}

impl<'a> Payload<'a> {
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Self::own(&[])
    }

    #[inline(always)]
    pub(crate) fn new(bytes: SharedBytes, offset: Option<u64>) -> Self {
        Self { bytes: Bytes::Shared(bytes), offset }
    }

    #[inline(always)]
    pub(crate) fn own(bytes: &'a [u8]) -> Self {
        Self { bytes: Bytes::Own(bytes), offset: None }
    }

    /// Returns the same bytes for a second use: returning a message to its sender after a handler
    /// saw it.
    #[inline(always)]
    pub(crate) fn reborrow(&self) -> Payload<'a> {
        Payload { bytes: self.bytes, offset: self.offset }
    }

    /// Returns the payload's length in bytes; 0 for short messages.
    #[inline]
    pub fn len(&self) -> usize {
        match self.bytes {
            Bytes::Shared(bytes) => bytes.len(),
            Bytes::Own(bytes) => bytes.len(),
        }
    }

    /// Returns true if the payload has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of the bytes, valid until the handler returns, for callers that cannot
    /// copy them first. They are not to be borrowed: other processes may be able to write them.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        match self.bytes {
            Bytes::Shared(bytes) => bytes.as_ptr(),
            Bytes::Own(bytes) => bytes.as_ptr(),
        }
    }

    /// Returns the offset of the bytes in this endpoint's segment, for a long message.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Copies the first `to.len()` bytes, or all there are; returns how many.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        self.copy_part(0, to)
    }

    /// Copies from byte `from` on, up to `to.len()` bytes; returns how many.
    pub fn copy_part(&self, from: usize, to: &mut [u8]) -> usize {
        let copied = match self.bytes {
            Bytes::Shared(bytes) => bytes.part(from, to.len()).copy_to(to),
            Bytes::Own(bytes) => {
                let rest = bytes.get(from..).unwrap_or_default();
                let most = rest.len().min(to.len());
                to[..most].copy_from_slice(&rest[..most]);
                most
            }
        };
        debug_assert!(copied <= to.len(), "more than there is space for");
        debug_assert_eq!(copied, to.len().min(self.len().saturating_sub(from)), "all there are");
        copied
    }

    /// Appends all bytes to `to`.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        let before = to.len();
        match self.bytes {
            Bytes::Shared(bytes) => bytes.append_to(to),
            Bytes::Own(bytes) => to.extend_from_slice(bytes),
        }
        debug_assert_eq!(to.len() - before, self.len(), "the copy has all of it");
    }

    /// Returns a copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.append_to(&mut all);
        all
    }
}
