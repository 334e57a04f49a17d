//! Turns at the scans of a rank's stores: a word in memory of the node. Who scans detects later
//! stores anew, so the other side would miss what was found and not reported yet.
//!
//! The interface never waits: a rank that has its turn when the interface wants one rings it at the
//! end.

use clump_os::futex;
use clump_os::sync::{AtomicU32, Ordering};
use clump_shm::cells::Cells;
use std::time::Duration;

/// Parts of the word: an interface that has its turn, threads that sleep until its end, an
/// interface that wants one, and, above, the number of threads of the rank that are in its turn.
const INTERFACE: u32 = 1;
const SLEEPS: u32 = 2;
const WANTED: u32 = 4;
const THREAD: u32 = 8;

/// Longest sleep before a rank checks for deaths again.
const NAP: Duration = Duration::from_millis(20);

/// The word of one rank, as either side sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanTurn<'a> {
    word: &'a AtomicU32,
}

impl<'a> ScanTurn<'a> {
    /// Returns the word at a place, if the region is mapped there.
    pub(crate) fn over(cells: &'a Cells, at: u64) -> Option<Self> {
        cells.half(at).map(|word| Self { word })
    }

    fn change(self, from: u32, to: u32, order: Ordering) -> bool {
        self.word.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    /// Begins the rank's turn, which its threads share, once the interface has none. Returns false
    /// if `is_over` says that nobody goes on.
    pub(crate) fn begin_as_rank(self, is_over: impl Fn() -> bool) -> bool {
        loop {
            let now = self.word.load(Ordering::Relaxed);
            if now & INTERFACE == 0 {
                debug_assert!(now < u32::MAX - THREAD, "a rank has few threads");
                // SYNC 35: pairs with end_as_interface
                if self.change(now, now + THREAD, Ordering::Acquire) {
                    return true;
                }
            } else if is_over() {
                return false;
            } else if self.change(now, now | SLEEPS, Ordering::Relaxed) {
                futex::wait(self.word, now | SLEEPS, Some(NAP));
            }
        }
    }

    /// Ends the turn of one thread of the rank: as that thread, or, at the interface, because its
    /// call is handled. Returns true if the interface is to be rung.
    pub(crate) fn end_as_rank(self) -> bool {
        loop {
            let now = self.word.load(Ordering::Relaxed);
            let Some(left) = now.checked_sub(THREAD) else {
                clump_bug::bug!("the rank has its turn");
                return false;
            };
            let last = left < THREAD;
            // SYNC 36: pairs with begin_as_interface
            if self.change(now, if last { 0 } else { left }, Ordering::Release) {
                return last && now & WANTED != 0;
            }
        }
    }

    /// Begins the interface's turn. Returns false if the rank has one, and rings at its end.
    pub(crate) fn begin_as_interface(self) -> bool {
        loop {
            let now = self.word.load(Ordering::Relaxed);
            debug_assert_eq!(now & INTERFACE, 0, "the interface takes one turn at a time");
            let free = now < THREAD;
            // SYNC 36: pairs with end_as_rank
            if self.change(now, if free { INTERFACE } else { now | WANTED }, Ordering::Acquire) {
                return free;
            }
        }
    }

    /// Ends the interface's turn.
    pub(crate) fn end_as_interface(self) {
        // SYNC 35: pairs with begin_as_rank
        let before = self.word.swap(0, Ordering::Release);
        debug_assert_eq!(before & !SLEEPS, INTERFACE, "it has its turn");
        if before & SLEEPS != 0 {
            futex::wake_all(self.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_turn_and_the_last_rings_an_interface_that_wants_one() {
        let word = AtomicU32::new(0);
        let turn = ScanTurn { word: &word };
        assert!(turn.begin_as_rank(|| true) && turn.begin_as_rank(|| true));
        assert!(!turn.begin_as_interface() && !turn.begin_as_interface());
        assert!(!turn.end_as_rank() && turn.end_as_rank());
        assert!(turn.begin_as_interface());
        assert!(!turn.begin_as_rank(|| true), "it is the interface's");
        turn.end_as_interface();
        assert!(turn.begin_as_rank(|| true) && !turn.end_as_rank());
    }

    #[test]
    fn the_rank_and_the_interface_never_have_turns_at_once() {
        let (word, inside) = (AtomicU32::new(0), AtomicU32::new(0));
        let turn = ScanTurn { word: &word };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert!(turn.begin_as_rank(|| false));
                        inside.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::Relaxed);
                        turn.end_as_rank();
                    }
                });
            }
            for _ in 0..200 {
                if turn.begin_as_interface() {
                    assert_eq!(inside.load(Ordering::Relaxed), 0, "a thread is in its turn");
                    turn.end_as_interface();
                }
            }
        });
        assert_eq!(word.load(Ordering::Relaxed) & !WANTED, 0);
    }
}
