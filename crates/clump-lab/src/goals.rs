//! Goals for the figures.

use crate::pair::{PairNetwork, Scope};
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
    /// This share of the bare stream, at every size.
    Share(f64),
    /// This many bytes per second, from 1 MiB on.
    Absolute(f64),
}

/// Maximum of a shared-memory round trip with an idle network, as a multiple of that without.
pub const IDLE_NETWORK: f64 = 1.15;

impl Goals {
    /// Returns the goals of a pair.
    pub fn of(link: Option<&PairNetwork>) -> Self {
        let share = BandwidthGoal::Share(0.9);
        match link.map(|link| link.security) {
            None => Self { round_trip: 1.25, rate_per_s: 40e6, bandwidth: share },
            Some(Security::Crc) => Self { round_trip: 1.10, rate_per_s: 15e6, bandwidth: share },
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
