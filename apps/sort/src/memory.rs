//! Memory use of a sort: growth of anonymous resident memory, beside the budget's own count.

use clump_os::memory::anonymous_bytes;
use clump_os::sync::{AtomicU64, Ordering};

/// Calls of [`MemoryWatch::glance`] between two readings.
const EVERY: u64 = 8;

/// Measures the growth of this process's anonymous memory.
#[derive(Debug)]
pub struct MemoryWatch {
    base: u64,
    peak: AtomicU64,
    glances: AtomicU64,
}

impl MemoryWatch {
    /// Starts from the memory in use now.
    pub fn start() -> Self {
        let base = anonymous_bytes().unwrap_or(0);
        Self { base, peak: AtomicU64::new(0), glances: AtomicU64::new(0) }
    }

    /// Takes a reading (some 20 us).
    pub fn take_reading(&self) {
        let now = anonymous_bytes().unwrap_or(0);
        self.peak.fetch_max(now.saturating_sub(self.base), Ordering::Relaxed);
    }

    /// Takes a reading every few calls.
    pub fn glance(&self) {
        if self.glances.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            self.take_reading();
        }
    }

    /// Returns the most growth that a reading has shown, in bytes.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}
