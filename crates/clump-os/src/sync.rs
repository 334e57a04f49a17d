//! Atomics that loom can replace: the only source of atomic types in this tree.
//!
//! Under `--cfg loom` the loom types stand in, so that the code of `clump-shm` runs unchanged in a
//! model checker. Models plant a bug by weakening one named ordering ([`order`]); a normal build
//! compiles [`order`] away.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};

/// A place whose ordering a model may weaken to prove that the model notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// The header store that publishes a slot of a lane.
    LanePublish,
    /// The head store that hands slots of a lane back to their sender.
    LaneCredit,
    /// The state store that publishes a slot of a shared queue.
    QueuePublish,
    /// The state store that frees a slot of a shared queue.
    QueueFree,
    /// The fence between announcing a sleeper and checking once more.
    ParkFence,
    /// The ring of a doorbell.
    DoorbellRing,
    /// The arrival store of a barrier.
    BarrierArrive,
}

/// Returns the ordering to use at `site`: `strong`, unless a loom model weakened that site.
#[cfg(not(loom))]
#[inline(always)]
pub fn order(_site: Site, strong: Ordering) -> Ordering {
    strong
}

/// Returns the ordering to use at `site`: `strong`, unless a loom model weakened that site.
#[cfg(loom)]
pub fn order(site: Site, strong: Ordering) -> Ordering {
    if weakened() == Some(site) { Ordering::Relaxed } else { strong }
}

#[cfg(loom)]
static WEAKENED: std::sync::Mutex<Option<Site>> = std::sync::Mutex::new(None);

/// Returns the site that the running model weakened.
#[cfg(loom)]
pub fn weakened() -> Option<Site> {
    *WEAKENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs `model` with `site` weakened; returns true if it failed. Models that use it must not run
/// beside others.
#[cfg(loom)]
pub fn with_weakened(site: Site, model: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    let set = |value| *WEAKENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = value;
    set(Some(site));
    let caught = std::panic::catch_unwind(model).is_err();
    set(None);
    caught
}

/// Hints to the processor that this is a spin loop.
#[inline(always)]
pub fn pause() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
