//! Control before data: small messages go ahead of waiting units (paper 003, section 4: locks and
//! control messages queue behind page transfers in the interface unless they have a path of their
//! own).
//!
//! A message that is small, carries no payload and asks for no order is packed into a unit of its
//! own while others wait. That unit is sent first, also a little beyond the window, which bulk
//! keeps full. It may not fill more than a quarter of a unit between two units of bulk; a message
//! that finds no room there queues with the others. So bulk always proceeds, and with nothing
//! waiting all messages share packets as before.

use super::layout::HEADROOM;
use super::send_buffer::{BufferRange, SendBuffer};
use clump_wire::frame::{self, FrameHead, Route};

/// Share of a unit that fits a message of the largest size.
const MIN_SHARE: usize = 256;

/// The unit that goes ahead, and an account of what went ahead.
#[derive(Debug, Default)]
pub(super) struct ControlUnit {
    send_buffer: Option<SendBuffer>,
    route: Option<Route>,
    /// Bytes that went ahead since the last unit of bulk.
    ahead: usize,
}

impl ControlUnit {
    /// Returns true if no control message waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.send_buffer.is_none()
    }

    /// Returns the frames that wait in it.
    pub(super) fn body(&self) -> &[u8] {
        debug_assert!(self.route.is_none() || self.send_buffer.is_some(), "a route is of a unit");
        let packets = self.send_buffer.as_ref().map(SendBuffer::packets);
        packets.and_then(|packets| packets.get(HEADROOM..)).unwrap_or_default()
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        (self.send_buffer, self.route) = (None, None);
        debug_assert!(self.is_empty() && self.body().is_empty());
    }

    /// Notes that a unit of bulk is sent.
    #[inline]
    pub(super) fn on_bulk(&mut self) {
        self.ahead = 0;
    }

    /// Returns true if a control message would find room; units are of `capacity` bytes.
    pub(super) fn has_room(&self, capacity: usize) -> bool {
        self.body().len() + MIN_SHARE <= share(capacity)
    }

    /// Packs a message; returns false if there is no room for it.
    pub(super) fn append(&mut self, head: &FrameHead, words: &[u64], capacity: usize) -> bool {
        let (same, share) = (self.route == Some(head.route), share(capacity));
        debug_assert!(head.order.is_none() && head.fragment.is_none(), "it may overtake others");
        let need = frame::frame_bytes(head, same, words.len(), 0);
        if self.body().len() + need > share {
            return false;
        }
        let send_buffer = self.send_buffer.get_or_insert_with(|| {
            let mut send_buffer = SendBuffer::for_one(share);
            send_buffer.begin();
            send_buffer
        });
        frame::append(send_buffer, head, same, words, &[]);
        self.route = Some(head.route);
        debug_assert!(self.body().len() <= share, "bulk keeps its share");
        true
    }

    /// Returns the bytes of the unit if it may go ahead now. `alone`: no whole unit of bulk waits.
    #[inline]
    pub(super) fn bytes_due(&self, capacity: usize, alone: bool) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let bytes = self.body().len();
        debug_assert!(bytes > 0, "it holds a message");
        let in_share = self.ahead + bytes <= share(capacity);
        (in_share || alone).then_some(bytes)
    }

    /// Takes the unit to send it, with `tail` bytes behind it.
    pub(super) fn take(&mut self, tail: usize) -> Option<(SendBuffer, BufferRange)> {
        let mut own = self.send_buffer.take()?;
        self.route = None;
        let place = own.finish(0, 0, tail);
        debug_assert!(place.bytes() > 0, "it holds a message");
        debug_assert!(own.units == 1, "a buffer of its own");
        self.ahead += place.bytes();
        Some((own, place))
    }
}

/// Returns the bytes that may go ahead between two units of bulk.
#[inline]
fn share(capacity: usize) -> usize {
    (capacity / 4).max(MIN_SHARE)
}
