//! A rank that waits for a lock of its own node: what it does whenever it looks. Pure but for the lock itself.

use clump_shm::queue_lock::{Claim, Head, QueueLock};

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    rank: u32,
    /// Whose segment the lock lies in.
    owner: u32,
    position: Option<u64>,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It is not its turn.
    NotYet,
    /// It holds the lock: position and word.
    Taken(u64, u64),
    /// Whoever held it died with it.
    HolderDied,
    /// The rank died whose segment the lock lies in: ranks of other nodes cannot give it back any more.
    OwnerDied,
}

impl Turn {
    /// Of `rank`, which has claimed nothing yet, for a lock in a segment of `owner`.
    pub fn new(rank: u32, owner: u32) -> Self {
        Self { rank, owner, position: None }
    }

    /// Claims if there was no room for that before, and takes the lock if it is its turn.
    pub fn look(&mut self, lock: QueueLock<'_>, is_dead: impl Fn(u32) -> bool) -> Look {
        if self.position.is_none()
            && let Claim::At(position) = lock.claim(self.rank)
        {
            self.position = Some(position);
        }
        if let Some(taken) = self.enter(lock) {
            return taken;
        }
        // Claims before this one may have been given up by whoever died then.
        match lock.settle(&is_dead) {
            Head::Held(holder) if is_dead(holder) => Look::HolderDied,
            // They were: it is its turn now, and nobody else would say so.
            Head::Offered(next) if next == self.rank => self.enter(lock).unwrap_or(Look::NotYet),
            _ if is_dead(self.owner) => Look::OwnerDied,
            _ => Look::NotYet,
        }
    }

    fn enter(&self, lock: QueueLock<'_>) -> Option<Look> {
        let position = self.position?;
        lock.enter(position, self.rank).map(|word| Look::Taken(position, word))
    }

    /// Waits no longer. True when whoever is next has to be looked for.
    pub fn give_up(self, lock: QueueLock<'_>) -> bool {
        self.position.is_some_and(|position| lock.give_up(position, self.rank))
    }
}
