//! Thread of a rank that publishes what the rank has put off and does not come to: it computes, or
//! waits for something that is no synchronisation of the shared heap.

use crate::protocol_thread::EndOnPanic;
use clump_os::sync::{AtomicU32, Ordering, fence};
use clump_os::{OsError, futex, thread, virtual_thread};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between looks at the rank's open interval: a rank that waits for it waits for one of these
/// and a round trip, if this one does not synchronise before. On any path.
const TICK: Duration = Duration::from_millis(1);
/// Looks that find none, in a row, before the thread sleeps until the rank wakes it.
const IDLE_TICKS: u32 = 20;

/// States of the thread.
const NONE: u32 = 0;
const STARTING: u32 = 1;
const ASLEEP: u32 = 2;
const LOOKING: u32 = 3;
const ENDED: u32 = 4;

/// Work of the thread, by the rank's number of its open interval; 0 for none.
pub(crate) trait LateWork: Sync {
    /// Prepares the thread. Returns false if it cannot publish.
    fn begin(&self) -> bool;
    /// Returns the number of the rank's open interval.
    fn open_number(&self) -> u64;
    /// Returns true if others wait for it.
    fn is_wanted(&self) -> bool;
    /// Publishes that interval, if it is still open. Returns false if that is impossible.
    fn publish(&self) -> bool;
}

/// The thread, which the first interval that is put off starts.
#[derive(Debug, Default)]
pub(crate) struct LatePublisher {
    state: AtomicU32,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LatePublisher {
    fn change(&self, from: u32, to: u32) -> bool {
        debug_assert_ne!(from, to, "a change");
        let (done, missed) = (Ordering::SeqCst, Ordering::Relaxed);
        self.state.compare_exchange(from, to, done, missed).is_ok()
    }

    /// Returns true if the thread is there: the rank may put off. Else starts it, once.
    pub(crate) fn is_ready(&'static self, work: &'static dyn LateWork) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        debug_assert!(state <= ENDED, "a state");
        if virtual_thread::is_virtual() {
            // A thread beside the rank would have no time.
            return false;
        }
        match state {
            ASLEEP | LOOKING => true,
            NONE if self.change(NONE, STARTING) => {
                let mut place = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
                let run = move || {
                    let _whole = EndOnPanic;
                    self.run(work);
                };
                match thread::spawn("clump-svm-late", run) {
                    Ok(started) => *place = Some(started),
                    Err(OsError { .. }) => drop(self.change(STARTING, ENDED)),
                }
                false
            }
            _ => false,
        }
    }

    /// Sees to it that the thread looks, behind the opening of an interval.
    pub(crate) fn watch(&self) {
        debug_assert!(self.state.load(Ordering::Relaxed) != NONE, "a thread is there, or was");
        // One of this rank and the thread sees what the other has written before.
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) == ASLEEP && self.change(ASLEEP, LOOKING) {
            futex::wake_all(&self.state);
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        let before = self.state.swap(ENDED, Ordering::SeqCst);
        debug_assert!(before <= ENDED, "a state");
        futex::wake_all(&self.state);
        let running = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            // A panic would have ended the process.
            let _ = running.join();
        }
    }

    fn run(&self, work: &dyn LateWork) {
        debug_assert_ne!(self.state.load(Ordering::Relaxed), NONE, "the rank has started it");
        if !work.begin() {
            self.state.store(ENDED, Ordering::SeqCst);
        }
        let _ = self.change(STARTING, ASLEEP);
        let mut idle = 0;
        loop {
            match self.state.load(Ordering::Relaxed) {
                ASLEEP => {
                    futex::wait(&self.state, ASLEEP, None);
                    idle = 0;
                }
                LOOKING => drop(futex::wait(&self.state, LOOKING, Some(TICK))),
                _ => break,
            }
            if work.is_wanted() && !work.publish() {
                self.state.store(ENDED, Ordering::SeqCst);
            }
            idle = if work.open_number() == 0 { idle + 1 } else { 0 };
            debug_assert!(idle <= IDLE_TICKS + 1, "it falls asleep");
            if idle > IDLE_TICKS && self.change(LOOKING, ASLEEP) {
                fence(Ordering::SeqCst);
                if work.open_number() != 0 {
                    let _ = self.change(ASLEEP, LOOKING);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::clock;
    use clump_os::sync::AtomicU64;

    /// Interval for which nobody waits.
    const UNWANTED: u64 = 1000;

    /// A rank whose open interval is a number.
    #[derive(Debug, Default)]
    struct Numbered {
        open: AtomicU64,
        published: AtomicU64,
    }

    impl LateWork for Numbered {
        fn begin(&self) -> bool {
            true
        }

        fn open_number(&self) -> u64 {
            self.open.load(Ordering::SeqCst)
        }

        fn is_wanted(&self) -> bool {
            // The one that is never wanted stays open.
            !matches!(self.open_number(), 0 | UNWANTED)
        }

        fn publish(&self) -> bool {
            let number = self.open.swap(0, Ordering::SeqCst);
            self.published.store(number, Ordering::SeqCst);
            true
        }
    }

    #[test]
    fn what_a_rank_leaves_open_is_published_for_it_whenever_the_thread_fell_asleep() {
        let publisher: &'static LatePublisher = Box::leak(Box::default());
        let rank: &'static Numbered = Box::leak(Box::default());
        let end = clock::now_ns() + 20_000_000_000;
        let is_over = || clock::now_ns() > end;
        while !publisher.is_ready(rank) {
            assert!(!is_over(), "the thread starts");
            std::thread::yield_now();
        }
        for number in 1..=30 {
            rank.open.store(number, Ordering::SeqCst);
            publisher.watch();
            while rank.published.load(Ordering::SeqCst) < number {
                assert!(!is_over(), "interval {number} is published");
                std::thread::yield_now();
            }
            if number % 10 == 0 {
                while publisher.state.load(Ordering::SeqCst) != ASLEEP {
                    assert!(!is_over(), "an idle thread sleeps");
                    std::thread::yield_now();
                }
            }
        }
        rank.open.store(UNWANTED, Ordering::SeqCst);
        publisher.watch();
        publisher.end();
        assert_eq!(rank.open_number(), UNWANTED, "nobody wants it");
        assert!(!publisher.is_ready(rank), "nothing is put off behind the end");
    }
}
