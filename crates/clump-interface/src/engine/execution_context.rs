//! Memory, accounts and outlet of an engine, as each of its parts executes requests with them.

use super::accounts::Accounts;
use super::claims::At;
use super::request::ReplySink;
use crate::memory::Memory;
use clump_onesided::protocol::{MAX_PIECE, tell};
use clump_onesided::{FLAG_BYTES, FlagWords, Refusal};
use clump_shm::export::SegmentName;
use clump_shm::queue_lock::{LockHead, QueueLock, lock_words};

/// Memory, accounts and outlet of an engine, for one step.
pub(super) struct ExecutionContext<'a> {
    pub(super) memory: &'a mut dyn Memory,
    /// Ranks of the job.
    pub(super) ranks: u32,
    pub(super) accounts: &'a mut Accounts,
    /// Bytes of the answer that is being made.
    pub(super) bytes: &'a mut Vec<u8>,
    pub(super) out: &'a mut dyn ReplySink,
}

impl ExecutionContext<'_> {
    /// Sends an answer without a payload, or keeps it until there is room.
    pub(super) fn answer(&mut self, at: usize, handler: u8, words: &[u64]) {
        self.accounts.answer(at, self.out, (handler, words), &[]);
    }

    /// Sends the bytes of the answer, or keeps them until there is room.
    pub(super) fn answer_bytes(&mut self, at: usize, cookie: u64) {
        debug_assert!(self.bytes.len() <= MAX_PIECE, "an answer fits into one message");
        self.accounts.answer(at, self.out, (tell::BYTES, &[cookie, 0]), self.bytes);
    }

    /// Reports a refusal that concerns a place of a segment.
    pub(super) fn refuse(
        &mut self,
        at: usize,
        refused: (u64, Refusal),
        (segment, offset): (SegmentName, u64),
    ) {
        self.accounts.refuse(at, self.out, refused, [segment.to_bits(), offset]);
    }

    /// Returns the flag at a place of a segment.
    pub(super) fn flag(
        &mut self,
        segment: SegmentName,
        offset: u64,
    ) -> Result<FlagWords<'_>, Refusal> {
        flag_words(self.memory, segment, offset)
    }

    /// Returns the lock at a place of a segment.
    pub(super) fn lock(
        &mut self,
        segment: SegmentName,
        offset: u64,
    ) -> Result<QueueLock<'_>, Refusal> {
        queue_lock(self.memory, self.ranks, segment, offset)
    }

    /// Wakes the rank at the head of a lock that has moved on. Ranks of other nodes are notified
    /// when waits are answered.
    pub(super) fn pass_on(&mut self, segment: SegmentName, offset: u64) {
        let dead = self.memory.dead();
        let Ok(lock) = self.lock(segment, offset) else { return };
        if let LockHead::Offered(rank) = lock.pass_over_withdrawn(|rank| dead.contains(&rank)) {
            debug_assert!(!dead.contains(&rank), "claims of ranks that died are passed over");
            self.memory.wake(rank);
        }
    }

    /// Gives up a claim that waits.
    pub(super) fn give_up(&mut self, at: At, rank: u32) {
        debug_assert!(rank < self.ranks, "ranks claim");
        let lock = self.lock(at.segment, at.offset);
        if lock.is_ok_and(|lock| lock.give_up(at.position, rank)) {
            self.pass_on(at.segment, at.offset);
        }
    }

    /// Returns the reason why a lock that is not free cannot be had now, or never.
    pub(super) fn why_taken(&mut self, segment: SegmentName, offset: u64) -> Refusal {
        let dead = self.memory.dead();
        match self.lock(segment, offset) {
            Ok(lock) => match lock.pass_over_withdrawn(|_| false) {
                LockHead::Broken(_) => Refusal::HolderDied,
                LockHead::Held(holder) if dead.contains(&holder) && lock.break_held(holder) => {
                    Refusal::HolderDied
                }
                _ => Refusal::LockBusy,
            },
            Err(why) => why,
        }
    }
}

/// Returns the flag at a place of a segment.
pub(super) fn flag_words(
    memory: &mut dyn Memory,
    segment: SegmentName,
    offset: u64,
) -> Result<FlagWords<'_>, Refusal> {
    let cells = memory.segment(segment, offset, FLAG_BYTES)?;
    debug_assert!(cells.holds(offset, FLAG_BYTES), "what may be accessed is mapped");
    FlagWords::over(cells, offset).ok_or(Refusal::Misaligned)
}

/// Returns the lock at a place of a segment.
pub(super) fn queue_lock(
    memory: &mut dyn Memory,
    ranks: u32,
    segment: SegmentName,
    offset: u64,
) -> Result<QueueLock<'_>, Refusal> {
    let count = lock_words(ranks as usize);
    let cells = memory.segment(segment, offset, count as u64 * 8)?;
    debug_assert!(cells.holds(offset, count as u64 * 8), "what may be accessed is mapped");
    cells.words(offset, count).and_then(QueueLock::over).ok_or(Refusal::Misaligned)
}
