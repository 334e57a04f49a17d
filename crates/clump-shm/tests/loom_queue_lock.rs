//! Every interleaving of claims, hand-overs and claims that are given up.
#![cfg(loom)]

use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::queue_lock::{Claim, LockHead, QueueLock, lock_words};
use loom::sync::Arc;
use loom::thread;

struct Shared {
    words: Vec<AtomicU64>,
    /// Rank that holds the lock.
    inside: AtomicU64,
    /// Wakes that were owed, by rank.
    woken: [AtomicU64; 3],
}

fn shared() -> Arc<Shared> {
    let words = (0..lock_words(2)).map(|_| AtomicU64::new(0)).collect();
    let woken = [0; 3].map(AtomicU64::new);
    Arc::new(Shared { words, inside: AtomicU64::new(0), woken })
}

impl Shared {
    /// Takes the lock once, counts in its word, and releases it; waits to be woken, as sleepers do.
    fn pass(&self, rank: u32) {
        let lock = QueueLock::over(&self.words).unwrap();
        let Claim::At(position) = lock.claim(rank) else { panic!("full") };
        let word = loop {
            if let Some(word) = lock.enter(position, rank) {
                break word;
            }
            // The rank that hands it over wakes: nothing else may be needed.
            while self.woken[rank as usize].load(Ordering::SeqCst) == 0 && lock.head() != position {
                thread::yield_now();
            }
        };
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "two at once");
        self.inside.fetch_sub(1, Ordering::Relaxed);
        assert!(lock.release(position, rank, word + 1));
        self.wake(lock);
    }

    fn wake(&self, lock: QueueLock<'_>) {
        if let LockHead::Offered(next) = lock.pass_over_withdrawn(|_| false) {
            self.woken[next as usize].store(1, Ordering::SeqCst);
        }
    }

    fn word(&self) -> u64 {
        let lock = QueueLock::over(&self.words).unwrap();
        let Claim::At(position) = lock.claim_free(1) else { panic!("not free") };
        lock.enter(position, 1).unwrap()
    }
}

#[test]
fn two_ranks_pass_one_after_the_other() {
    loom::model(|| {
        let shared = shared();
        let other = shared.clone();
        let thread = thread::spawn(move || other.pass(1));
        shared.pass(2);
        thread.join().unwrap();
        assert_eq!(shared.word(), 2);
    });
}

#[test]
fn a_claim_given_up_is_passed_over_or_has_the_lock() {
    loom::model(|| {
        let shared = shared();
        let other = shared.clone();
        let thread = thread::spawn(move || other.pass(1));
        let lock = QueueLock::over(&shared.words).unwrap();
        let Claim::At(position) = lock.claim(2) else { panic!("full") };
        assert!(lock.give_up(position, 2));
        shared.wake(lock);
        thread.join().unwrap();
        assert_eq!(shared.word(), 1);
    });
}

#[test]
fn a_lock_handed_to_the_next_is_seen_by_nobody_else() {
    loom::model(|| {
        let shared = shared();
        let lock = QueueLock::over(&shared.words).unwrap();
        // Two ranks of other nodes, for which one interface acts, and one of this node behind them.
        assert_eq!((lock.claim(0), lock.claim(2)), (Claim::At(0), Claim::At(1)));
        assert_eq!(lock.enter(0, 0), Some(0));
        let other = shared.clone();
        let thread = thread::spawn(move || other.pass(1));
        shared.inside.fetch_add(1, Ordering::Relaxed);
        assert!(lock.hand_over(0, (0, 2), 1));
        shared.inside.fetch_sub(1, Ordering::Relaxed);
        assert!(lock.release(1, 2, 2));
        shared.wake(lock);
        thread.join().unwrap();
        assert_eq!(shared.word(), 3);
    });
}

#[test]
fn a_release_under_way_is_seen_by_all_or_by_nobody() {
    loom::model(|| {
        let shared = shared();
        let lock = QueueLock::over(&shared.words).unwrap();
        // Rank 0 has died; its release is executed while two others find that it died.
        assert_eq!((lock.claim(0), lock.claim(1)), (Claim::At(0), Claim::At(1)));
        assert_eq!(lock.enter(0, 0), Some(0));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let lock = QueueLock::over(&other.words).unwrap();
            lock.break_held(0)
        });
        let released = lock.release(0, 0, 7);
        let broken = thread.join().unwrap();
        assert_ne!(released, broken);
        assert_eq!(lock.break_held(0), broken);
        assert_eq!(lock.enter(1, 1), released.then_some(7));
    });
}
