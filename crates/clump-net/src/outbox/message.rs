//! Messages on their way into units, and those that come back out of them.

use clump_wire::frame::{FrameHead, FrameKind};

/// Progress of a long message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes packed so far.
    pub done: usize,
    /// The number it was given when it began.
    pub message: Option<u64>,
}

/// The available fragment of a payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PayloadFragment<'a> {
    /// Bytes of the whole payload.
    pub(crate) total: usize,
    /// Offset of `bytes` in the payload.
    pub(crate) at: usize,
    /// The available bytes.
    pub(crate) bytes: &'a [u8],
}

impl<'a> PayloadFragment<'a> {
    /// Wraps a payload that is available as a whole.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { total: bytes.len(), at: 0, bytes }
    }

    /// Returns the available bytes from offset `from` of the payload on.
    pub(super) fn rest(&self, from: usize) -> &'a [u8] {
        debug_assert!(self.at + self.bytes.len() <= self.total, "a fragment of the payload");
        debug_assert!(from >= self.at, "fragments are packed in their order");
        let behind = from.checked_sub(self.at).and_then(|from| self.bytes.get(from..));
        behind.unwrap_or_default()
    }
}

/// A message to be packed, or the fragment of it that is available.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageBody<'a> {
    pub(crate) head: FrameHead,
    pub(crate) words: &'a [u64],
    pub(crate) payload: PayloadFragment<'a>,
}

/// Returns true if a message is control: it may overtake data.
#[inline]
pub(super) fn is_control(head: &FrameHead, payload: &[u8]) -> bool {
    let small = matches!(
        head.kind,
        FrameKind::Short | FrameKind::Credit | FrameKind::Ask | FrameKind::Returned
    );
    small && payload.is_empty() && head.order.is_none() && head.fragment.is_none()
}
