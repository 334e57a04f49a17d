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
//! slot: position + 1 (46 bits), state (2), rank (16)
//! ```

use clump_os::sync::{AtomicU64, Ordering};

/// Words before the slots.
const FRONT: usize = 8;
const HEAD: usize = 0;
const TAIL: usize = 1;
const WORD: usize = 2;

/// Bit of the head: its holder died with the lock, which nobody gets any more.
const BROKEN: u64 = 1 << 63;

const WAITING: u64 = 1;
const HELD: u64 = 2;
const GONE: u64 = 3;

/// Returns the words that a lock for so many ranks takes. Each of them may wait, and some may have
/// given up.
pub fn lock_words(ranks: usize) -> usize {
    FRONT + (ranks.max(1) * 2).next_power_of_two().max(8)
}

/// A view of a fair queue lock whose words lie in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct QueueLock<'a> {
    words: &'a [AtomicU64],
}

/// Result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It waits at this position, or has the lock already.
    At(u64),
    /// All slots are taken, or, where only a free lock is wanted, it is not free.
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

fn pack(position: u64, state: u64, rank: u32) -> u64 {
    position.wrapping_add(1) << 18 | state << 16 | u64::from(rank & 0xffff)
}

fn state_of(slot: u64) -> u64 {
    slot >> 16 & 3
}

