//! Values that belong to one thread, inside Python objects that any thread may hold.

use clump_am::this_thread;
use pyo3::PyResult;
use std::mem::ManuallyDrop;

use crate::error::{FailureKind, failure};

/// Value that only the thread which made it uses. Dropped elsewhere, it is left as it is until the
/// process ends.
///
/// # Invariants
/// 1. The value is reached, and dropped, by the thread `owner` alone.
pub(crate) struct OwnerBound<T> {
    /// Number of the thread that made it.
    owner: u64,
    value: ManuallyDrop<T>,
}

// SAFETY: invariant 1.
unsafe impl<T> Send for OwnerBound<T> {}
// SAFETY: invariant 1.
unsafe impl<T> Sync for OwnerBound<T> {}

impl<T> OwnerBound<T> {
    /// Binds a value to this thread.
    pub(crate) fn new(value: T) -> Self {
        Self { owner: this_thread(), value: ManuallyDrop::new(value) }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Fails on another thread.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        if self.is_mine() {
            return Ok(&self.value);
        }
        let why = "global arrays, locks and the shared heap belong to the thread that joined the \
                   job (the first call of clump.world()); use messages, remote calls and \
                   collectives from other threads";
        Err(failure(FailureKind::Thread, why))
    }

    /// Returns true on the thread that the value belongs to.
    #[inline]
    pub(crate) fn is_mine(&self) -> bool {
        this_thread() == self.owner
    }
}

impl<T> Drop for OwnerBound<T> {
    fn drop(&mut self) {
        if self.is_mine() && !clump_os::forked::is_child() {
            // SAFETY: dropped once, here, by its thread (invariant 1).
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Value that a closure takes along while the interpreter's lock is given up: the closure runs on
/// the thread that calls it.
pub(crate) struct SameThread<T>(pub(crate) T);

// SAFETY: `Python::detach` runs its closure on the calling thread.
unsafe impl<T> Send for SameThread<T> {}

impl<T> SameThread<T> {
    /// Returns the value; a method, so that a closure takes the whole wrapper.
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}
