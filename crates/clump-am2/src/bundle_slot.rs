//! The table of bundles: their threads, and the bits of their endpoints.

use crate::job_context;
use crate::status::{AmFailure, Code, Result};
use clump_am::this_thread;
use clump_os::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of bundles of a process.
pub(crate) const BUNDLES: usize = 64;
/// A table entry for a bundle.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// Odd while there is one.
    pub(crate) generation: AtomicU32,
    pub(crate) parallel: AtomicBool,
    /// For a sequential one: the thread that owns it; 0 before the first sends, polls or waits.
    pub(crate) thread: AtomicU64,
    /// A bit for each endpoint.
    pub(crate) members: AtomicU32,
    /// Correction added to the sum of its members' message counts, so that the sum covers only
    /// messages handled while they are members: it changes when they come and go.
    pub(crate) offset: AtomicU64,
    pub(crate) mask: AtomicU32,
    /// Threads that wait for an event.
    pub(crate) waiters: AtomicU32,
}

/// The entries of all bundles.
pub(crate) static PLACES: [Bundle; BUNDLES] = [const { Bundle::empty() }; BUNDLES];

/// The highest index of a bundle so far.
pub(crate) static HIGHEST: AtomicUsize = AtomicUsize::new(0);

impl Bundle {
    const fn empty() -> Self {
        Self {
            generation: AtomicU32::new(0),
            parallel: AtomicBool::new(false),
            thread: AtomicU64::new(0),
            members: AtomicU32::new(0),
            offset: AtomicU64::new(0),
            mask: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn at(index: usize) -> Option<&'static Self> {
        PLACES.get(index)
    }

    pub(crate) fn index(&self) -> usize {
        (std::ptr::from_ref(self).addr() - PLACES.as_ptr().addr()) / size_of::<Self>()
    }

    /// Fails if the bundle belongs to another thread.
    pub(crate) fn check_thread(&self) -> Result<()> {
        match self.thread.load(Ordering::Relaxed) {
            0 => Ok(()),
            thread if thread == this_thread() => Ok(()),
            _ => Err(foreign()),
        }
    }

    /// Returns the generation of the bundle in this table entry.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Returns true if threads share it.
    #[inline(always)]
    pub(crate) fn is_parallel(&self) -> bool {
        self.parallel.load(Ordering::Relaxed)
    }

    /// Registers a thread that waits for an event, as long as the returned guard lives.
    pub(crate) fn wait(&'static self) -> Waiter {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Waiter(self)
    }

    /// Wakes threads that wait for a message that this one has handled.
    #[inline(always)]
    pub(crate) fn tell_waiters(&self) {
        if self.is_parallel() && self.waiters.load(Ordering::Relaxed) != 0 {
            wake();
        }
    }
}

/// Guard of a thread that waits for an event of a bundle.
pub(crate) struct Waiter(&'static Bundle);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Wakes sleeping threads of this rank. A waiter announces that it will sleep, and then checks if
/// its message was handled; this thread notes that it was, and then checks for sleepers: one of
/// them sees the other.
#[cold]
fn wake() {
    if let Ok(context) = job_context::context() {
        let alarm = context.node().alarm(context.rank()).map(AsRef::as_ref);
        context.block().park().wake_if_asleep(context.node().fence(), alarm);
    }
}

#[cold]
fn foreign() -> AmFailure {
    let what = "the bundle is sequential (AM_SEQ), and another thread's";
    AmFailure::new(Code::InUse, what)
}
