//! The next packet to send: one decision a packet.

use super::Channel;
use crate::Nanos;
use clump_wire::PacketKind;

/// Time for which further control messages are expected after one went ahead of data.
const CONTROL_NS: Nanos = 2_000_000;

/// Units that wait at the sender for their first transmission, as lengths of their packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
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
    /// A unit that the driver did not take when it was offered last.
    Refused,
    /// A unit that was lost, or that nothing was heard of for too long.
    Resend,
    /// The waiting unit of control messages, which is to be launched.
    Control,
    /// The next waiting unit of data, which is to be launched.
    Data,
    /// An answer to a probe of the peer.
    ProbeAck,
    /// Acknowledgements, or a request for them.
    Ack,
    /// Padding, up to the length of the packet.
    Probe,
}

/// A packet to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Next {
    /// Its content.
    pub content: Content,
    /// The unit to be sent again, or the length of the probe that is answered.
    pub unit: u64,
    /// Length of the packet of a unit, or of a probe. A unit that is longer than the path carries
    /// goes in packets of kind `Fragment`, each stamped by the caller.
    pub bytes: usize,
}

impl Next {
    /// Returns the kind of its packet.
    #[inline]
    pub fn packet_kind(&self) -> PacketKind {
        match self.content {
            Content::ProbeAck => PacketKind::ProbeAck,
            Content::Ack => PacketKind::Ack,
            Content::Probe => PacketKind::Probe,
            _ => PacketKind::Data,
        }
    }
}

impl<U> Channel<U> {
    /// Returns the next packet to send; the caller launches its unit if it has not been sent
    /// before, and stamps its header. What the driver has not taken goes first, then lost units,
    /// then control messages, then data as far as the windows allow, then an acknowledgement or a
    /// probe that is due.
    #[inline]
    pub fn next(&mut self, now: Nanos, backlog: &Backlog) -> Option<Next> {
        self.backpressure.release(now);
        if self.backpressure.deadline().is_some() {
            return None;
        }
        let again = self.send.has_again() || self.retransmit.must_probe();
        if again && let Some(again) = self.poll_lost_unit(now) {
            debug_assert!(!self.has_arrived(again.unit), "only what is missing is sent again");
            self.resend_unit(now, again.unit);
            let content = if again.refused { Content::Refused } else { Content::Resend };
            return Some(Next { content, unit: again.unit, bytes: again.bytes });
        }
        // After most lone messages nothing waits: the window need not be checked.
        if backlog.control.is_some() || backlog.data.is_some() {
            let beside = self.is_beside_control(now);
            let room = if beside { self.room_beside_control(now) } else { self.room(now) };
            if let Some(bytes) = backlog.control
                && (room > 0 || self.window.admits_control(bytes, &self.send))
            {
                self.control_until = now + CONTROL_NS;
                self.ask = true;
                return Some(Next { content: Content::Control, unit: 0, bytes });
            }
            if let Some(bytes) = backlog.data.filter(|_| room > 0) {
                // Control messages wait for the data before them: more waits than the peer can
                // know.
                self.ask |= beside && backlog.ends_buffer;
                return Some(Next { content: Content::Data, unit: 0, bytes });
            }
        }
        if let Some(probed) = self.poll_probe_ack() {
            return Some(Next { content: Content::ProbeAck, unit: probed, bytes: 0 });
        }
        if self.wants_ack(now) {
            return Some(Next { content: Content::Ack, unit: 0, bytes: 0 });
        }
        debug_assert!(!self.ask_alone, "a request goes with the acknowledgement");
        let bytes = self.poll_probe(now)?;
        Some(Next { content: Content::Probe, unit: 0, bytes })
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
