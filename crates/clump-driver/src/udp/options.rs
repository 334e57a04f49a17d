//! Options and counts of a UDP driver.

use clump_os::udp;

/// Datagrams that carry the time at which the kernel received them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamps {
    /// None.
    Never,
    /// Those that arrive in crowds: about 100 ns for each reception, of one datagram or a run of
    /// them.
    Crowds,
    /// All of them, which makes every receive a full one.
    Always,
}

/// Mechanisms that a UDP driver may use; those that the kernel does not know are left out
/// automatically, see [`Capabilities`](crate::Capabilities).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Sends runs of equal datagrams to one destination in one message (UDP_SEGMENT).
    pub gso: bool,
    /// Receives runs of equal datagrams from one sender at once (UDP_GRO).
    pub gro: bool,
    /// Reports marks of received datagrams.
    pub ecn: bool,
    /// Datagrams whose arrival time is reported.
    pub timestamps: Timestamps,
    /// Receives single datagrams by short calls (about 290 ns less each), without their marks, and
    /// turns to full receives as soon as several wait. Off: every datagram comes with all its
    /// metadata.
    pub adaptive: bool,
    /// Maximum number of datagrams in one run that is sent, 1 to 64. Policers on a path drop long
    /// runs.
    pub gso_segments: usize,
    /// Maximum number of bytes in one run that is sent, up to 65,507.
    pub gso_bytes: usize,
    /// Size requested as receive and as send buffer; the kernel doubles it for its bookkeeping.
    pub buffer_bytes: usize,
    /// Maximum number of destinations that get a connected socket of their own to be sent by, with
    /// another port than the one that receives. 0: every datagram comes from the port at which its
    /// sender receives.
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
            buffer_bytes: udp::BUFFER_BYTES,
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

/// Counts of a UDP driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UdpCounts {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// System calls that sent them.
    pub send_calls: u64,
    /// Datagrams of `sent` that went in runs.
    pub segmented: u64,
    /// Datagrams of `sent` that were sent zero-copy.
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
    /// Changes from short receives to full ones.
    pub grew_dense: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub dropped: u64,
}
