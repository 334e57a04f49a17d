//! Time source of wrappers: the machine, or a simulation.

use clump_os::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// Time in nanoseconds that never goes back.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's monotonic clock.
    #[default]
    Steady,
    /// A clock that stands still until it is set.
    Set(SetClock),
}

impl Clock {
    /// Returns the present time.
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Steady => clump_os::clock::now_ns(),
            Self::Set(clock) => clock.now_ns(),
        }
    }
}

/// A clock that a simulation sets. Clones share one clock.
#[derive(Debug, Clone, Default)]
pub struct SetClock {
    now_ns: Arc<AtomicU64>,
}

impl SetClock {
    /// Sets the time; one before the present is ignored, since time does not go back.
    pub fn set(&self, now_ns: u64) {
        self.now_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Advances the time by `span_ns`.
    pub fn pass(&self, span_ns: u64) {
        self.now_ns.fetch_add(span_ns, Ordering::Relaxed);
    }

    /// Returns the time that was set.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}
