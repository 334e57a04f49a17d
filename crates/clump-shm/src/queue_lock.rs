//! A fair lock between all ranks of a job, in the memory of its home node: an array of claims,
//! first come, first served.
//!
//! Ranks of the home node work on it themselves, and its network interface does for those of
//! others. A claim takes the position behind the last. The lock belongs to the position at the
//! head, and moves on by one step of the head. Every step is one compare-and-swap, so a rank that
//! dies leaves no step half done. A rank that dies or gives up while waiting is passed over by the
//! next rank that works on the lock. A rank that dies while it holds the lock is found by its name;
//! the first that finds it marks the head, so that a release of the dead rank that is still under
//! way comes either before all refusals or not at all. A rank that overwrites a lock can block only
//! the ranks that wait for it.
//!
//! ```text
//! head (1 bit: broken) | tail (a hint) | word | 5 spare | slots
//!
//! slot: lap + 1 (42 bits), state (2), rank (20)
//! ```
//! The claim at position p is in slot p modulo the slots, of which there is a power of two; its lap
//! is p divided by their number. There are no more than [`MAX_SLOTS`], however many ranks a job
//! has: of ranks that find none free, those of the home wait for one, and the network interface
//! does for those of other nodes.

use crate::geometry::MAX_RANKS;
use clump_os::sync::{AtomicU64, Ordering};

#[cfg(all(test, not(loom)))]
mod tests;

/// Words before the slots.
const FRONT: usize = 8;
const HEAD: usize = 0;
const TAIL: usize = 1;
const WORD: usize = 2;
const _: () = assert!(HEAD != TAIL && TAIL != WORD && HEAD != WORD && WORD < FRONT);

/// Bit of the head: its holder died with the lock, which cannot be acquired any more.
const BROKEN: u64 = 1 << 63;

const WAITING: u64 = 1;
const HELD: u64 = 2;
const GONE: u64 = 3;

/// Most slots of a lock.
pub const MAX_SLOTS: usize = 2048;
/// Bits of a slot that hold the rank, and of those that hold rank and state.
const RANK_BITS: u32 = 20;
const LAP_SHIFT: u32 = RANK_BITS + 2;
const _: () = assert!(MAX_RANKS <= 1 << RANK_BITS && MAX_SLOTS.is_power_of_two());

/// Returns the words that a lock for so many ranks takes. Up to half of [`MAX_SLOTS`] ranks each of
/// them may wait, and as many may have given up.
pub fn lock_words(ranks: usize) -> usize {
    let slots = (ranks.max(1) * 2).next_power_of_two().clamp(8, MAX_SLOTS);
    debug_assert!(slots >= 2 * ranks || slots == MAX_SLOTS, "all wait, and as many have given up");
    FRONT + slots
}

/// A view of a fair queue lock whose words are in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct QueueLock<'a> {
    words: &'a [AtomicU64],
}

/// Result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// A claim that waits at this position, or has the lock already.
    At(u64),
    /// All slots are taken, or a try-lock found the lock held.
    None,
}

/// The claim at the head of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockHead {
    /// No claim.
    Free,
    /// This rank may take the lock.
    Offered(u32),
    /// This rank has it.
    Held(u32),
    /// This rank died with it, and [`QueueLock::break_held`] has ended it.
    Broken(u32),
}

fn state_of(slot: u64) -> u64 {
    slot >> RANK_BITS & 3
}

fn rank_of(slot: u64) -> u32 {
    (slot & ((1 << RANK_BITS) - 1)) as u32
}

/// Orders a step before a read of what others did: of two ranks that step and then read, one sees
/// the other. All of these are sequentially consistent, which is enough; loom takes that for
/// acquire and release, so there it takes a fence.
#[inline(always)]
fn fence_then_read() {
    #[cfg(loom)]
    clump_os::sync::fence(Ordering::SeqCst);
}

impl<'a> QueueLock<'a> {
    /// Creates a view of the lock in `words`, of which there are [`lock_words`]; all zero: free.
    /// Returns `None` when there are too few.
    pub fn over(words: &'a [AtomicU64]) -> Option<Self> {
        let slots = words.len().checked_sub(FRONT)?;
        slots.is_power_of_two().then_some(Self { words })
    }

