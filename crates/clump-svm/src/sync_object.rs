//! Locks and flags that one rank makes alone, and that others find in shared memory.

use crate::error::{ErrorKind, Result};
use crate::kept_locks::FIRST_ALONE;
use crate::svm::Svm;

/// Lock or flag that one rank has made ([`Svm::sync_object`]): a number, which ranks hand to each
/// other through memory. A lock is free at first, a flag 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyncObject(u64);

impl SyncObject {
    /// Returns the number, never 0.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the object of a number that [`SyncObject::number`] returned in some rank.
    ///
    /// # Errors
    /// Fails if no rank can have made it.
    pub fn from_number(number: u64) -> Result<Self> {
        if number < FIRST_ALONE {
            return Err(ErrorKind::NoObject(number).into());
        }
        Ok(Self(number))
    }
}

impl Svm {
    /// Makes a lock or flag, without other ranks.
    ///
    /// # Errors
    /// Fails if a job of one node has too many of them.
    pub fn sync_object(&self) -> Result<SyncObject> {
        self.new_id_alone().map(SyncObject)
    }

    /// Waits for a lock, and takes it.
    ///
    /// # Errors
    /// Fails if this rank has it, or if a rank died.
    pub fn enter(&self, lock: SyncObject) -> Result<()> {
        self.acquire(lock.0)
    }

    /// Gives a lock back.
    ///
    /// # Errors
    /// Fails if this rank does not have it, if a rank died, or if a page could not be kept.
    pub fn leave(&self, lock: SyncObject) -> Result<()> {
        self.release(lock.0)
    }

    /// Makes a flag at least `value`.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    pub fn raise(&self, flag: SyncObject, value: u64) -> Result<()> {
        self.set_flag(flag.0, value)
    }

    /// Waits until a flag is at least `value`.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn await_raised(&self, flag: SyncObject, value: u64) -> Result<()> {
        self.await_flag(flag.0, value)
    }
}
