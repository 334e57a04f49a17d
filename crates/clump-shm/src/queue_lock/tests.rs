//! The lock in one thread, in several, and under random steps of ranks that may die.

use super::*;
use proptest::prelude::*;
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
fn a_lock_of_a_million_ranks_has_no_more_slots_than_are_needed_and_serves_all_in_turn() {
    let ranks = crate::geometry::MAX_RANKS as u32;
    let words = words(ranks as usize);
    assert_eq!(words.len(), FRONT + MAX_SLOTS);
    let lock = QueueLock::over(&words).unwrap();
    // The last ranks of the job, a few more than there are slots.
    let all = ranks - MAX_SLOTS as u32 - 50..ranks;
    let mut without: Vec<u32> = all.clone().collect();
    let (mut served, mut claims) = (Vec::new(), std::collections::VecDeque::new());
    while served.len() < all.len() {
        without.retain(|&rank| match lock.claim(rank) {
            Claim::At(position) => {
                claims.push_back((position, rank));
                false
            }
            Claim::None => true,
        });
        assert!(claims.len() == MAX_SLOTS || without.is_empty(), "no slot is left unused");
        let (position, rank) = claims.pop_front().unwrap();
        assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Offered(rank));
        assert_eq!(lock.enter(position, rank), Some(served.len() as u64));
        assert_eq!(lock.claims().next(), Some((position, rank, true)));
        assert!(lock.release(position, rank, served.len() as u64 + 1));
        lock.check_invariants();
        served.push(rank);
    }
    assert!(served.into_iter().eq(all), "first come, first served");
    assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Free);
}

#[test]
fn laps_are_told_apart_far_from_the_beginning() {
    let words = words(1);
    let lock = QueueLock::over(&words).unwrap();
    // As after 8 positions short of the last lap of 42 bits.
    let start = ((1 << 42) - 3) * lock.slots();
    words[HEAD].store(start, Ordering::SeqCst);
    words[TAIL].store(start, Ordering::SeqCst);
    for turn in 0..lock.slots() {
        assert_eq!(lock.claim(0xf_ffff), Claim::At(start + turn));
        assert_eq!(lock.claim_free(1), Claim::None);
        assert_eq!(lock.enter(start + turn, 0xf_ffff), Some(turn));
        assert_eq!(lock.enter(start + turn, 1), None);
        assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Held(0xf_ffff));
        assert!(lock.release(start + turn, 0xf_ffff, turn + 1));
        lock.check_invariants();
    }
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

#[derive(Debug, Clone)]
enum Step {
    Claim(u32),
    ClaimFree(u32),
    /// Entry of the claim with this number, modulo all.
    Enter(usize),
    Release(usize),
    HandOver(usize, u32),
    GiveUp(usize),
    /// A rank dies, whatever it does, and the next that works on the lock notices.
    Die(u32),
}

fn any_step() -> impl Strategy<Value = Step> {
    let (rank, claim) = (1..5u32, any::<usize>());
    prop_oneof![
        4 => rank.clone().prop_map(Step::Claim),
        1 => rank.clone().prop_map(Step::ClaimFree),
        6 => claim.prop_map(Step::Enter),
        4 => claim.prop_map(Step::Release),
        2 => (claim, rank.clone()).prop_map(|(claim, rank)| Step::HandOver(claim, rank)),
        2 => claim.prop_map(Step::GiveUp),
        1 => rank.prop_map(Step::Die),
    ]
}

proptest! {
    #[test]
    fn one_rank_holds_the_lock_whatever_the_others_do(
        steps in prop::collection::vec(any_step(), 1..300))
    {
        let words = words(4);
        let lock = QueueLock::over(&words).unwrap();
        let mut claims: Vec<(u64, u32)> = Vec::new();
        let (mut dead, mut word, mut holder) = (Vec::new(), 0, None);
        for step in steps {
            let pick = |at: usize| claims.get(at % claims.len().max(1)).copied();
            match step {
                Step::Claim(rank) if !dead.contains(&rank) => {
                    if let Claim::At(position) = lock.claim(rank) {
                        claims.push((position, rank));
                    }
                }
                Step::ClaimFree(rank) if !dead.contains(&rank) => {
                    if let Claim::At(position) = lock.claim_free(rank) {
                        prop_assert_eq!((holder, position), (None, lock.head()));
                        claims.push((position, rank));
                    }
                }
                Step::Enter(at) => {
                    if let Some((position, rank)) = pick(at)
                        && let Some(found) = lock.enter(position, rank)
                    {
                        prop_assert_eq!((found, holder), (word, None), "free, as it was left");
                        holder = Some((position, rank));
                    }
                }
                Step::Release(at) => if let Some((position, rank)) = pick(at) {
                    let released = lock.release(position, rank, word + 1);
                    prop_assert_eq!(released, holder == Some((position, rank)));
                    if released {
                        (word, holder) = (word + 1, None);
                    }
                },
                Step::HandOver(at, next) => {
                    if let Some((position, rank)) = pick(at)
                        && lock.hand_over(position, (rank, next), word + 1)
                    {
                        prop_assert_eq!(holder, Some((position, rank)));
                        (word, holder) = (word + 1, Some((position + 1, next)));
                    }
                }
                Step::GiveUp(at) => if let Some((position, rank)) = pick(at) {
                    let given_up = lock.give_up(position, rank);
                    prop_assert!(!given_up || holder != Some((position, rank)), "it has the lock");
                },
                Step::Die(rank) => {
                    dead.push(rank);
                    claims.retain(|claim| claim.1 != rank);
                }
                Step::Claim(_) | Step::ClaimFree(_) => {}
            }
            let head = lock.pass_over_withdrawn(|rank| dead.contains(&rank));
            if let Some((position, rank)) = holder {
                prop_assert_eq!((head, lock.head()), (LockHead::Held(rank), position));
            }
            lock.check_invariants();
            if let LockHead::Held(rank) = head && dead.contains(&rank) {
                prop_assert!(lock.break_held(rank));
                lock.check_invariants();
                prop_assert_eq!(lock.pass_over_withdrawn(alive), LockHead::Broken(rank));
                break;
            }
        }
    }
}
