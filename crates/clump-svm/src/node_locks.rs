//! Locks and flags among the ranks of one node, in memory that all have mapped: on a job of one
//! node the hardware keeps memory consistent.

use crate::caller::{CallFailure, check_deaths};
use clump_am::{RankContext, own_actor};
use clump_os::futex;
use clump_os::sync::{AtomicU32, AtomicU64, Ordering};
use clump_shm::cells::Cells;
use clump_shm::rank::{HeapWait, Published, WaitReason};
use clump_shm::waiter::{WaitStep, Waiter};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a lock or flag: its holder or value, and the word that is slept on.
const ENTRY_BYTES: u64 = 16;
/// Most locks and flags of a job of one node.
pub(crate) const MAX_ENTRIES: u64 = 1 << 28;
/// Longest sleep before a rank checks for deaths again.
const NAP: Duration = Duration::from_millis(20);

/// States of a lock.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
const WAITED_FOR: u32 = 2;

/// Returns the bytes of memory for all locks and flags; sparse.
pub(crate) fn table_bytes() -> u64 {
    MAX_ENTRIES * ENTRY_BYTES
}

/// The locks and flags of a node.
#[derive(Debug)]
pub(crate) struct NodeLocks {
    context: Arc<RankContext>,
    cells: Cells,
}

type Waited = Result<(), CallFailure>;

impl NodeLocks {
    pub(crate) fn new(context: &Arc<RankContext>, cells: Cells) -> Self {
        Self { context: context.clone(), cells }
    }

    /// Returns a lock or flag, for an access to it, which is ordered where time is virtual.
    fn entry(&self, id: u64) -> Result<(&AtomicU64, &AtomicU32), CallFailure> {
        if let Some(actor) = own_actor(&self.context) {
            actor.access_word();
        }
        let missing = CallFailure::Result(crate::mailbox::result::MISUSE);
        let at = id.checked_mul(ENTRY_BYTES).ok_or(missing)?;
        let value = self.cells.word(at).ok_or(missing)?;
        Ok((value, self.cells.half(at + 8).ok_or(missing)?))
    }

    /// Waits until `done`, sleeping on `word` while it has the value that `asleep` prepares.
    /// Publishes `reason` to observers while it sleeps.
    fn wait(
        &self,
        (word, reason): (&AtomicU32, impl Fn() -> WaitReason),
        mut done: impl FnMut() -> bool,
        mut asleep: impl FnMut() -> Option<u32>,
    ) -> Waited {
        if done() {
            return Ok(());
        }
        let mut waiter = Waiter::new(self.context.spin_policy());
        let mut published = Published::none(self.context.block());
        while !done() {
            if waiter.step() != WaitStep::Sleep {
                continue;
            }
            check_deaths(&self.context)?;
            match asleep() {
                Some(value) => {
                    published.publish(reason());
                    let _ = futex::wait(word, value, Some(NAP));
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes a lock.
    pub(crate) fn acquire(&self, id: u64) -> Waited {
        let (holder, word) = self.entry(id)?;
        if holder.load(Ordering::Relaxed) == self.own() {
            return Err(CallFailure::Result(crate::mailbox::result::MISUSE));
        }
        let (taken, not) = (Ordering::Acquire, Ordering::Relaxed);
        // SYNC 29: pairs with release
        let free = || word.compare_exchange(FREE, TAKEN, taken, not).is_ok();
        // A thread that slept acquires in the contended state.
        let reason = || {
            let holder = holder.load(Ordering::Relaxed).checked_sub(1);
            let holder = holder.and_then(|rank| u32::try_from(rank).ok());
            WaitReason::Heap { what: HeapWait::Lock, number: id, holder }
        };
        self.wait((word, reason), free, || {
            (word.swap(WAITED_FOR, Ordering::Acquire) != FREE).then_some(WAITED_FOR)
        })?;
        holder.store(self.own(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the mark of this rank as a holder.
    fn own(&self) -> u64 {
        u64::from(self.context.rank()) + 1
    }

    /// Gives a lock back.
    pub(crate) fn release(&self, id: u64) -> Waited {
        let (holder, word) = self.entry(id)?;
        if holder.load(Ordering::Relaxed) != self.own() {
            return Err(CallFailure::Result(crate::mailbox::result::MISUSE));
        }
        holder.store(0, Ordering::Relaxed);
        // SYNC 29: pairs with acquire
        if word.swap(FREE, Ordering::Release) == WAITED_FOR {
            futex::wake_all(word);
        }
        Ok(())
    }

    /// Makes a flag at least `to`.
    pub(crate) fn set(&self, id: u64, to: u64) -> Waited {
        let (value, word) = self.entry(id)?;
        // SYNC 30: pairs with await_at_least
        value.fetch_max(to, Ordering::SeqCst);
        word.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(word);
        Ok(())
    }

    /// Waits until a flag is at least `least`.
    pub(crate) fn await_at_least(&self, id: u64, least: u64) -> Waited {
        let (value, word) = self.entry(id)?;
        // SYNC 30: pairs with set
        let reached = || value.load(Ordering::SeqCst) >= least;
        let reason = || WaitReason::Heap { what: HeapWait::Flag, number: id, holder: None };
        self.wait((word, reason), reached, || {
            let seen = word.load(Ordering::SeqCst);
            if reached() { None } else { Some(seen) }
        })
    }
}
