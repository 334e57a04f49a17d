//! Locks of all ranks, with the value that they protect. Ranks that wait form a queue at the lock's
//! home, so a waiting rank sends nothing, and no rank starves.

use crate::element::Element;
use crate::error::{ErrorKind, Result};
use crate::pgas::{Pgas, took_part};
use clump_rma::{Guard, Lock, Segment, SegmentName, Target};
use std::ops::{Deref, DerefMut};
use zerocopy::IntoBytes;

/// A value of all ranks that one at a time can use. Its memory is freed when its home rank drops
/// it: let all ranks be done with it before ([`Pgas::barrier`]).
#[derive(Debug)]
pub struct GlobalMutex<T> {
    pgas: Pgas,
    lock: Lock,
    value: Target,
    home: usize,
    /// Lock and value, at their home.
    _own: Option<[Segment; 2]>,
    of: std::marker::PhantomData<T>,
}

/// The right to use the value of a [`GlobalMutex`]: a copy of it, which is written back with the
/// release. The lock is released when dropped, or by [`GlobalGuard::release`], which reports
/// errors.
#[derive(Debug)]
#[must_use = "the lock is given back at once"]
pub struct GlobalGuard<'a, T: Element> {
    mutex: &'a GlobalMutex<T>,
    /// `None` once it was given back.
    guard: Option<Guard<'a>>,
    value: T,
    is_changed: bool,
}

impl Pgas {
    /// Creates a lock with the value that it protects. A collective; the value is that of rank 0.
    /// Locks are homed at one rank after the other.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank died or left.
    pub fn mutex<T: Element>(&self, value: T) -> Result<GlobalMutex<T>> {
        let count = self.inner.mutexes.get();
        self.inner.mutexes.set(count + 1);
        let home = count % self.nranks();
        let mut initial = [value];
        self.inner.together(|team| team.broadcast(0, initial.as_mut_bytes()))?;
        let own = if home == self.rank() { self.lock_memory(&initial).map(Some) } else { Ok(None) };
        // A home without memory reports it: the others do not wait for it.
        let mine = own.as_ref().ok().and_then(Option::as_ref);
        let mut names =
            mine.map_or([0; 2], |own| [own[0].name().to_bits(), own[1].name().to_bits()]);
        self.inner.together(|team| team.broadcast(home, &mut names))?;
        let own = took_part(own)?;
        if names[0] == 0 {
            return Err(ErrorKind::RankFailed { rank: home }.into());
        }
        let [lock, value] = names.map(SegmentName::from_bits);
        debug_assert_eq!(lock.rank() as usize, home, "its home exports it");
        Ok(GlobalMutex {
            pgas: self.clone(),
            lock: self.rma().lock(lock, 0)?,
            value: self.rma().target(value)?,
            home,
            _own: own,
            of: std::marker::PhantomData,
        })
    }

    /// Returns a lock and its value in this rank's memory.
    fn lock_memory<T: Element>(&self, initial: &[T; 1]) -> Result<[Segment; 2]> {
        let lock = self.rma().export_locks(1)?;
        let value = self.rma().export((size_of::<T>() as u64).next_multiple_of(8).max(8))?;
        self.rma().target(value.name())?.put_bytes(0, initial.as_bytes())?;
        Ok([lock, value])
    }
}

impl<T: Element> GlobalMutex<T> {
    /// Returns the rank that its memory is at.
    pub fn home(&self) -> usize {
        self.home
    }

    /// Waits for the lock. Operations that its last holder began before the release have been
    /// executed.
    ///
    /// # Errors
    /// Fails if a rank died with the lock, or its home is lost; if a rank is lost, and survivors do
    /// not continue.
    pub fn lock(&self) -> Result<GlobalGuard<'_, T>> {
        self.pgas.inner.wait(|| self.guarded(self.lock.acquire()?))
    }

    /// Takes the lock if it is free; `None` if it is not.
    ///
    /// # Errors
    /// Fails as [`GlobalMutex::lock`] does.
    pub fn try_lock(&self) -> Result<Option<GlobalGuard<'_, T>>> {
        self.pgas.inner.wait(|| match self.lock.try_acquire()? {
            Some(guard) => self.guarded(guard).map(Some),
            None => Ok(None),
        })
    }

    fn guarded<'a>(&'a self, guard: Guard<'a>) -> Result<GlobalGuard<'a, T>> {
        let mut value = T::new_zeroed();
        self.value.get_bytes(0, value.as_mut_bytes())?;
        Ok(GlobalGuard { mutex: self, guard: Some(guard), value, is_changed: false })
    }
}

impl<T: Element> GlobalGuard<'_, T> {
    /// Gives the lock back, when everything that this thread began has happened.
    ///
    /// # Errors
    /// Fails as [`Pgas::sync`] does, or if the home is lost.
    pub fn release(mut self) -> Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let written = if self.is_changed {
            self.mutex.value.put_bytes(0, self.value.as_bytes()).map_err(Into::into)
        } else {
            Ok(())
        };
        // The next holder sees the value, and what was written under the lock.
        let synced = self.mutex.pgas.sync();
        self.mutex.pgas.inner.releases.set(true);
        guard.release()?;
        written.and(synced)
    }
}

impl<T: Element> Deref for GlobalGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        debug_assert!(self.guard.is_some(), "it is held until it is dropped");
        &self.value
    }
}

impl<T: Element> DerefMut for GlobalGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.is_changed = true;
        &mut self.value
    }
}

impl<T: Element> Drop for GlobalGuard<'_, T> {
    fn drop(&mut self) {
        // An error shows again in the next operation on what was lost.
        let _shown_later = self.give_back();
    }
}
