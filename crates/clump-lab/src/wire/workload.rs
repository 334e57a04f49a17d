//! Workloads of the bare network, and their encoding in an invitation.

use super::LEAST;
use anyhow::{Result, ensure};
use clump_os::raw_udp;
use serde::Serialize;

/// The system calls of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// `sendto` and `recvfrom` that do not block, one datagram a call.
    Each,
    /// `write` and `read` on a connected socket, one datagram a call, not blocking.
    ReadWrite,
    /// `write` and `read` that block.
    Blocking,
    /// `sendmmsg` and `recvmmsg`.
    Many,
    /// Datagrams segmented and joined by the kernel (GSO and GRO); streams only.
    Segments,
}

impl Call {
    /// All kinds, in the order of their numbers in an invitation.
    pub const ALL: [Call; 5] =
        [Call::Each, Call::ReadWrite, Call::Blocking, Call::Many, Call::Segments];

    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Call::Each => "sendto/recvfrom, spinning",
            Call::ReadWrite => "write/read, spinning",
            Call::Blocking => "write/read, blocking",
            Call::Many => "sendmmsg/recvmmsg",
            Call::Segments => "GSO/GRO",
        }
    }
}

/// One workload between two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireWorkload {
    /// A datagram back and forth.
    PingPong {
        /// System calls.
        call: Call,
        /// Bytes of the datagram.
        bytes: usize,
        /// Number of rounds.
        rounds: u32,
    },
    /// Datagrams one way, with acknowledgements of the number of bytes received.
    Stream {
        /// System calls.
        call: Call,
        /// Bytes of a datagram.
        bytes: usize,
        /// Bytes in all.
        total: u64,
        /// Maximum bytes in flight.
        window: usize,
    },
}

/// Words of a workload in an invitation.
pub const WORDS: usize = 5;

impl WireWorkload {
    /// Encodes the workload for an invitation.
    pub fn to_words(self) -> [u64; WORDS] {
        match self {
            WireWorkload::PingPong { call, bytes, rounds } => {
                [0, call as u64, bytes as u64, rounds.into(), 0]
            }
            WireWorkload::Stream { call, bytes, total, window } => {
                [1, call as u64, bytes as u64, total, window as u64]
            }
        }
    }

    /// Decodes the workload of an invitation.
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let &[kind, call, bytes, count, window] = words else { return None };
        let call = *Call::ALL.get(usize::try_from(call).ok()?)?;
        let (bytes, window) = (usize::try_from(bytes).ok()?, usize::try_from(window).ok()?);
        match kind {
            0 => Some(WireWorkload::PingPong { call, bytes, rounds: u32::try_from(count).ok()? }),
            1 => Some(WireWorkload::Stream { call, bytes, total: count, window }),
            _ => None,
        }
    }

    /// Checks that it can be run.
    pub(super) fn check(self) -> Result<()> {
        let (WireWorkload::PingPong { bytes, .. } | WireWorkload::Stream { bytes, .. }) = self;
        let fits = (LEAST..=raw_udp::LARGEST).contains(&bytes);
        ensure!(fits, "a datagram has {LEAST} to {} bytes, not {bytes}", raw_udp::LARGEST);
        let joined = matches!(self, WireWorkload::PingPong { call: Call::Segments, .. });
        ensure!(!joined, "a ping-pong has nothing to be cut into segments");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn games_are_words_and_nonsense_is_refused() {
        let workloads = [
            WireWorkload::PingPong { call: Call::Many, bytes: 64, rounds: 7 },
            WireWorkload::Stream {
                call: Call::Segments,
                bytes: 1400,
                total: 1 << 40,
                window: 4096,
            },
        ];
        for workload in workloads {
            assert_eq!(WireWorkload::from_words(&workload.to_words()), Some(workload));
        }
        assert_eq!(WireWorkload::from_words(&[2, 0, 8, 8, 8]), None);
        assert_eq!(WireWorkload::from_words(&[0, 9, 8, 8, 8]), None);
        assert_eq!(WireWorkload::from_words(&[]), None);
        assert!(
            WireWorkload::PingPong { call: Call::Segments, bytes: 64, rounds: 1 }.check().is_err()
        );
        assert!(WireWorkload::PingPong { call: Call::Each, bytes: 4, rounds: 1 }.check().is_err());
    }
}
