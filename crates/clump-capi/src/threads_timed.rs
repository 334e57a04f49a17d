//! Waits that end with time: attempts to take a lock, and timers beside a condition variable.

use crate::svm_sync::fault;
use crate::threads_heap::{end_for, with_heap};
use clump::svm::SyncObject;
use clump_os::sync::{AtomicBool, Ordering};
use clump_os::{c_library as c, clock, thread};
use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Returns the time until a time of a clock; 0 if it is over.
pub(crate) fn time_left(clock: c_int, until: &c::timespec) -> Duration {
    let mut now = c::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place of this function.
    unsafe { c::clock_gettime(clock, &raw mut now) };
    let span = |time: &c::timespec| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        seconds.saturating_add(Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0)))
    };
    span(until).saturating_sub(span(&now))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(what: &'static str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let started = thread::spawn("clump-waiter", run);
    started.unwrap_or_else(|why| end_for(what, &why))
}

/// State of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AttemptState {
    /// There is none.
    #[default]
    Idle,
    /// A helper waits for the lock, for so many threads.
    Asking(u32),
    /// The helper has the lock, for one of those.
    Granted,
    /// One of them has it.
    Claimed,
    /// The helper is to give it back.
    Released,
    /// The helper is to leave it to the thread.
    Forgotten,
}

/// Attempt of a rank to take a lock, for at most so long. A helper of its own waits for the lock,
/// since that wait cannot be ended; it releases a lock that it gets too late.
#[derive(Debug)]
pub(crate) struct LockAttempt {
    lock: SyncObject,
    state: Mutex<AttemptState>,
    changed: Condvar,
    /// True while a thread has the lock that the helper took.
    claimed: AtomicBool,
}

impl LockAttempt {
    /// Returns the attempt to take a lock, which has not begun.
    pub(crate) fn of(lock: SyncObject) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { lock, state, changed, claimed: AtomicBool::new(false) }
    }

    /// Takes the lock. Returns false if it cannot be had in time.
    pub(crate) fn take(self: &Arc<Self>, patience: Duration) -> bool {
        let begun = clock::now_ns();
        let left = || patience.saturating_sub(Duration::from_nanos(clock::now_ns() - begun));
        // A thread of this rank may have what an earlier attempt has got.
        let settled =
            |state: &AttemptState| matches!(state, AttemptState::Idle | AttemptState::Asking(_));
        let had = |state: &mut AttemptState| !settled(state);
        let waited = self.changed.wait_timeout_while(lock(&self.state), left(), had);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match *state {
            AttemptState::Idle => {
                *state = AttemptState::Asking(1);
                let own = self.clone();
                start("pthread_mutex_trylock", move || help(&own));
            }
            AttemptState::Asking(threads) => *state = AttemptState::Asking(threads + 1),
            _ => return false,
        }
        let asking = |state: &mut AttemptState| matches!(state, AttemptState::Asking(_));
        let waited = self.changed.wait_timeout_while(state, left(), asking);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match *state {
            AttemptState::Granted => {
                *state = AttemptState::Claimed;
                self.claimed.store(true, Ordering::Relaxed);
                return true;
            }
            AttemptState::Asking(threads) => *state = AttemptState::Asking(threads - 1),
            _ => {}
        }
        false
    }

    /// Gives back a lock that an attempt took. Returns false if none did.
    pub(crate) fn give(&self) -> bool {
        self.conclude(AttemptState::Released)
    }

    /// Leaves a lock that an attempt took to the calling thread, which has it.
    pub(crate) fn forget(&self) {
        self.conclude(AttemptState::Forgotten);
    }

    fn conclude(&self, how: AttemptState) -> bool {
        if !self.claimed.load(Ordering::Relaxed) {
            return false;
        }
        self.claimed.store(false, Ordering::Relaxed);
        let mut state = lock(&self.state);
        debug_assert_eq!(*state, AttemptState::Claimed, "a thread has the lock");
        *state = how;
        self.changed.notify_all();
        let until = |state: &mut AttemptState| *state == how;
        drop(self.changed.wait_while(state, until).unwrap_or_else(PoisonError::into_inner));
        true
    }
}

/// Waits for a lock on behalf of threads that do not wait for long.
fn help(attempt: &LockAttempt) {
    let what = "pthread_mutex_trylock";
    with_heap(what, |svm| svm.enter(attempt.lock).map_err(fault));
    let mut state = lock(&attempt.state);
    let mut gives = true;
    if *state != AttemptState::Asking(0) {
        *state = AttemptState::Granted;
        attempt.changed.notify_all();
        let has = |state: &mut AttemptState| {
            !matches!(state, AttemptState::Released | AttemptState::Forgotten)
        };
        state = attempt.changed.wait_while(state, has).unwrap_or_else(PoisonError::into_inner);
        gives = *state == AttemptState::Released;
    }
    if gives {
        with_heap(what, |svm| svm.leave(attempt.lock).map_err(fault));
    }
    *state = AttemptState::Idle;
    attempt.changed.notify_all();
}

/// State of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimerState {
    Runs,
    Stopped,
    Over,
}

/// Timer beside a wait, which it ends.
#[derive(Debug)]
pub(crate) struct Timer {
    state: Arc<(Mutex<TimerState>, Condvar)>,
    thread: JoinHandle<()>,
}

impl Timer {
    /// Starts a timer that calls `wake` when so much time is over.
    pub(crate) fn start(left: Duration, wake: impl FnOnce() + Send + 'static) -> Self {
        let state = Arc::new((Mutex::new(TimerState::Runs), Condvar::new()));
        let own = state.clone();
        let thread = start("pthread_cond_timedwait", move || {
            let (state, changed) = &*own;
            let runs = |state: &mut TimerState| *state == TimerState::Runs;
            let waited = changed.wait_timeout_while(lock(state), left, runs);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *state == TimerState::Runs {
                *state = TimerState::Over;
                drop(state);
                wake();
            }
        });
        Self { state, thread }
    }

    /// Stops the timer. Returns true if its time was over.
    pub(crate) fn stop(self) -> bool {
        let mut state = lock(&self.state.0);
        let over = *state == TimerState::Over;
        *state = TimerState::Stopped;
        drop(state);
        self.state.1.notify_all();
        let ended = self.thread.join();
        debug_assert!(ended.is_ok(), "it does not panic");
        over
    }
}
