//! Control before data: small messages go ahead of waiting units (paper 003, section 4: locks and
//! control messages queue behind page transfers in the interface unless they have a path of their
//! own).
//!
//! A message that is small, carries no payload and asks for no order is packed into a unit of its
//! own while others wait. That unit is sent first, also a little beyond the window, which bulk
//! keeps full. It may not fill more than a quarter of a unit between two units of bulk; a message
//! that finds no room there queues with the others. So bulk always proceeds, and with nothing
//! waiting all messages share packets as before.

use super::send_buffer::SendBuffer;
use super::{HEADROOM, InFlightUnit, Outbox};
use clump_wire::frame::{self, FrameHead, FrameKind, Route};

/// Share of a unit that fits a message of the largest size.
const MIN_SHARE: usize = 256;

/// The unit that goes ahead, and an account of what went ahead.
#[derive(Debug, Default)]
pub(super) struct UrgentUnit {
    send_buffer: Option<SendBuffer>,
    route: Option<Route>,
    /// Bytes that went ahead since the last unit of bulk.
    ahead: usize,
    /// Number of units that have gone ahead of others.
    units: u64,
}

impl UrgentUnit {
    pub(super) fn is_empty(&self) -> bool {
        self.send_buffer.is_none()
    }

    /// Returns the frames that wait in it.
    pub(super) fn body(&self) -> &[u8] {
        self.send_buffer
            .as_ref()
            .and_then(|send_buffer| send_buffer.packets().get(HEADROOM..))
            .unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        (self.send_buffer, self.route) = (None, None);
    }

    /// Returns how many unit numbers were given to units that went ahead of others.
    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// Notes that a unit of bulk is sent.
    #[inline]
    pub(super) fn on_bulk(&mut self) {
        self.ahead = 0;
    }
}

/// Returns true if a message is control: it may overtake data.
#[inline]
pub(crate) fn is_control(head: &FrameHead, payload: &[u8]) -> bool {
    let small = matches!(
        head.kind,
        FrameKind::Short | FrameKind::Credit | FrameKind::Ask | FrameKind::Returned
    );
    small && payload.is_empty() && head.order.is_none() && head.fragment.is_none()
}

impl Outbox {
    /// Returns the bytes that may go ahead between two units of bulk.
    fn share(&self) -> usize {
        (self.pool.capacity() / 4).max(MIN_SHARE)
    }

    /// Returns true if a control message would find room ahead of waiting units.
    pub(crate) fn has_urgent_room(&self) -> bool {
        self.has_batch() && self.urgent.body().len() + MIN_SHARE <= self.share()
    }

    /// Returns true if a unit of control messages waits.
    #[inline]
    pub(crate) fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Packs a control message to go ahead of waiting units; returns false if there is no room for
    /// it there.
    pub(super) fn append_urgent(&mut self, head: &FrameHead, words: &[u64]) -> bool {
        let same = self.urgent.route == Some(head.route);
        let need = frame::frame_bytes(head, same, words.len(), 0);
        if self.urgent.body().len() + need > self.share() {
            return false;
        }
        let share = self.share();
        let send_buffer = self.urgent.send_buffer.get_or_insert_with(|| {
            let mut send_buffer = SendBuffer::for_one(share);
            send_buffer.begin();
            send_buffer
        });
        let before = send_buffer.len();
        frame::append(send_buffer.end(), head, same, words, &[]);
        self.waiting += send_buffer.len() - before;
        self.urgent.route = Some(head.route);
        true
    }

    /// Returns the bytes of the unit that may go ahead now.
    #[inline]
    pub(crate) fn urgent_bytes(&self) -> Option<usize> {
        if self.urgent.is_empty() {
            return None;
        }
        let bytes = self.urgent.body().len();
        let in_share = self.urgent.ahead + bytes <= self.share();
        (in_share || !self.has_whole()).then_some(bytes)
    }

    /// Moves the unit that goes ahead to the units in flight. It takes the number that the next of
    /// the others would have had; recorded numbers of those shift by one.
    pub(crate) fn launch_urgent(&mut self) {
        let Some(mut own) = self.urgent.send_buffer.take() else { return };
        self.urgent.route = None;
        let place = own.finish(0, 0, self.pool.tail());
        let (number, bytes) = (self.base + self.units_in_flight.len() as u64, place.bytes());
        self.urgent.ahead += bytes;
        self.urgent.units += 1;
        self.waiting -= bytes;
        if !self.spans.is_empty() {
            for units_in_flight in self
                .units_in_flight
                .iter_mut()
                .filter(|units_in_flight| units_in_flight.kept_for >= number)
            {
                units_in_flight.kept_for += 1;
            }
        }
        for (first, last) in self.spans.iter_mut().rev().take_while(|(_, last)| *last >= number) {
            *first += u64::from(*first >= number);
            *last += 1;
        }
        for last in self.begun.iter_mut().filter_map(|begun| begun.last.as_mut()) {
            *last += u64::from(*last >= number);
        }
        self.units_in_flight.push_back(InFlightUnit::apart(own, place, number));
    }
}
