//! The next packet to send: one question a packet, answered with what it carries and its header.

use super::Channel;
use crate::{Nanos, SackBuf};
use clump_wire::{Header, PacketKind};

/// Time for which further control messages are expected after one went ahead of data.
const CONTROL_NS: Nanos = 2_000_000;

/// Units that wait at the sender for their first transmission, as lengths of their packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The unit of control messages, which may go ahead of data.
    pub control: Option<usize>,
    /// The next unit of data.
    pub data: Option<usize>,
    /// True if the unit of data behind that one lies, or will lie, in another send buffer.
    pub ends_buffer: bool,
}

/// Content of a packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The unit of that number again: it was lost, or nothing was heard for too long.
    Resend,
    /// The waiting unit of control messages.
    Control,
    /// The next waiting unit of data.
    Data,
    /// The length that a probe of the peer had.
    ProbeAck,
    /// Acknowledgements, or a request for them.
    Ack,
    /// Padding, up to a packet of so many bytes.
    Probe(usize),
}

/// A packet to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Transmit {
    /// Its content; the header has kind and unit.
    pub content: Content,
    /// True if the path does not carry its unit in one packet any more. The header is not stamped
    /// then: the unit goes in packets of kind `Fragment`, each stamped by the caller.
    pub oversized: bool,
}

impl<U> Channel<U> {
    /// Returns the next packet to send, and fills in its header. Lost units go first, then control
    /// messages, then data as far as the windows allow, then an acknowledgement or a probe that is
    /// due. `launch` gives the body of the unit that waits, of control messages or of data, when it
    /// is sent; `None` if there is none after all.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Nanos,
        waiting: Waiting,
        header: &mut Header,
        sack: &mut SackBuf,
        launch: impl FnOnce(Content) -> Option<U>,
    ) -> Option<Transmit> {
        if let Some((content, unit, bytes)) = self.poll_unit(now, waiting, launch) {
            debug_assert!(unit < self.send.next_unit(), "a unit that was counted as sent");
            (header.kind, header.unit) = (PacketKind::Data, unit);
            let oversized = bytes > self.mtu.current();
            if !oversized {
                self.stamp(now, header, sack);
            }
            return Some(Transmit { content, oversized });
        }
        let content = self.poll_answer(now, header, sack)?;
        Some(Transmit { content, oversized: false })
    }

    /// Returns the packet without a unit that is due, and fills in its header. For when no unit can
    /// be sent, as when the driver takes no more.
    #[inline]
    pub fn poll_answer(
        &mut self,
        now: Nanos,
        header: &mut Header,
        sack: &mut SackBuf,
    ) -> Option<Content> {
        let content = self.answer_due(now, header)?;
        debug_assert!(header.kind != PacketKind::Data, "it carries no unit");
        self.stamp(now, header, sack);
        Some(content)
    }

    /// Returns the next unit to send, its number, and the length of its packet.
    #[inline]
    fn poll_unit(
        &mut self,
        now: Nanos,
        waiting: Waiting,
        launch: impl FnOnce(Content) -> Option<U>,
    ) -> Option<(Content, u64, usize)> {
        if let Some(lost) = self.poll_lost_unit(now) {
            debug_assert!(!self.has_arrived(lost.unit), "only what is missing is sent again");
            self.resend_unit(now, lost.unit);
            return Some((Content::Resend, lost.unit, lost.bytes));
        }
        if waiting.control.is_none() && waiting.data.is_none() {
            return None; // as after most lone messages: the window need not be checked
        }
        debug_assert!(waiting.control != Some(0) && waiting.data != Some(0), "with a header");
        let beside = self.is_beside_control(now);
        let room = if beside { self.room_beside_control(now) } else { self.room(now) };
        if let Some(bytes) = waiting.control
            && (room > 0 || self.admits_control(bytes))
        {
            let unit = self.send_unit(now, bytes, launch(Content::Control)?);
            self.control_until = now + CONTROL_NS;
            self.ask = true;
            return Some((Content::Control, unit, bytes));
        }
        let bytes = waiting.data.filter(|_| room > 0)?;
        let unit = self.send_unit(now, bytes, launch(Content::Data)?);
        // Control messages wait for the data before them: more waits than the peer can know.
        self.ask |= beside && waiting.ends_buffer;
        Some((Content::Data, unit, bytes))
    }

    /// Returns the packet without a unit that is due.
    #[inline]
    fn answer_due(&mut self, now: Nanos, header: &mut Header) -> Option<Content> {
        if let Some(bytes) = self.probed.take() {
            (header.kind, header.unit) = (PacketKind::ProbeAck, bytes);
            return Some(Content::ProbeAck);
        }
        header.unit = 0;
        if self.wants_ack(now) {
            header.kind = PacketKind::Ack;
            return Some(Content::Ack);
        }
        debug_assert!(!self.ask_alone, "a request goes with the acknowledgement");
        let bytes = self.mtu.poll_probe(now)?;
        header.kind = PacketKind::Probe;
        Some(Content::Probe(bytes))
    }

    /// Returns true if a burst of so many bytes should wait beside control messages: there is room
    /// for a part of it only, and the acknowledgements of bytes in flight will make room for all.
    #[inline]
    pub fn defers_burst(&self, now: Nanos, bytes: usize) -> bool {
        if !self.is_beside_control(now) {
            return false;
        }
        let room = self.room_beside_control(now);
        room < bytes && self.send.bytes_in_flight() >= bytes && room < self.room(now)
    }

    /// Returns true if data leaves room for control messages at the receiver.
    #[inline]
    fn is_beside_control(&self, now: Nanos) -> bool {
        now < self.control_until
    }
}
