//! Locks among the threads of a rank: one of them at a time has, or asks for, a lock of the shared
//! heap. For all other ranks the rank has it, whichever of its threads that is.

use crate::caller::{CallFailure, check_deaths};
use crate::mailbox::result;
use clump_am::RankContext;
use clump_os::thread;
use clump_shm::rank::{HeapWait, Published, WaitReason};
use rustc_hash::FxHashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest sleep before a thread checks for deaths again.
const NAP: Duration = Duration::from_millis(20);
/// Parts of the table.
const PARTS: usize = 16;

/// Thread that has a lock, and the number of those that wait for it.
#[derive(Debug)]
struct Holder {
    thread: usize,
    waiting: u32,
    /// False once it has been given back, while others wait.
    held: bool,
}

/// Holders by lock. Locks are entered again in a tenth of a microsecond, of which a hash that
/// withstands chosen numbers would take most.
type Holders = FxHashMap<u64, Holder>;

#[derive(Debug, Default)]
struct TablePart {
    holders: Mutex<Holders>,
    given_back: Condvar,
}

/// The locks that threads of this rank have.
#[derive(Debug, Default)]
pub(crate) struct ThreadLocks {
    parts: [TablePart; PARTS],
}

impl TablePart {
    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadLocks {
    fn part(&self, lock: u64) -> &TablePart {
        &self.parts[lock as usize % PARTS]
    }

    /// Takes a lock from other threads of this rank, once they have given it back.
    pub(crate) fn enter(&self, lock: u64, context: &RankContext) -> Result<(), CallFailure> {
        let (part, me) = (self.part(lock), thread::pointer());
        let mut holders = part.holders();
        let mut waits = false;
        let mut published = None;
        loop {
            let entry = Holder { thread: me, waiting: 0, held: false };
            let holder = holders.entry(lock).or_insert(entry);
            if !holder.held {
                (holder.thread, holder.held) = (me, true);
                holder.waiting -= u32::from(waits);
                return Ok(());
            }
            if holder.thread == me && me != 0 {
                return Err(CallFailure::Result(result::MISUSE));
            }
            holder.waiting += u32::from(!waits);
            waits = true;
            let holder = Some(context.rank());
            let published = published.get_or_insert_with(|| Published::none(context.block()));
            published.publish(WaitReason::Heap { what: HeapWait::Lock, number: lock, holder });
            let slept = part.given_back.wait_timeout(holders, NAP);
            holders = slept.unwrap_or_else(PoisonError::into_inner).0;
            if let Err(death) = check_deaths(context) {
                if let Some(holder) = holders.get_mut(&lock) {
                    holder.waiting -= 1;
                }
                return Err(death);
            }
        }
    }

    /// Returns true if a thread of this rank has a lock.
    pub(crate) fn has(&self, lock: u64) -> bool {
        self.part(lock).holders().get(&lock).is_some_and(|holder| holder.held)
    }

    /// Gives a lock back to other threads of this rank. Any thread may do so.
    pub(crate) fn leave(&self, lock: u64) {
        let part = self.part(lock);
        let mut holders = part.holders();
        let Some(holder) = holders.get_mut(&lock) else {
            clump_bug::bug!("a thread has lock {lock}");
            return;
        };
        debug_assert!(holder.held, "a thread has lock {lock}");
        holder.held = false;
        if holder.waiting == 0 {
            holders.remove(&lock);
        } else {
            part.given_back.notify_all();
        }
    }
}
