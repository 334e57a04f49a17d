//! Locks and flags of the shared heap.

use crate::array::SharedArray;
use crate::error::Result;
use crate::settings::Home;
use crate::svm::Svm;
use clump_coll::Plain;
use std::mem::ManuallyDrop;

/// Locks without data of their own: whatever is written under one of them is seen by the next that
/// acquires it. Clones are the same locks.
#[derive(Debug, Clone)]
pub struct SharedLocks {
    svm: Svm,
    first: u64,
    count: u64,
}

/// A lock that is held; given back when dropped.
#[derive(Debug)]
#[must_use = "a lock is given back at once when its guard is dropped"]
pub struct HeldLock<'a> {
    svm: &'a Svm,
    lock: u64,
}

impl HeldLock<'_> {
    /// Returns the number of the lock.
    pub(crate) fn number(&self) -> u64 {
        self.lock
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    pub fn release(self) -> Result<()> {
        let held = ManuallyDrop::new(self);
        held.svm.release(held.lock)
    }
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        // An error is found by the next call, too: nothing goes on without all ranks.
        let _ = self.svm.release(self.lock);
    }
}

impl Svm {
    /// Makes `count` locks. A collective: all ranks pass the same.
    ///
    /// # Errors
    /// Fails if a job of one node has too many locks.
    pub fn locks(&self, count: usize) -> Result<SharedLocks> {
        let count = count as u64;
        Ok(SharedLocks { svm: self.clone(), first: self.new_ids(count)?, count })
    }

    /// Makes a lock with a value, zero at first, that only its holder reaches. A collective.
    ///
    /// # Errors
    /// Fails as [`Svm::alloc`] and [`Svm::locks`] do.
    pub fn mutex<T: Plain>(&self) -> Result<SharedMutex<T>> {
        let locks = self.locks(1)?;
        let home = Home::Node(locks.first as usize % self.nnodes());
        Ok(SharedMutex { locks, value: self.array(1, home)? })
    }

    /// Makes `count` flags, 0 at first. A collective: all ranks pass the same.
    ///
    /// # Errors
    /// Fails if a job of one node has too many flags.
    pub fn flags(&self, count: usize) -> Result<SharedFlags> {
        let count = count as u64;
        Ok(SharedFlags { svm: self.clone(), first: self.new_ids(count)?, count })
    }
}

impl SharedLocks {
    /// Waits for a lock, and takes it.
    ///
    /// # Errors
    /// Fails if this rank has it, or if a rank died.
    ///
    /// # Panics
    /// Panics if there is no such lock.
    pub fn lock(&self, number: usize) -> Result<HeldLock<'_>> {
        assert!((number as u64) < self.count, "lock {number} of {}", self.count);
        let lock = self.first + number as u64;
        self.svm.acquire(lock)?;
        Ok(HeldLock { svm: &self.svm, lock })
    }
}

/// A lock with a value that only its holder reaches. Clones are the same lock.
#[derive(Debug, Clone)]
pub struct SharedMutex<T> {
    locks: SharedLocks,
    value: SharedArray<T>,
}

/// A [`SharedMutex`] that is held; given back when dropped.
#[derive(Debug)]
#[must_use = "a lock is given back at once when its guard is dropped"]
pub struct SharedGuard<'a, T> {
    held: HeldLock<'a>,
    value: &'a SharedArray<T>,
}

impl<T: Plain> SharedMutex<T> {
    /// Waits for the lock, and takes it.
    ///
    /// # Errors
    /// Fails if this rank has it, or if a rank died.
    pub fn lock(&self) -> Result<SharedGuard<'_, T>> {
        Ok(SharedGuard { held: self.locks.lock(0)?, value: &self.value })
    }
}

impl<T: Plain> SharedGuard<'_, T> {
    /// Returns the value.
    pub fn get(&self) -> T {
        self.value.get(0)
    }

    /// Sets the value.
    pub fn set(&self, value: T) {
        self.value.set(0, value);
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    pub fn release(self) -> Result<()> {
        self.held.release()
    }
}

/// Flags: numbers that only grow, and that ranks wait for. A rank that has waited sees what the
/// rank that set the flag had written. Clones are the same flags.
#[derive(Debug, Clone)]
pub struct SharedFlags {
    svm: Svm,
    first: u64,
    count: u64,
}

impl SharedFlags {
    fn id(&self, number: usize) -> u64 {
        assert!((number as u64) < self.count, "flag {number} of {}", self.count);
        self.first + number as u64
    }

    /// Makes a flag at least `value`.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    ///
    /// # Panics
    /// Panics if there is no such flag.
    pub fn set(&self, number: usize, value: u64) -> Result<()> {
        self.svm.set_flag(self.id(number), value)
    }

    /// Waits until a flag is at least `value`.
    ///
    /// # Errors
    /// Fails if a rank died.
    ///
    /// # Panics
    /// Panics if there is no such flag.
    pub fn wait(&self, number: usize, value: u64) -> Result<()> {
        self.svm.await_flag(self.id(number), value)
    }
}
