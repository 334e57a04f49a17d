//! Condition variables: ranks that wait, under a lock, until another rank tells them to look again.
//!
//! Each wait draws a number; threads that wake others raise a flag to the last number that may go
//! on.

use crate::array::SharedArray;
use crate::error::Result;
use crate::mutex::HeldLock;
use crate::settings::Home;
use crate::svm::Svm;
use crate::sync_object::SyncObject;
use std::mem::ManuallyDrop;

/// Numbers drawn by ranks that wait.
const DRAWN: usize = 0;
/// Numbers up to which ranks may go on.
const WOKEN: usize = 1;

/// Condition variable of all ranks. Ranks that wait go on in the order in which they came. Clones
/// are the same condition variable.
#[derive(Debug, Clone)]
pub struct SharedCondvar {
    svm: Svm,
    /// Held while numbers are drawn.
    lock: SyncObject,
    flag: SyncObject,
    counts: SharedArray<u64>,
}

impl Svm {
    /// Makes a condition variable. A collective.
    ///
    /// # Errors
    /// Fails as [`Svm::alloc`] and [`Svm::sync_object`] do.
    pub fn condvar(&self) -> Result<SharedCondvar> {
        let counts = self.array(4, Home::Node(0))?;
        let made = || -> Result<()> {
            counts.set(2, self.sync_object()?.number());
            counts.set(3, self.sync_object()?.number());
            Ok(())
        };
        // The others wait for the rank that makes them, also where it fails: they find no numbers.
        let made = if self.rank() == 0 { made() } else { Ok(()) };
        self.barrier()?;
        made?;
        let (lock, flag) = (counts.get(2), counts.get(3));
        let (lock, flag) = (SyncObject::from_number(lock)?, SyncObject::from_number(flag)?);
        Ok(SharedCondvar { svm: self.clone(), lock, flag, counts })
    }

    /// Makes a condition variable, without other ranks, as words that ranks hand to each other
    /// through memory ([`Svm::condvar_of`]).
    ///
    /// # Errors
    /// Fails as [`Svm::alloc_alone`] and [`Svm::sync_object`] do.
    pub fn condvar_alone(&self) -> Result<[u64; 3]> {
        let place = self.alloc_alone(16, Home::Block)?;
        let address = place.addr().get() as u64;
        Ok([self.sync_object()?.number(), self.sync_object()?.number(), address])
    }

    /// Returns the condition variable that [`Svm::condvar_alone`] made in some rank.
    ///
    /// # Errors
    /// Fails if no rank can have made it.
    pub fn condvar_of(&self, words: [u64; 3]) -> Result<SharedCondvar> {
        let [lock, flag, address] = words;
        let (lock, flag) = (SyncObject::from_number(lock)?, SyncObject::from_number(flag)?);
        let counts = self.words_at(address as usize, 2)?;
        Ok(SharedCondvar { svm: self.clone(), lock, flag, counts })
    }
}

impl SharedCondvar {
    /// Gives a lock back, waits until it is woken, and takes the lock again. The caller looks again
    /// for what it waits for.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept. The lock may not be held then.
    pub fn wait<'a>(&self, held: HeldLock<'a>) -> Result<HeldLock<'a>> {
        // While this waits, the lock is not held: the guard must not give it back if that fails.
        let held = ManuallyDrop::new(held);
        let number = self.draw()?;
        self.svm.release(held.number())?;
        self.svm.await_flag(self.flag.number(), number)?;
        self.svm.acquire(held.number())?;
        Ok(ManuallyDrop::into_inner(held))
    }

    /// Waits as [`SharedCondvar::wait`] does, under a lock that this rank has.
    ///
    /// # Errors
    /// Fails as [`SharedCondvar::wait`] does, or if this rank does not have the lock.
    pub fn wait_under(&self, lock: SyncObject) -> Result<()> {
        self.wait_under_with(lock, || ())
    }

    /// Waits as [`SharedCondvar::wait_under`] does. Calls `begun` once the next that wakes all ends
    /// this wait, too.
    ///
    /// # Errors
    /// Fails as [`SharedCondvar::wait_under`] does.
    pub fn wait_under_with(&self, lock: SyncObject, begun: impl FnOnce()) -> Result<()> {
        let number = self.draw()?;
        begun();
        self.svm.leave(lock)?;
        self.svm.await_raised(self.flag, number)?;
        self.svm.enter(lock)
    }

    /// Draws the number of a wait.
    fn draw(&self) -> Result<u64> {
        self.svm.enter(self.lock)?;
        let number = self.counts.get(DRAWN) + 1;
        self.counts.set(DRAWN, number);
        self.svm.leave(self.lock)?;
        Ok(number)
    }

    /// Wakes the rank that has waited longest, if any waits.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    pub fn notify_one(&self) -> Result<()> {
        self.wake(|woken, drawn| drawn.min(woken + 1))
    }

    /// Wakes all ranks that wait.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    pub fn notify_all(&self) -> Result<()> {
        self.wake(|_, drawn| drawn)
    }

    fn wake(&self, until: impl FnOnce(u64, u64) -> u64) -> Result<()> {
        self.svm.enter(self.lock)?;
        let (woken, drawn) = (self.counts.get(WOKEN), self.counts.get(DRAWN));
        let until = until(woken, drawn);
        self.counts.set(WOKEN, until);
        self.svm.leave(self.lock)?;
        if until > woken { self.svm.raise(self.flag, until) } else { Ok(()) }
    }
}
