//! What a channel counts.

use crate::Nanos;

/// Counts and present estimates of one channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Smoothed round trip (RFC 6298); 0: not yet known.
    pub srtt: Nanos,
    /// Its variation.
    pub rttvar: Nanos,
    /// The least round trip of the last seconds.
    pub min_rtt: Nanos,
    /// Bytes that may be under way.
    pub window: usize,
    /// Bytes that are under way.
    pub in_flight: usize,
    /// Units sent for the first time.
    pub units_sent: u64,
    /// Units sent again.
    pub retransmits: u64,
    /// Units found lost by packets that overtook them.
    pub losses: u64,
    /// Times that nothing came back for so long that a unit was sent again.
    pub timeouts: u64,
    /// Units sent again that had arrived the first time.
    pub spurious: u64,
    /// Units that arrived for the first time.
    pub units_received: u64,
    /// Units that arrived again.
    pub duplicates: u64,
    /// Packets whose number had been seen, or is too old to tell.
    pub replays: u64,
    /// Packets that claim what cannot be: acks of units never sent, units far ahead.
    pub refused: u64,
    /// Times that the window shrank because of delay.
    pub delay_cuts: u64,
    /// Times that the window shrank because of marks.
    pub mark_cuts: u64,
    /// Times that the window shrank because of loss.
    pub loss_cuts: u64,
    /// Packets that arrived with a mark of congestion.
    pub marked: u64,
    /// Requests to a peer that had closed its window, or was silent.
    pub asks: u64,
    /// Times that long datagrams were given up because only short ones arrived.
    pub black_holes: u64,
}
