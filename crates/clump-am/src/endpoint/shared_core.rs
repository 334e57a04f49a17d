//! The state of an endpoint that threads share, behind a lock.

use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::progress::{Guarded, Pollable};
use crate::thread_number::this_thread;
use clump_os::sync::{AtomicU64, Ordering};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// An endpoint's state and its lock, which knows the thread that holds it: a handler that uses its
/// own endpoint gets an error instead of waiting for itself.
#[derive(Debug)]
pub struct SharedCore {
    core: Mutex<Guarded>,
    /// The thread that holds the lock; 0 while none does.
    locked_by: AtomicU64,
}

/// A locked core. Once it is given back, threads that wait for what was handled meanwhile are
/// awake.
#[derive(Debug)]
pub struct LockedCore<'a> {
    core: MutexGuard<'a, Guarded>,
    locked_by: &'a AtomicU64,
    /// Messages handled before.
    handled: u64,
}

impl SharedCore {
    pub(super) fn new(core: Core) -> Self {
        Self { core: Mutex::new(Guarded(core)), locked_by: AtomicU64::new(0) }
    }

    /// Returns true in a handler of the endpoint.
    #[inline(always)]
    fn is_inside(&self) -> bool {
        // Only this thread writes its own number.
        self.locked_by.load(Ordering::Relaxed) == this_thread()
    }

    /// Waits while another thread uses the endpoint.
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    #[inline(always)]
    pub(super) fn lock(&self) -> Result<LockedCore<'_>> {
        if self.is_inside() {
            return Err(ErrorKind::InHandler.into());
        }
        let locked = self.locked(self.core.lock().unwrap_or_else(PoisonError::into_inner));
        debug_assert!(self.is_inside(), "the lock does not know its thread");
        Ok(locked)
    }

    /// Returns `None` while another thread uses the endpoint, or a handler of it runs.
    fn try_lock(&self) -> Option<LockedCore<'_>> {
        match self.core.try_lock() {
            Ok(core) => Some(self.locked(core)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.locked(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline(always)]
    fn locked<'a>(&'a self, core: MutexGuard<'a, Guarded>) -> LockedCore<'a> {
        debug_assert_eq!(self.locked_by.load(Ordering::Relaxed), 0, "two threads hold the lock");
        self.locked_by.store(this_thread(), Ordering::Relaxed);
        let handled = core.0.handled();
        LockedCore { core, locked_by: &self.locked_by, handled }
    }
}

impl Drop for LockedCore<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // The lock is still held.
        debug_assert_eq!(self.locked_by.load(Ordering::Relaxed), this_thread());
        debug_assert!(self.handled() >= self.handled, "what was handled stays handled");
        if self.handled() != self.handled {
            self.handler_context.wake_threads();
        }
        self.locked_by.store(0, Ordering::Relaxed);
    }
}

impl Deref for LockedCore<'_> {
    type Target = Core;
    fn deref(&self) -> &Core {
        &self.core.0
    }
}

impl DerefMut for LockedCore<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core.0
    }
}

impl Pollable for SharedCore {
    fn poll_once(&self) -> Result<usize> {
        if self.is_inside() {
            // It is in no bundle, so the caller is a blocking call on this very endpoint.
            return Err(ErrorKind::InHandler.into());
        }
        self.try_lock().map_or(Ok(0), |mut core| core.poll_in_wait())
    }

    fn in_bundle(&self) -> bool {
        false
    }

    fn housekeeping(&self) -> Result<()> {
        self.try_lock().map_or(Ok(()), |mut core| core.housekeeping())
    }

    fn force_network_poll(&self) {
        if let Some(mut core) = self.try_lock() {
            core.schedule.network_next();
        }
    }

    fn activity(&self) -> u64 {
        self.try_lock().map_or(0, |core| core.activity())
    }

    fn arm_notifications(&self) {
        if let Ok(mut core) = self.lock() {
            core.inbox.arm_all_notifications();
        }
    }

    fn request_room(&self) {
        if let Ok(mut core) = self.lock() {
            core.request_room_for_backlog();
        }
    }

    fn anything_waiting(&self) -> bool {
        self.lock().is_ok_and(|mut core| core.anything_waiting())
    }
}
