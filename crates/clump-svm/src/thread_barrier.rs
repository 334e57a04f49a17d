//! Barriers of all threads of all ranks: the last thread of each rank speaks for it.

use crate::caller::{check_deaths, checked};
use crate::error::{ErrorKind, Result};
use crate::svm::Svm;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that have arrived, and barriers that have ended.
#[derive(Debug, Default)]
struct Round {
    arrived: usize,
    ended: u64,
    failed: bool,
}

#[derive(Debug)]
struct Inner {
    threads: usize,
    round: Mutex<Round>,
    ended: Condvar,
}

/// Barrier of all ranks, each of several threads. Clones are the same barrier.
#[derive(Debug, Clone)]
pub struct ThreadBarrier {
    svm: Svm,
    inner: Arc<Inner>,
}

impl Svm {
    /// Returns a barrier that `threads` threads of this rank, and as many of each other rank as it
    /// says there, pass together. Other barriers of all ranks are not passed at the same time.
    ///
    /// # Panics
    /// Panics if `threads` is 0.
    pub fn thread_barrier(&self, threads: usize) -> ThreadBarrier {
        assert!(threads > 0, "a barrier of threads");
        let (round, ended) = (Mutex::default(), Condvar::new());
        ThreadBarrier { svm: self.clone(), inner: Arc::new(Inner { threads, round, ended }) }
    }
}

impl ThreadBarrier {
    fn round(&self) -> MutexGuard<'_, Round> {
        self.inner.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once all threads of all ranks have called it; each then sees what the others had
    /// written.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    pub fn wait(&self) -> Result<()> {
        let mut round = self.round();
        round.arrived += 1;
        debug_assert!(round.arrived <= self.inner.threads, "no more threads than were announced");
        if round.arrived == self.inner.threads {
            round.arrived = 0;
            drop(round);
            let passed = self.svm.barrier();
            let mut round = self.round();
            round.ended += 1;
            round.failed |= passed.is_err();
            self.inner.ended.notify_all();
            return passed;
        }
        let mine = round.ended;
        while round.ended == mine {
            round = self.inner.ended.wait(round).unwrap_or_else(PoisonError::into_inner);
        }
        if round.failed {
            checked(check_deaths(self.svm.context()))?;
            return Err(ErrorKind::NoMemory.into());
        }
        Ok(())
    }
}
