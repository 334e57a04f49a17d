//! The channel: skeleton, being filled in.

use crate::{Config, Nanos, SackBuf, Stats};
use clump_wire::Header;

/// What a packet's unit is to the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seen for the first time: to be delivered.
    New,
    /// Delivered before, or refused: to be dropped.
    Duplicate,
    /// The packet carries none.
    None,
}

/// What came of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// What its unit is.
    pub unit: Unit,
}

/// The reliable path to one peer.
#[derive(Debug, Default)]
pub struct Channel {
    stats: Stats,
}

impl Channel {
    /// A channel over which nothing has gone.
    pub fn new(_config: &Config, _now: Nanos) -> Self {
        Self::default()
    }

    /// Bytes of new units that may go out now; 0: none. With nothing under way and the peer's window
    /// open, always enough for one unit of any length.
    pub fn room(&self, _now: Nanos) -> usize {
        0
    }

    /// Notes the first transmission of the next unit, of `bytes` bytes; its number. Stamp its packet with the same `now`.
    pub fn send_unit(&mut self, _now: Nanos, _bytes: usize) -> u64 {
        0
    }

    /// A unit to send again: call [`resend_unit`](Self::resend_unit) before asking for the next.
    pub fn poll_lost(&mut self, _now: Nanos) -> Option<u64> {
        None
    }

    /// Notes that a unit goes out again. Stamp its packet with the same `now`.
    pub fn resend_unit(&mut self, _now: Nanos, _unit: u64) {}

    /// Whether a packet without a unit is due, for what it acknowledges or asks.
    pub fn wants_ack(&self, _now: Nanos) -> bool {
        false
    }

    /// Fills in number, acks, window, marks, times and flags; kind and unit are the caller's. Acks count as sent.
    pub fn stamp(&mut self, _now: Nanos, _header: &mut Header, _sack: &mut SackBuf) {}

    /// Whether a packet of this number has been taken in, or is too old to tell.
    pub fn is_replay(&self, _number: u64) -> bool {
        false
    }

    /// Takes in an authenticated packet of `bytes` bytes, of any kind but `Heartbeat`.
    pub fn handle_packet(
        &mut self,
        now: Nanos,
        header: &Header,
        sack: &[u64],
        bytes: usize,
        ce: bool,
    ) -> Arrival {
        self.handle_late(now, 0, header, sack, bytes, ce)
    }

    /// The same for a packet that had waited so long in the receive queue (kernel timestamp, or the time since
    /// the poll before): then neither side takes a process that computes for a congested network.
    pub fn handle_late(
        &mut self,
        _now: Nanos,
        _waited: Nanos,
        _header: &Header,
        _sack: &[u64],
        _bytes: usize,
        _ce: bool,
    ) -> Arrival {
        Arrival { unit: Unit::None }
    }

    /// A unit whose buffer is free now, in order of their numbers, each once.
    pub fn poll_acked(&mut self) -> Option<u64> {
        None
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do, if nothing else happens.
    pub fn next_timeout(&self) -> Option<Nanos> {
        None
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, _now: Nanos) {}

    /// Bytes that the other side may have under way to this one.
    pub fn set_receive_window(&mut self, _bytes: u32) {}

    /// Whether nothing is unacknowledged.
    pub fn is_quiet(&self) -> bool {
        true
    }

    /// Whether data has arrived that was not acknowledged yet.
    pub fn owes_ack(&self) -> bool {
        false
    }

    /// Length of the longest datagram that the path is known to carry.
    pub fn datagram_bytes(&self) -> usize {
        1232
    }

    /// A `Probe` packet to send, of so many bytes; it is stamped as any other.
    pub fn poll_probe(&mut self, _now: Nanos) -> Option<usize> {
        None
    }

    /// A `ProbeAck` packet to send: what to put into its `unit`.
    pub fn poll_probe_ack(&mut self) -> Option<u64> {
        None
    }

    /// The system refused a datagram of so many bytes (EMSGSIZE).
    pub fn handle_too_big(&mut self, _now: Nanos, _bytes: usize) {}

    /// How long nothing has arrived.
    pub fn silent_for(&self, _now: Nanos) -> Nanos {
        0
    }

    /// Counts and estimates.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}
