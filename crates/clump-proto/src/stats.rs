//! Counters of a channel.

use crate::Nanos;

/// Counts and current estimates of one channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Smoothed round trip (RFC 6298); 0: not yet known.
    pub srtt: Nanos,
    /// Its variation.
    pub rttvar: Nanos,
    /// The least round trip of the last seconds.
    pub min_rtt: Nanos,
    /// Bytes that may be in flight.
    pub window: usize,
    /// Bytes that the path itself holds: in no socket of either side.
    pub on_path: usize,
    /// Bytes that are in flight.
    pub in_flight: usize,
    /// Units sent for the first time.
    pub units_sent: u64,
    /// Units sent again.
    pub retransmits: u64,
    /// Units found lost by packets that overtook them.
    pub losses: u64,
    /// Silences so long that a unit was sent again.
    pub timeouts: u64,
    /// Units sent again although the first transmission had arrived.
    pub spurious: u64,
    /// Units that arrived for the first time.
    pub units_received: u64,
    /// Units that arrived again.
    pub duplicates: u64,
    /// Packets whose number had been seen, or is too old to tell.
    pub replays: u64,
    /// Packets with impossible contents: acks of units never sent, units far ahead.
    pub refused: u64,
    /// Times that the window shrank because of delay.
    pub delay_cuts: u64,
    /// Times that the window shrank because of marks.
    pub mark_cuts: u64,
    /// Times that the window shrank because of loss.
    pub loss_cuts: u64,
    /// Packets that arrived with a congestion mark.
    pub marked: u64,
    /// Probes of a peer that had closed its window, or was silent.
    pub asks: u64,
    /// Times that long datagrams were given up because only short ones arrived.
    pub black_holes: u64,
}
