//! Goals for the figures.

use crate::pair::{BulkPath, PairNetwork, Placement, Scope};
use clump_wire::Security;

/// The goals of one kind of pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goals {
    /// Maximum of a short round trip, as a multiple of the bare one.
    pub round_trip: f64,
    /// Minimum of short messages per second.
    pub rate_per_s: f64,
    /// Minimum bandwidth.
    pub bandwidth: BandwidthGoal,
}

/// A goal for streams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BandwidthGoal {
    /// A share of the copies that one message takes: smaller for short ones in the receiver's
    /// segment, which have little to copy beside their notification.
    Copies,
    /// This share of the bare stream, at every size.
    Share(f64),
    /// This many bytes per second, from 1 MiB on.
    Absolute(f64),
}

/// Maximum of a shared-memory round trip with an idle network, as a multiple of that without.
pub const IDLE_NETWORK: f64 = 1.15;

impl BandwidthGoal {
    /// Returns the minimum share of the bare stream for messages of this size; `None` where the
    /// goal is none.
    pub fn share(self, way: BulkPath, bytes: usize) -> Option<f64> {
        match (self, way, bytes) {
            (Self::Copies, BulkPath::Long, ..=0x1000) => Some(0.6),
            (Self::Copies, BulkPath::Long, ..=0x4000) => Some(0.8),
            (Self::Copies, ..) => Some(0.9),
            (Self::Share(share), ..) => Some(share),
            (Self::Absolute(_), ..) => None,
        }
    }
}

impl Goals {
    /// Returns the goals of a pair; `placement` is that of two ranks of a node.
    pub fn of(link: Option<&PairNetwork>, placement: Option<Placement>) -> Self {
        match link.map(|link| link.security) {
            None => {
                // The handlers' instructions weigh more beside a line that travels quickly.
                let near = placement.is_some_and(Placement::is_near);
                let round_trip = if near { 1.30 } else { 1.20 };
                Self { round_trip, rate_per_s: 60e6, bandwidth: BandwidthGoal::Copies }
            }
            Some(Security::Crc) => {
                let bandwidth = BandwidthGoal::Share(0.9);
                Self { round_trip: 1.10, rate_per_s: 15e6, bandwidth }
            }
            // Every byte is encrypted and decrypted, which no bare stream does.
            Some(Security::Aead) => {
                let bandwidth = BandwidthGoal::Absolute(2e9);
                Self { round_trip: 1.20, rate_per_s: 8e6, bandwidth }
            }
        }
    }
}

impl Scope {
    /// Returns the name in headings.
    pub const fn text(self) -> &'static str {
        match self {
            Scope::Shm => "shared memory",
            Scope::Net => "the network",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_within_a_node_depend_on_placement_and_size() {
        let near = Goals::of(None, Some(Placement::Siblings));
        let apart = Goals::of(None, Some(Placement::SeparateCores));
        assert_eq!((near.round_trip, apart.round_trip), (1.30, 1.20));
        let of = |way, bytes: usize| near.bandwidth.share(way, bytes).unwrap();
        assert_eq!([4, 16, 64].map(|kib| of(BulkPath::Long, kib << 10)), [0.6, 0.8, 0.9]);
        assert_eq!([4, 16, 64].map(|kib| of(BulkPath::Medium, kib << 10)), [0.9; 3]);
    }
}