    /// Asserts the relations between the words, for tests: only while no rank is within a step, and
    /// no rank has overwritten the lock.
    pub fn check_invariants(&self) {
        let (head, slots) = (self.head(), self.slots());
        let mut held = 0;
        for (at, slot) in (0..slots).zip(&self.words[FRONT..]) {
            let slot = slot.load(Ordering::SeqCst);
            let Some(lap) = (slot >> LAP_SHIFT).checked_sub(1) else {
                debug_assert_eq!(slot, 0, "a slot that was never claimed is empty");
                continue;
            };
            let position = lap * slots + at;
            debug_assert!(position < head + slots, "no claim is a lap ahead of the head");
            debug_assert!(state_of(slot) != 0, "a claim waits, is held or is gone");
            held += u64::from(position >= head && state_of(slot) == HELD);
            debug_assert!(
                position <= head || state_of(slot) != HELD,
                "no claimer holds the lock before it is at the head"
            );
        }
        debug_assert!(held <= 1, "one rank holds the lock");
        debug_assert!(held == 1 || !self.is_broken(), "a lock breaks in the hands of its holder");
    }

    fn slot(&self, position: u64) -> &'a AtomicU64 {
        let slots = (self.words.len() - FRONT) as u64;
        &self.words[FRONT + (position % slots) as usize]
    }

    fn slots(&self) -> u64 {
        (self.words.len() - FRONT) as u64
    }

    /// Returns the lap of a position, plus 1.
    fn lap(&self, position: u64) -> u64 {
        debug_assert!(self.slots().is_power_of_two(), "so that a lap is found by a shift");
        (position >> self.slots().trailing_zeros()).wrapping_add(1)
    }

    /// Returns the content of the slot of a claim.
    fn pack(&self, position: u64, state: u64, rank: u32) -> u64 {
        debug_assert!((WAITING..=GONE).contains(&state), "a claim waits, is held or is gone");
        debug_assert!(rank >> RANK_BITS == 0, "a slot holds all ranks of a job");
        self.lap(position) << LAP_SHIFT
            | state << RANK_BITS
            | u64::from(rank) & ((1 << RANK_BITS) - 1)
    }

    /// Returns the position that has the lock, or would.
    pub fn head(&self) -> u64 {
        // SYNC 13: pairs with advance
        self.words[HEAD].load(Ordering::SeqCst) & !BROKEN
    }

    /// Returns true if its holder died with it.
    fn is_broken(&self) -> bool {
        self.words[HEAD].load(Ordering::SeqCst) & BROKEN != 0
    }

    /// Ends the lock for good if `holder`, which has died, still has it. Returns false if it was
    /// released before.
    pub fn break_held(&self, holder: u32) -> bool {
        let head = self.head();
        if self.slot(head).load(Ordering::Acquire) != self.pack(head, HELD, holder) {
            return false;
        }
        let (new, old) = (Ordering::SeqCst, Ordering::SeqCst);
        // Of this step and that of a release, one fails.
        let seen = self.words[HEAD].compare_exchange(head, head | BROKEN, new, old);
        seen.is_ok() || seen == Err(head | BROKEN)
    }

    /// Claims the position behind the last for `rank`.
    pub fn claim(&self, rank: u32) -> Claim {
        // No more others can come in between, unless a rank overwrote the lock.
        for _ in 0..4 * self.slots() {
            let position = self.words[TAIL].load(Ordering::Acquire);
            match self.try_slot(position, rank) {
                Some(true) => return Claim::At(position),
                Some(false) => {}
                None => return Claim::None,
            }
        }
        Claim::None
    }

    /// Claims the head for `rank` if no other rank holds it or waits.
    pub fn claim_free(&self, rank: u32) -> Claim {
        let head = self.head();
        if self.slot(head).load(Ordering::SeqCst) >> LAP_SHIFT >= self.lap(head) {
            return Claim::None;
        }
        match self.try_slot(head, rank) {
            Some(true) => Claim::At(head),
            _ => Claim::None,
        }
    }

    /// Tries to take the slot of a position; returns `None` when an earlier position still has it.
    fn try_slot(&self, position: u64, rank: u32) -> Option<bool> {
        let tail = &self.words[TAIL];
        let slot = self.slot(position);
        let (new, old) = (Ordering::SeqCst, Ordering::Acquire);
        let seen = slot.load(Ordering::Acquire);
        let taken = seen >> LAP_SHIFT >= self.lap(position);
        if !taken {
            // The head only grows, so what has been passed stays passed.
            if position >= self.head().saturating_add(self.slots()) {
                return None;
            }
            if slot.compare_exchange(seen, self.pack(position, WAITING, rank), new, old).is_err() {
                return Some(false);
            }
        }
        // The tail is a hint: any rank that finds it behind moves it.
        let _ = tail.compare_exchange(position, position.wrapping_add(1), new, old);
        fence_then_read();
        Some(!taken)
    }

    /// Returns the claims that have not been passed, in order: position, rank, and true if it has
    /// the lock. For observers; concurrent changes may be seen in part.
    pub fn claims(&self) -> impl Iterator<Item = (u64, u32, bool)> + use<'a> {
        let lock = *self;
        let head = lock.head();
        (head..head.saturating_add(lock.slots())).filter_map(move |position| {
            let slot = lock.slot(position).load(Ordering::SeqCst);
            let (mine, state) = (slot >> LAP_SHIFT == lock.lap(position), state_of(slot));
            // Behind the head, a held slot is being handed over.
            let held = state == HELD && position == head;
            (mine && state != GONE).then(|| (position, rank_of(slot), held))
        })
    }

    /// Returns the rank that has the lock, for observers.
    pub fn holder(&self) -> Option<u32> {
        let head = self.head();
        debug_assert!(head & BROKEN == 0, "the position alone");
        let slot = self.slot(head).load(Ordering::SeqCst);
        let is_held = slot >> LAP_SHIFT == self.lap(head) && state_of(slot) == HELD;
        is_held.then(|| rank_of(slot))
    }

    /// Takes the lock for the claim of `rank` at the head; returns its word, or `None` when the
    /// claim is not there.
    pub fn enter(&self, position: u64, rank: u32) -> Option<u64> {
        if self.head() != position {
            return None;
        }
        let (waiting, held) = (self.pack(position, WAITING, rank), self.pack(position, HELD, rank));
        let (new, old) = (Ordering::SeqCst, Ordering::Relaxed);
        self.slot(position).compare_exchange(waiting, held, new, old).ok()?;
        Some(self.words[WORD].load(Ordering::Acquire))
    }

    /// Releases the lock, with its word. Returns false when `rank` does not hold it at that
    /// position, or the lock was broken.
    pub fn release(&self, position: u64, rank: u32, word: u64) -> bool {
        let held = self.slot(position).load(Ordering::Acquire) == self.pack(position, HELD, rank);
        if !held || self.head() != position {
            return false;
        }
        self.words[WORD].store(word, Ordering::Release);
        self.advance(position)
    }

    /// Hands the lock with its word to the claim of `next` behind it and to no other: no rank sees
    /// it free or offered in between. Returns false when `rank` does not hold it at that position,
    /// or `next` does not wait behind it.
    pub fn hand_over(&self, position: u64, (rank, next): (u32, u32), word: u64) -> bool {
        let held = self.slot(position).load(Ordering::Acquire) == self.pack(position, HELD, rank);
        if !held || self.head() != position || self.is_broken() {
            return false;
        }
        // While it is behind the head, only the rank that hands over reads its state.
        let after = position.wrapping_add(1);
        let (waiting, taken) = (self.pack(after, WAITING, next), self.pack(after, HELD, next));
        let (new, old) = (Ordering::SeqCst, Ordering::Relaxed);
        if self.slot(after).compare_exchange(waiting, taken, new, old).is_err() {
            return false;
        }
        self.words[WORD].store(word, Ordering::Release);
        self.advance(position)
    }

    /// Gives up a claim that waits. Returns false when it has the lock.
    pub fn give_up(&self, position: u64, rank: u32) -> bool {
        let (waiting, gone) = (self.pack(position, WAITING, rank), self.pack(position, GONE, rank));
        let (new, old) = (Ordering::SeqCst, Ordering::Relaxed);
        let given_up = self.slot(position).compare_exchange(waiting, gone, new, old).is_ok();
        fence_then_read();
        given_up
    }

    fn advance(&self, position: u64) -> bool {
        let (new, old) = (Ordering::SeqCst, Ordering::Relaxed);
        // SYNC 13: pairs with head
        let moved =
            self.words[HEAD].compare_exchange(position, position.wrapping_add(1), new, old).is_ok();
        fence_then_read();
        moved
    }

    /// Returns the claim at the head, once claims there that were given up, or whose ranks died
    /// waiting, have been passed over. To be called after [`QueueLock::release`] and
    /// [`QueueLock::give_up`]: a rank that is offered the lock has to be woken.
    pub fn pass_over_withdrawn(&self, is_dead: impl Fn(u32) -> bool) -> LockHead {
        for _ in 0..4 * self.slots() {
            let head = self.head();
            let slot = self.slot(head).load(Ordering::SeqCst);
            if slot >> LAP_SHIFT != self.lap(head) {
                // No claim, or the head has moved on meanwhile, and the rank that moved it checks
                // after that.
                return LockHead::Free;
            }
            let rank = rank_of(slot);
            match state_of(slot) {
                HELD if self.is_broken() => return LockHead::Broken(rank),
                HELD => return LockHead::Held(rank),
                WAITING if !is_dead(rank) => return LockHead::Offered(rank),
                _ => {}
            }
            self.advance(head);
        }
        LockHead::Free
    }
}
