//! State machine of a rank that waits for a lock of its own node. Pure except for the lock itself.

use clump_shm::queue_lock::{Claim, LockHead, QueueLock};

/// A rank's wait for a lock of its node: its claim, and the checks.
#[derive(Debug, Clone, Copy)]
pub struct LockTurn {
    rank: u32,
    /// Rank whose segment holds the lock.
    owner: u32,
    position: Option<u64>,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    /// Not this rank's turn.
    NotYet,
    /// This rank holds the lock: position and word.
    Taken(u64, u64),
    /// The rank that held the lock died with it.
    HolderDied,
    /// The rank whose segment holds the lock died: ranks of other nodes cannot release the lock any
    /// more.
    OwnerDied,
}

impl LockTurn {
    /// Creates the wait of `rank`, which has no claim yet, for a lock in a segment of `owner`.
    pub fn new(rank: u32, owner: u32) -> Self {
        Self { rank, owner, position: None }
    }

    /// Claims if there was no room for that before, and takes the lock if it is this rank's turn.
    pub fn poll(&mut self, lock: QueueLock<'_>, is_dead: impl Fn(u32) -> bool) -> TurnStatus {
        if self.position.is_none()
            && let Claim::At(position) = lock.claim(self.rank)
        {
            self.position = Some(position);
        }
        if let Some(taken) = self.enter(lock) {
            return taken;
        }
        // Claims before this one may have been given up because their ranks died.
        match lock.pass_over_withdrawn(&is_dead) {
            LockHead::Broken(_) => TurnStatus::HolderDied,
            LockHead::Held(holder) if is_dead(holder) && lock.break_held(holder) => {
                TurnStatus::HolderDied
            }
            // They were given up: it is this rank's turn now, and no other rank would wake it.
            LockHead::Offered(next) if next == self.rank => {
                self.enter(lock).unwrap_or(TurnStatus::NotYet)
            }
            _ if is_dead(self.owner) => TurnStatus::OwnerDied,
            _ => TurnStatus::NotYet,
        }
    }

    fn enter(&self, lock: QueueLock<'_>) -> Option<TurnStatus> {
        let position = self.position?;
        lock.enter(position, self.rank).map(|word| TurnStatus::Taken(position, word))
    }

    /// Returns true if it has a claim.
    pub fn has_claimed(&self) -> bool {
        self.position.is_some()
    }

    /// Ends the wait. Returns true if the next claim has to be found and its rank woken.
    pub fn give_up(self, lock: QueueLock<'_>) -> bool {
        self.position.is_some_and(|position| lock.give_up(position, self.rank))
    }
}
