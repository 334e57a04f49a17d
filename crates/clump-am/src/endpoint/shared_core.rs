//! The state of an endpoint that threads share, behind a lock.

use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::pollable::Pollable;
use crate::progress::Guarded;
use crate::thread_number::this_thread;
use crate::virtual_poll;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// An endpoint's state and its lock, which records the thread that holds it: a handler that uses
/// its own endpoint gets an error instead of waiting for itself.
#[derive(Debug)]
pub struct SharedCore {
    core: Mutex<Guarded>,
    /// The thread that holds the lock; 0 while none does.
    locked_by: AtomicU64,
    /// Threads that wait on this endpoint and sleep, or are about to. Grows under the lock.
    sleepers: AtomicU32,
    /// Messages handled when the lock was taken, while there are sleepers.
    handled_before: AtomicU64,
}

/// A locked core. Once it is given back, threads that wait for what was handled meanwhile are
/// awake.
#[derive(Debug)]
pub struct LockedCore<'a> {
    core: MutexGuard<'a, Guarded>,
    shared: &'a SharedCore,
}

impl SharedCore {
    pub(super) fn new(core: Core) -> Self {
        debug_assert!(!core.restricted, "a restricted endpoint is one thread's");
        let (locked_by, sleepers, handled_before) = Default::default();
        Self { core: Mutex::new(Guarded(core)), locked_by, sleepers, handled_before }
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
        debug_assert!(self.is_inside(), "the lock does not record its thread");
        Ok(locked)
    }

    /// Returns `None` while another thread uses the endpoint, or a handler of it runs.
    fn try_lock(&self) -> Option<LockedCore<'_>> {
        let core = match self.core.try_lock() {
            Ok(core) => core,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        debug_assert!(!self.is_inside(), "the lock was free, and known as this thread's");
        Some(self.locked(core))
    }

    #[inline(always)]
    fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) != 0
    }

    /// Wakes sleeping threads if messages were handled since the lock was taken.
    #[cold]
    fn wake_sleepers(&self, core: &Core) {
        debug_assert!(self.is_inside(), "the lock is held");
        // A thread that has just armed notification finds an old number, and is not asleep yet.
        let before = self.handled_before.load(Ordering::Relaxed);
        // Compared for equality alone: the counter is in memory that others can write.
        if core.handled() != before {
            core.handler_context.wake_threads();
        }
    }

    #[inline(always)]
    fn locked<'a>(&'a self, core: MutexGuard<'a, Guarded>) -> LockedCore<'a> {
        debug_assert_eq!(self.locked_by.load(Ordering::Relaxed), 0, "two threads hold the lock");
        self.locked_by.store(this_thread(), Ordering::Relaxed);
        if self.has_sleepers() {
            self.handled_before.store(core.0.handled(), Ordering::Relaxed);
        }
        debug_assert!(self.is_inside(), "the lock records its thread");
        LockedCore { core, shared: self }
    }
}

impl Drop for LockedCore<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // The lock is still held.
        debug_assert_eq!(self.shared.locked_by.load(Ordering::Relaxed), this_thread());
        if self.shared.has_sleepers() {
            self.shared.wake_sleepers(&self.core.0);
        }
        self.shared.locked_by.store(0, Ordering::Relaxed);
        debug_assert!(!self.shared.is_inside(), "this thread has left");
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

    fn poll_thoroughly(&self) -> Result<usize> {
        let mut core = self.lock()?;
        debug_assert!(self.is_inside(), "no other thread is handling a message");
        core.poll_thoroughly()
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
            core.arm_notifications();
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            debug_assert!(self.has_sleepers(), "the handling thread wakes it");
        }
    }

    fn awake(&self) {
        if !self.is_inside() {
            let sleepers = self.sleepers.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(sleepers > 0, "a thread armed notification before it slept");
        }
    }

    fn request_room(&self) {
        if let Ok(mut core) = self.lock() {
            core.request_room_for_backlog();
        }
    }

    fn due_in(&self) -> Option<Duration> {
        // A thread that uses it polls it, and so do calls that find it free again.
        self.try_lock()?.due_in()
    }

    fn first_due_ns(&self) -> Option<u64> {
        self.try_lock()?.first_due_ns()
    }

    fn keeps(&self) -> (bool, bool) {
        self.try_lock().map_or((false, false), |core| virtual_poll::keeps(&core.handler_context))
    }

    fn hides_messages(&self) -> bool {
        self.try_lock().is_some_and(|core| core.hides_messages())
    }

    fn anything_waiting(&self) -> bool {
        self.lock().is_ok_and(|mut core| core.anything_waiting())
    }
}