fn rank_of(slot: u64) -> u32 {
    (slot & 0xffff) as u32
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

    fn slot(&self, position: u64) -> &'a AtomicU64 {
        let slots = (self.words.len() - FRONT) as u64;
        &self.words[FRONT + (position % slots) as usize]
    }

    fn slots(&self) -> u64 {
        (self.words.len() - FRONT) as u64
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
        if self.slot(head).load(Ordering::Acquire) != pack(head, HELD, holder) {
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
        if self.slot(head).load(Ordering::SeqCst) >> 18 > head {
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
        let taken = seen >> 18 > position;
        if !taken {
            // The head only grows, so what has been passed stays passed.
            if position >= self.head().saturating_add(self.slots()) {
                return None;
            }
            if slot.compare_exchange(seen, pack(position, WAITING, rank), new, old).is_err() {
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
            let (mine, state) = (slot >> 18 == position.wrapping_add(1), state_of(slot));
            // Behind the head, a held slot is being handed over.
            let held = state == HELD && position == head;
            (mine && state != GONE).then(|| (position, rank_of(slot), held))
        })
    }

    /// Takes the lock for the claim of `rank` at the head; returns its word, or `None` when the
    /// claim is not there.
    pub fn enter(&self, position: u64, rank: u32) -> Option<u64> {
        if self.head() != position {
            return None;
        }
        let (waiting, held) = (pack(position, WAITING, rank), pack(position, HELD, rank));
        let (new, old) = (Ordering::SeqCst, Ordering::Relaxed);
        self.slot(position).compare_exchange(waiting, held, new, old).ok()?;
        Some(self.words[WORD].load(Ordering::Acquire))
    }

    /// Releases the lock, with its word. Returns false when `rank` does not hold it at that
    /// position, or the lock was broken.
    pub fn release(&self, position: u64, rank: u32, word: u64) -> bool {
        let held = self.slot(position).load(Ordering::Acquire) == pack(position, HELD, rank);
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
        let held = self.slot(position).load(Ordering::Acquire) == pack(position, HELD, rank);
        if !held || self.head() != position || self.is_broken() {
            return false;
        }
        // While it is behind the head, only the rank that hands over reads its state.
        let after = position.wrapping_add(1);
        let (waiting, taken) = (pack(after, WAITING, next), pack(after, HELD, next));
        let (new, old) = (Ordering::SeqCst, Ordering::Relaxed);
        if self.slot(after).compare_exchange(waiting, taken, new, old).is_err() {
            return false;
        }
        self.words[WORD].store(word, Ordering::Release);
        self.advance(position)
    }

    /// Gives up a claim that waits. Returns false when it has the lock.
    pub fn give_up(&self, position: u64, rank: u32) -> bool {
        let (waiting, gone) = (pack(position, WAITING, rank), pack(position, GONE, rank));
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
            if slot >> 18 != head.wrapping_add(1) {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn words(ranks: usize) -> Vec<AtomicU64> {
        (0..lock_words(ranks)).map(|_| AtomicU64::new(0)).collect()
    }

    fn alive(_: u32) -> bool {
        false
    }

    #[test]
    fn first_come_first_served_with_the_word() {
        let words = words(4);
        let lock = QueueLock::over(&words).unwrap();
        let at = |claim| if let Claim::At(position) = claim { position } else { panic!("full") };
        for turn in 0..100 {
            let [a, b, c] = [1, 2, 3].map(|rank| at(lock.claim(rank)));
            assert_eq!(lock.enter(a, 1), Some(turn * 3));
            assert_eq!((lock.enter(b, 2), lock.claim_free(4)), (None, Claim::None));
            assert!(!lock.release(b, 2, 0) && !lock.release(a, 2, 0));
            assert!(lock.release(a, 1, turn * 3 + 1) && !lock.release(a, 1, 7));
            assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Offered(2));
            let claims = [(b, 2, false), (c, 3, false)];
            assert!(lock.claims().eq(claims), "{:?}", lock.claims().collect::<Vec<_>>());
            assert_eq!(lock.enter(b, 2), Some(turn * 3 + 1));
            assert!(lock.release(b, 2, turn * 3 + 2));
            assert_eq!(lock.enter(c, 3), Some(turn * 3 + 2));
            assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Held(3));
            assert!(lock.release(c, 3, turn * 3 + 3));
            assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Free);
        }
        let free = at(lock.claim_free(4));
        assert_eq!(lock.enter(free, 4), Some(300));
    }

    #[test]
    fn who_gave_up_or_died_waiting_is_passed_over_and_a_dead_holder_is_named() {
        let words = words(4);
        let lock = QueueLock::over(&words).unwrap();
        for rank in [1, 2, 3, 4] {
            assert_eq!(lock.claim(rank), Claim::At(u64::from(rank) - 1));
        }
        assert!(lock.enter(0, 1).is_some());
        assert!(lock.give_up(1, 2) && !lock.give_up(1, 2) && !lock.give_up(0, 1));
        assert!(lock.release(0, 1, 9));
        assert_eq!(lock.pass_over_withdrawn(|rank| rank == 3), LockHead::Offered(4));
        assert_eq!((lock.enter(2, 3), lock.enter(3, 4)), (None, Some(9)));
        assert_eq!(lock.pass_over_withdrawn(|rank| rank == 4), LockHead::Held(4));
    }

    #[test]
    fn a_lock_is_handed_to_the_next_and_to_nobody_else() {
        let words = words(4);
        let lock = QueueLock::over(&words).unwrap();
        for rank in [1, 2, 3] {
            assert_eq!(lock.claim(rank), Claim::At(u64::from(rank) - 1));
        }
        assert!(!lock.hand_over(0, (1, 2), 5), "not held yet");
        assert_eq!(lock.enter(0, 1), Some(0));
        for (position, ranks) in [(0, (2, 2)), (0, (1, 3)), (1, (1, 2)), (1, (2, 3))] {
            assert!(!lock.hand_over(position, ranks, 5), "{position} {ranks:?}");
        }
        assert!(lock.hand_over(0, (1, 2), 5) && !lock.hand_over(0, (1, 2), 6));
        assert_eq!((lock.head(), lock.pass_over_withdrawn(alive)), (1, LockHead::Held(2)));
        assert_eq!((lock.enter(1, 2), lock.give_up(1, 2)), (None, false));
        assert!(lock.claims().eq([(1, 2, true), (2, 3, false)]));
        // A rank that died with the lock during the hand-over is named.
        assert_eq!(lock.pass_over_withdrawn(|rank| rank == 2), LockHead::Held(2));
        assert!(lock.give_up(2, 3) && !lock.hand_over(1, (2, 3), 7));
        assert!(lock.release(1, 2, 7));
        assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Free);
        let Claim::At(position) = lock.claim_free(4) else { panic!("not free") };
        assert_eq!(lock.enter(position, 4), Some(7));
    }

    #[test]
    fn a_broken_lock_is_nobodys_any_more_and_a_released_one_cannot_break() {
        let words = words(4);
        let lock = QueueLock::over(&words).unwrap();
        for rank in [1, 2, 3] {
            assert_eq!(lock.claim(rank), Claim::At(u64::from(rank) - 1));
        }
        assert!(lock.enter(0, 1).is_some() && !lock.break_held(2));
        assert!(lock.release(0, 1, 5) && !lock.break_held(1), "it was released");
        assert!(!lock.break_held(2), "it is offered, not held");
        assert_eq!(lock.enter(1, 2), Some(5));
        assert!(lock.break_held(2) && lock.break_held(2));
        assert!(!lock.hand_over(1, (2, 3), 7) && !lock.release(1, 2, 7));
        assert_eq!(lock.pass_over_withdrawn(|rank| rank == 2), LockHead::Broken(2));
        assert_eq!((lock.enter(2, 3), lock.claim_free(4)), (None, Claim::None));
        assert!(lock.give_up(2, 3));
        assert_eq!(lock.claim(4), Claim::At(3));
        assert_eq!((lock.enter(3, 4), lock.head()), (None, 1));
    }

    #[test]
    fn no_more_wait_than_there_are_slots() {
        let words = words(1);
        let lock = QueueLock::over(&words).unwrap();
        let slots = (words.len() - FRONT) as u64;
        for position in 0..slots {
            assert_eq!(lock.claim(1), Claim::At(position));
        }
        assert_eq!(lock.claim(1), Claim::None);
        assert!(lock.give_up(0, 1));
        assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Offered(1));
        assert_eq!(lock.claim(1), Claim::At(slots));
        assert_eq!(lock.claim(1), Claim::None);
    }

    #[test]
    fn threads_exclude_each_other_and_nobody_is_forgotten() {
        const TURNS: u64 = 2000;
        let words = Arc::new(words(4));
        let threads: Vec<_> = (1..=4)
            .map(|rank| {
                let words = words.clone();
                std::thread::spawn(move || {
                    let lock = QueueLock::over(&words).unwrap();
                    let mut got = 0;
                    for turn in 0..TURNS {
                        let Claim::At(position) = lock.claim(rank) else { panic!("full") };
                        if turn % 5 == u64::from(rank) && lock.give_up(position, rank) {
                            lock.pass_over_withdrawn(alive);
                            continue;
                        }
                        let word = loop {
                            lock.pass_over_withdrawn(alive);
                            if let Some(word) = lock.enter(position, rank) {
                                break word;
                            }
                            std::thread::yield_now();
                        };
                        got += 1;
                        assert!(lock.release(position, rank, word + 1));
                    }
                    got
                })
            })
            .collect();
        let got: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        let lock = QueueLock::over(&words).unwrap();
        assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Free);
        let Claim::At(position) = lock.claim_free(1) else { panic!("not free") };
        assert_eq!(lock.enter(position, 1), Some(got));
    }
}
