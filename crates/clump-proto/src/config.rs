//! Settings of a channel.

use crate::Nanos;

/// Choice of the window of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// From delay, marks and loss (ADR 12).
    Adaptive,
    /// Always so many bytes: for the laboratory, whose parameters congestion control must not
    /// disturb.
    Static(usize),
}

/// Settings of a channel. Both ends should choose the same delays.
#[derive(Debug, Clone)]
pub struct Config {
    /// Choice of the window.
    pub congestion: Congestion,
    /// Bytes that may be in flight at first.
    pub initial_window_bytes: usize,
    /// Bytes that may be in flight at most, on a path that holds as many.
    pub max_window_bytes: usize,
    /// Bytes that may be in flight at most on a path without length, beside those that the path
    /// itself holds.
    pub near_window_bytes: usize,
    /// Bytes that the other side may have in flight to this one at first.
    pub receive_window_bytes: u32,
    /// Queueing delay above the least round trip that does not count as congestion.
    pub delay_target: Nanos,
    /// Longest time for which an acknowledgement waits for a packet to ride on.
    pub ack_delay: Nanos,
    /// Packets of data after which an acknowledgement waits no longer.
    pub ack_packets: u32,
    /// Least time for which the last packets stay unacknowledged before one is sent again.
    pub probe_floor: Nanos,
    /// Least such time after the first has been sent again in vain.
    pub timeout_floor: Nanos,
    /// Longest such time after many retransmissions.
    pub timeout_max: Nanos,
    /// Time after which a silent peer is probed; `None`: never.
    pub keepalive: Option<Nanos>,
    /// True if control messages go ahead of waiting data, and a little beyond the window. Off for
    /// comparison.
    pub control_first: bool,
    /// Length of datagrams that every path carries: the fallback of a path that gets narrower.
    pub base_datagram_bytes: usize,
    /// Length of datagrams at first: the base, or a length that nearly every path carries.
    pub first_datagram_bytes: usize,
    /// Longer lengths to try, in growing order; the first twelve count. Empty: never try.
    pub datagram_candidates: Vec<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            congestion: Congestion::Adaptive,
            // TRANSPORT: data in flight that stays in the caches beats flooding 5 to 30 times.
            initial_window_bytes: 64 << 10,
            max_window_bytes: 64 << 20,
            near_window_bytes: 1 << 20,
            receive_window_bytes: 1 << 20,
            delay_target: 100_000,
            ack_delay: 25_000,
            ack_packets: 64,
            probe_floor: 50_000,
            timeout_floor: 300_000,
            timeout_max: 1_000_000_000,
            keepalive: None,
            control_first: true,
            // RFC 8899, 5.1.2: BASE_PLPMTU; 1232 bytes of UDP payload fit into IPv6's least MTU of
            // 1280.
            base_datagram_bytes: 1232,
            first_datagram_bytes: 1232,
            // IP packets, less 28 bytes of headers, of 1400 bytes (tunnels with encryption), 1420
            // (WireGuard), 1450 (VXLAN), 1460 (clouds), 1480 (IP in IP), 1500 (Ethernet), 9000
            // (jumbo frames), and the longest.
            datagram_candidates: vec![1372, 1392, 1422, 1432, 1452, 1472, 8972, 65507],
        }
    }
}
