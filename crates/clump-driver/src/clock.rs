//! Where wrappers take the time from: the machine, or whoever simulates.

use clump_os::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// Time in nanoseconds that never goes back.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's monotonic clock.
    #[default]
    Steady,
    /// A clock that stands still until somebody sets it.
    Set(SetClock),
}

impl Clock {
    /// Now.
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Steady => clump_os::clock::now_ns(),
            Self::Set(clock) => clock.now_ns(),
        }
    }
}

/// A clock that a simulation sets. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct SetClock {
    now_ns: Arc<AtomicU64>,
}

impl SetClock {
    /// Sets the time; one before the present is passed over, since time does not go back.
    pub fn set(&self, now_ns: u64) {
        self.now_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Lets `span_ns` pass.
    pub fn pass(&self, span_ns: u64) {
        self.now_ns.fetch_add(span_ns, Ordering::Relaxed);
    }

    /// The time it was set to.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}
