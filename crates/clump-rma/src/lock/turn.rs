//! State machine of a rank that waits for a lock of its own node. Pure except for the lock itself.

use clump_shm::queue_lock::{Claim, Head, QueueLock};

/// A rank's wait for a lock of its node: its claim, and the checks.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    rank: u32,
    /// Rank in whose segment the lock lies.
    owner: u32,
    position: Option<u64>,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It is not this rank's turn.
    NotYet,
    /// This rank holds the lock: position and word.
    Taken(u64, u64),
    /// The rank that held the lock died with it.
    HolderDied,
    /// The rank in whose segment the lock lies died: ranks of other nodes cannot release the lock
    /// any more.
    OwnerDied,
}

impl Turn {
    /// Creates the wait of `rank`, which has no claim yet, for a lock in a segment of `owner`.
    pub fn new(rank: u32, owner: u32) -> Self {
        Self { rank, owner, position: None }
    }

    /// Claims if there was no room for that before, and takes the lock if it is this rank's turn.
    pub fn look(&mut self, lock: QueueLock<'_>, is_dead: impl Fn(u32) -> bool) -> Look {
        if self.position.is_none()
            && let Claim::At(position) = lock.claim(self.rank)
        {
            self.position = Some(position);
        }
        if let Some(taken) = self.enter(lock) {
            return taken;
        }
        // Claims before this one may have been given up because their ranks died.
        match lock.settle(&is_dead) {
            Head::Held(holder) if is_dead(holder) => Look::HolderDied,
            // They were given up: it is this rank's turn now, and no other rank would wake it.
            Head::Offered(next) if next == self.rank => self.enter(lock).unwrap_or(Look::NotYet),
            _ if is_dead(self.owner) => Look::OwnerDied,
            _ => Look::NotYet,
        }
    }

    fn enter(&self, lock: QueueLock<'_>) -> Option<Look> {
        let position = self.position?;
        lock.enter(position, self.rank).map(|word| Look::Taken(position, word))
    }

    /// Ends the wait. Returns true if the next claim has to be found and its rank woken.
    pub fn give_up(self, lock: QueueLock<'_>) -> bool {
        self.position.is_some_and(|position| lock.give_up(position, self.rank))
    }
}
