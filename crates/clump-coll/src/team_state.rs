//! The state of a team that its collectives change, behind a lock that knows the thread inside.
//!
//! A rank that waits in a collective runs handlers. One that calls a collective of the same team
//! would wait for its own thread: it gets an error instead, like every other collective in a
//! handler.

use crate::post::Post;
use clump_am::{ErrorKind, Result, is_in_handler, this_thread};
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::barrier::Barrier;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct TeamState {
    /// The barrier by shared lines, which the team of all ranks has.
    pub(crate) barrier: Option<Barrier>,
    /// Number of the last collective.
    pub(crate) seq: u64,
}

/// State of a team, and its lock.
#[derive(Debug)]
pub(crate) struct StateLock {
    state: Mutex<TeamState>,
    /// The thread that executes a collective; 0 while none does.
    locked_by: AtomicU64,
}

/// Locked state of a team, for one collective.
#[derive(Debug)]
pub(crate) struct LockedState<'a> {
    state: MutexGuard<'a, TeamState>,
    locked_by: &'a AtomicU64,
}

impl StateLock {
    pub(crate) fn new(barrier: Option<Barrier>) -> Self {
        let state = Mutex::new(TeamState { barrier, seq: 0 });
        Self { state, locked_by: AtomicU64::new(0) }
    }

    /// Waits while another thread executes a collective of the team.
    ///
    /// # Errors
    /// Fails in a handler.
    #[inline]
    pub(crate) fn lock(&self) -> Result<LockedState<'_>> {
        // Only this thread writes its own number.
        if self.locked_by.load(Ordering::Relaxed) == this_thread() || is_in_handler() {
            return Err(ErrorKind::CollectiveInHandler.into());
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert_eq!(self.locked_by.load(Ordering::Relaxed), 0, "two threads are inside");
        self.locked_by.store(this_thread(), Ordering::Relaxed);
        Ok(LockedState { state, locked_by: &self.locked_by })
    }

    /// Returns the number of the last collective of a team that is not used any more.
    pub(crate) fn last_seq(&mut self) -> u64 {
        debug_assert_eq!(*self.locked_by.get_mut(), 0, "no collective is under way");
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).seq
    }
}

impl LockedState<'_> {
    /// Numbers the next collective. Those before are over at this rank, but for the ones in two
    /// phases that are under way.
    #[inline]
    pub(crate) fn next(&mut self, post: &Post, team: u64) {
        debug_assert_ne!(self.locked_by.load(Ordering::Relaxed), 0, "this thread is inside");
        self.seq += 1;
        if post.mailbox().has_disagreements(team) {
            post.forget_disagreements(team, self.seq);
        }
    }
}

impl Drop for LockedState<'_> {
    #[inline]
    fn drop(&mut self) {
        // The lock is still held.
        debug_assert_eq!(self.locked_by.load(Ordering::Relaxed), this_thread());
        self.locked_by.store(0, Ordering::Relaxed);
    }
}

impl Deref for LockedState<'_> {
    type Target = TeamState;
    fn deref(&self) -> &TeamState {
        &self.state
    }
}

impl DerefMut for LockedState<'_> {
    fn deref_mut(&mut self) -> &mut TeamState {
        &mut self.state
    }
}
