//! Times of phases.

use clump_os::clock;

/// The beginning of a phase.
#[derive(Debug)]
pub struct Lap(u64);

impl Lap {
    /// Begins a phase.
    pub fn begin() -> Self {
        Self(clock::now_ns())
    }

    /// Returns the seconds since the beginning.
    pub fn seconds(&self) -> f64 {
        clock::now_ns().saturating_sub(self.0) as f64 / 1e9
    }
}
