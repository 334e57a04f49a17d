//! What a UDP driver may use, and what it counts.

use clump_os::udp;

/// Which datagrams come with the time at which the kernel received them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamps {
    /// None.
    Never,
    /// Those that come in crowds: about 100 ns for each reception, of one datagram or a run of them.
    Crowds,
    /// All of them, which keeps every reception on the full way.
    Always,
}

/// What a UDP driver may use; what the kernel does not know is left out by itself, see
/// [`Capabilities`](crate::Capabilities).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Runs of equal datagrams to one destination in one message (UDP_SEGMENT).
    pub gso: bool,
    /// Runs of equal datagrams from one sender at once (UDP_GRO).
    pub gro: bool,
    /// Marks of received datagrams.
    pub ecn: bool,
    /// When the kernel received what was received.
    pub timestamps: Timestamps,
    /// Receives datagrams that arrive alone by the short way (about 290 ns less each), without their
    /// marks, and turns to the full way as soon as several wait. Off: every datagram with all that is
    /// known of it.
    pub adaptive: bool,
    /// Most datagrams in one run that is sent, 1 to 64. Policers on a path drop long runs.
    pub gso_segments: usize,
    /// Most bytes in one run that is sent, up to 65,507.
    pub gso_bytes: usize,
    /// What to ask for as receive and as send buffer; the kernel doubles it for its bookkeeping.
    pub buffer_bytes: usize,
    /// Most destinations that get a connected socket of their own to be sent by, with another port than
    /// the one that receives. 0: every datagram comes from the port it can be answered to.
    pub connections: usize,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            gso: true,
            gro: true,
            ecn: true,
            timestamps: Timestamps::Never,
            adaptive: true,
            gso_segments: udp::MAX_SEGMENTS,
            gso_bytes: udp::MAX_BYTES_V4,
            buffer_bytes: 4 << 20,
            connections: 0,
        }
    }
}

impl UdpOptions {
    pub(super) fn within_limits(self) -> Self {
        Self {
            gso_segments: self.gso_segments.clamp(1, udp::MAX_SEGMENTS),
            gso_bytes: self.gso_bytes.clamp(1, udp::MAX_BYTES_V4),
            ..self
        }
    }
}

/// What happened to a UDP driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UdpCounts {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// System calls that sent them.
    pub send_calls: u64,
    /// Those of `sent` that went in runs.
    pub segmented: u64,
    /// Those of `sent` that the kernel was shown where they lie.
    pub shown: u64,
    /// Datagrams received.
    pub received: u64,
    /// Receptions that held several datagrams.
    pub joined: u64,
    /// Times that the wire was full.
    pub full: u64,
    /// Datagrams lost because their destination could not be reached just then.
    pub unreachable: u64,
    /// Errors of earlier datagrams that the kernel reported late (a closed port at the peer).
    pub refused: u64,
    /// Times that a run was refused, so that runs are not used any more.
    pub gso_refused: u64,
    /// Turns from the short way of receiving to the full one.
    pub grew_dense: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub dropped: u64,
}
