//! Endpoints of the program that are open: every wait of clump polls them.

use clump_am::{Pollable, SharedEndpoint, polled};
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use pyo3::PyErr;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// Endpoints, as long as they live.
type Endpoints = Arc<Vec<Weak<SharedEndpoint>>>;

/// All of them. No handler runs under the lock: it would wait for the interpreter's, whose holder
/// may open an endpoint, or poll again.
static OPEN: RwLock<Option<Endpoints>> = RwLock::new(None);

thread_local! {
    /// Endpoints that this thread sleeps on: others may be opened meanwhile.
    static ARMED: RefCell<Option<Endpoints>> = const { RefCell::new(None) };
}

/// Number of endpoints that were opened: without any, waits read no lock.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// First failure of a handler, until a wait of this rank raises it.
static FAILURE: Mutex<Option<PyErr>> = Mutex::new(None);

/// True while there is one: waits read no lock otherwise.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Keeps the failure of a handler: the wait that handled its message raises it, or the next one.
pub(crate) fn keep_failure(error: PyErr) {
    FAILURE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    FAILED.store(true, Ordering::Release);
}

/// Takes the failure of a handler.
#[inline]
pub(crate) fn take_failure() -> Option<PyErr> {
    if !FAILED.load(Ordering::Relaxed) || !FAILED.swap(false, Ordering::Acquire) {
        return None;
    }
    FAILURE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Adds an endpoint, as long as that lives.
pub(crate) fn add(endpoint: &Arc<SharedEndpoint>) {
    let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
    let known = open.iter().flat_map(|known| known.iter());
    let alive = known.filter(|known| known.strong_count() > 0).cloned();
    *open = Some(Arc::new(alive.chain([Arc::downgrade(endpoint)]).collect()));
    drop(open);
    OPENED.fetch_add(1, Ordering::Relaxed);
}

#[inline]
fn open() -> Option<Endpoints> {
    if OPENED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    OPEN.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn each_of(endpoints: Option<Endpoints>, mut each: impl FnMut(&SharedEndpoint)) {
    endpoints.iter().flat_map(|all| all.iter()).filter_map(Weak::upgrade).for_each(|it| each(&it));
}

/// Calls `each` with every endpoint of the program.
#[inline]
pub(crate) fn for_each(each: impl FnMut(&SharedEndpoint)) {
    each_of(open(), each);
}

/// Arms notification at every endpoint of the program, for a sleep of this thread.
pub(crate) fn arm_notifications() {
    let armed = open();
    each_of(armed.clone(), |endpoint| polled(endpoint).arm_notifications());
    let before = ARMED.with(|kept| kept.replace(armed));
    debug_assert!(before.is_none(), "a thread is awake before it sleeps again");
}

/// Notes that this thread no longer sleeps on the endpoints that [`arm_notifications`] armed.
pub(crate) fn awake() {
    each_of(ARMED.take(), |endpoint| polled(endpoint).awake());
}

/// Polls every endpoint of the program. Returns how many messages were handled.
///
/// # Errors
/// The first failure of a poll; those behind it are not polled.
pub(crate) fn poll_each(
    poll: impl Fn(&dyn Pollable) -> clump_am::Result<usize>,
) -> clump_am::Result<usize> {
    let mut handled = Ok(0);
    for_each(|endpoint| {
        if let Ok(sum) = &mut handled {
            match poll(polled(endpoint)) {
                Ok(more) => *sum += more,
                Err(error) => handled = Err(error),
            }
        }
    });
    handled
}
