//! Tasks by number: a queue for each rank, from which others steal when theirs is empty.

use clump::Result;
use clump::svm::{Home, SharedArray, SharedLocks, Svm};

/// Words of a queue: the first task that is left, and the end; on a page of its own.
const STRIDE: usize = 512;

/// Queues of tasks in shared memory, by rank, each under a lock of its own. A rank's tasks are
/// consecutive, so a queue is a range.
#[derive(Debug)]
pub struct TaskQueues {
    svm: Svm,
    ranges: SharedArray<u64>,
    locks: SharedLocks,
}

/// A task, and true if it was stolen.
pub type TakenTask = (usize, bool);

impl TaskQueues {
    /// Allocates empty queues. A collective.
    ///
    /// # Errors
    /// Fails if the heap is full, or if a rank died or left.
    pub fn allocate(svm: &Svm) -> Result<Self> {
        let ranks = svm.nranks();
        let ranges = svm.array(ranks * STRIDE, Home::Block)?;
        Ok(Self { svm: svm.clone(), ranges, locks: svm.locks(ranks)? })
    }

    /// Deals tasks out, once all ranks have found the queues empty; a barrier ends it. A
    /// collective.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn deal(&self, tasks: usize) -> Result<()> {
        let (rank, ranks) = (self.svm.rank(), self.svm.nranks());
        self.svm.barrier()?;
        self.ranges.set(rank * STRIDE, (tasks * rank / ranks) as u64);
        self.ranges.set(rank * STRIDE + 1, (tasks * (rank + 1) / ranks) as u64);
        Ok(self.svm.barrier()?)
    }

    /// Takes the next task of this rank, or the last of another's; none if all are taken.
    ///
    /// # Errors
    /// Fails if a rank died.
    pub fn take(&self) -> Result<Option<TakenTask>> {
        let (own, ranks) = (self.svm.rank(), self.svm.nranks());
        for turn in 0..ranks {
            let victim = (own + turn) % ranks;
            let held = self.locks.lock(victim)?;
            let (first, end) = (victim * STRIDE, victim * STRIDE + 1);
            let (next, last) = (self.ranges.get(first), self.ranges.get(end));
            let taken = match (next < last, turn) {
                (false, _) => None,
                (true, 0) => {
                    self.ranges.set(first, next + 1);
                    Some(next)
                }
                (true, _) => {
                    self.ranges.set(end, last - 1);
                    Some(last - 1)
                }
            };
            held.release()?;
            if let Some(task) = taken {
                return Ok(Some((task as usize, turn > 0)));
            }
        }
        Ok(None)
    }
}
