//! Work of a thread while it waits: messages of this package, signals, time limits.
//!
//! Every wait of clump polls a hook of its thread (`clump_am::poll_also`). This one handles
//! messages, runs remote calls, and gives the wait up when a signal handler of Python raises or the
//! time limit of the call has passed.

use crate::error::{FailureKind, failure, give_up, raised};
use crate::job::{JoinedJob, OwnerState, joined};
use crate::open_endpoints::{self, poll_each};
use clump_am::{Error, ErrorKind, Pollable, polled};
use clump_os::clock;
use clump_os::sync::{AtomicBool, Ordering};
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use std::cell::Cell;
use std::time::Duration;

/// Polls from one reading of the clock to the next.
const POLLS: u32 = 32;
/// Time from one check of signals to the next.
const SIGNALS_NS: u64 = 20_000_000;
/// Longest sleep of a waiting thread, so that signals and limits are seen in time.
const SLEEP: Duration = Duration::from_millis(20);

static HOOK: Hook = Hook;

/// True while calls wait for their functions to be registered.
static EARLY: AtomicBool = AtomicBool::new(false);

/// Notes whether calls wait for their functions to be registered: they are tried again, and end
/// with an error after a while.
#[pyfunction]
pub(crate) fn note_early(waits: bool) {
    EARLY.store(waits, Ordering::Relaxed);
}

#[derive(Debug)]
struct Hook;

/// State of this thread's hook.
struct State {
    installed: Cell<bool>,
    polls: Cell<u32>,
    signals_at: Cell<u64>,
    limit: Cell<u64>,
    /// True while a remote call runs on this thread.
    in_call: Cell<bool>,
    /// True while a Rust call waits: signals and calls are handled then only.
    waits: Cell<bool>,
}

thread_local! {
    static STATE: State = const {
        State {
            installed: Cell::new(false),
            polls: Cell::new(0),
            signals_at: Cell::new(0),
            limit: Cell::new(u64::MAX),
            in_call: Cell::new(false),
            waits: Cell::new(false),
        }
    };
}

/// Restores the state of the waits around one, when dropped.
struct Restored {
    limit: u64,
    waits: bool,
}

impl Drop for Restored {
    fn drop(&mut self) {
        STATE.with(|state| {
            state.limit.set(self.limit);
            state.waits.set(self.waits);
        });
    }
}

/// Moment at which a call gives up, of the seconds that a program gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(u64);

impl Limit {
    /// No limit.
    pub(crate) const NONE: Self = Self(u64::MAX);

    /// Returns the limit of so many seconds from now on.
    pub(crate) fn after(seconds: f64) -> Self {
        let after = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Self(clock::now_ns().saturating_add(after))
    }

    /// Returns the time until then; `None` without a limit.
    pub(crate) fn left(self) -> Option<Duration> {
        let left = self.0.saturating_sub(clock::now_ns());
        (self != Self::NONE).then_some(Duration::from_nanos(left))
    }
}

impl<'py> FromPyObject<'_, 'py> for Limit {
    type Error = PyErr;

    fn extract(seconds: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if seconds.is_none() {
            return Ok(Self::NONE);
        }
        Ok(Self::after(seconds.extract()?))
    }
}

/// Runs `wait` without the interpreter's lock, until its limit.
///
/// # Errors
/// Fails inside a remote call, which may not wait.
pub(crate) fn waiting<R>(py: Python<'_>, timeout: Limit, wait: impl FnOnce() -> R) -> PyResult<R> {
    refuse_in_call()?;
    let _restored = STATE.with(|state| {
        if !state.installed.replace(true) {
            clump_am::poll_also(&HOOK);
        }
        let limit = state.limit.replace(timeout.0);
        Restored { limit, waits: state.waits.replace(true) }
    });
    let wait = crate::owner::SameThread(wait);
    let run = move || crate::owner::SameThread((wait.into_inner())());
    Ok(py.detach(run).into_inner())
}

/// Waits for the updates that this thread began.
///
/// # Errors
/// Fails if one was refused, or a rank or node is lost.
pub(crate) fn settle(py: Python<'_>, world: &JoinedJob, timeout: Limit) -> PyResult<()> {
    let owner = world.owner()?;
    if owner.begun.get() == 0 {
        return Ok(());
    }
    complete(owner, || waiting(py, timeout, || owner.pgas.sync())?.map_err(raised))
}

/// Runs a wait that completes the updates which this thread began before it.
///
/// # Errors
/// Those of the wait: what was begun may still go on then, and the next call waits for it.
pub(crate) fn complete(owner: &OwnerState, wait: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
    let begun = owner.begun.replace(0);
    let done = wait();
    // A remote call that ran meanwhile may have begun others.
    if done.is_err() && owner.begun.get() == 0 {
        owner.begun.set(begun);
    }
    done
}

/// Fails inside a remote call.
pub(crate) fn refuse_in_call() -> PyResult<()> {
    if STATE.with(|state| state.in_call.get()) {
        let why = "a remote call may not wait for other ranks: send, or return a value";
        return Err(failure(FailureKind::Handler, why));
    }
    Ok(())
}

/// Runs a handler of a message, which may not wait for other ranks.
pub(crate) fn running_handler<R>(run: impl FnOnce() -> R) -> R {
    let around = STATE.with(|state| state.in_call.replace(true));
    let done = run();
    STATE.with(|state| state.in_call.set(around));
    done
}

/// Runs the remote calls that have arrived, unless one runs on this thread. Returns how many.
///
/// # Errors
/// Gives the wait up if the program is to end: a call was interrupted, or exits.
pub(crate) fn run_calls(world: &JoinedJob) -> clump_am::Result<usize> {
    if !world.mailbox().has_calls() || STATE.with(|state| state.in_call.replace(true)) {
        return Ok(0);
    }
    let mut run = 0;
    let ends = Python::try_attach(|py| {
        while let Some(call) = world.mailbox().next_call() {
            run += 1;
            let dispatched = py
                .import("clump._remote")
                .and_then(|module| module.getattr("dispatch"))
                .and_then(|dispatch| {
                    let data = crate::bytes::buffer(py, call.bytes)?;
                    dispatch.call1((call.source, call.kind, call.tag, data))
                });
            match dispatched {
                Err(error) if ends_program(py, &error) => return Some(error),
                Err(error) => error.write_unraisable(py, None),
                Ok(_) => (),
            }
        }
        None
    });
    STATE.with(|state| state.in_call.set(false));
    match ends.flatten() {
        Some(error) => Err(given_up(error, "a remote call ends the program")),
        None => Ok(run),
    }
}

/// Returns true for exceptions that end a program, wherever they are raised.
fn ends_program(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}

/// Gives the wait of this thread up, for the reason that its call raises.
fn given_up(why: PyErr, reason: &'static str) -> Error {
    give_up(why);
    ErrorKind::Interrupted(reason).into()
}

/// Gives the wait up if a signal handler raises, or its limit has passed.
fn check(state: &State) -> clump_am::Result<()> {
    let now = clock::now_ns();
    if now >= state.limit.get() {
        let why = failure(FailureKind::Timeout, "the time limit of this call has passed");
        return Err(given_up(why, "its time limit has passed"));
    }
    if now.saturating_sub(state.signals_at.get()) < SIGNALS_NS {
        return Ok(());
    }
    state.signals_at.set(now);
    if EARLY.load(Ordering::Relaxed) && !state.in_call.replace(true) {
        Python::try_attach(|py| {
            let tried = py.import("clump._remote").and_then(|module| module.call_method0("retry"));
            if let Err(error) = tried {
                error.write_unraisable(py, None);
            }
        });
        state.in_call.set(false);
    }
    if !crate::interpreter::is_main_thread() {
        return Ok(());
    }
    let raised = Python::try_attach(|py| py.check_signals());
    if let Some(Err(error)) = raised {
        return Err(given_up(error, "a signal came"));
    }
    Ok(())
}

impl Pollable for Hook {
    fn poll_once(&self) -> clump_am::Result<usize> {
        let world = joined();
        let mut handled = match world {
            Some(world) => polled(world.endpoint()).poll_once()?,
            None => 0,
        };
        handled += poll_each(|endpoint| endpoint.poll_once())?;
        STATE.with(|state| {
            if !state.waits.get() {
                return Ok(handled);
            }
            if let Some(world) = world {
                handled += run_calls(world)?;
            }
            if let Some(why) = open_endpoints::take_failure() {
                return Err(given_up(why, "a handler has failed"));
            }
            let polls = state.polls.get() + 1;
            state.polls.set(polls % POLLS);
            if polls == POLLS {
                check(state)?;
            }
            Ok(handled)
        })
    }

    fn poll_thoroughly(&self) -> clump_am::Result<usize> {
        let handled = joined().map_or(Ok(0), |world| polled(world.endpoint()).poll_thoroughly())?;
        Ok(handled + poll_each(|endpoint| endpoint.poll_thoroughly())?)
    }

    fn housekeeping(&self) -> clump_am::Result<()> {
        joined().map_or(Ok(()), |world| polled(world.endpoint()).housekeeping())?;
        poll_each(|endpoint| endpoint.housekeeping().map(|()| 0)).map(|_| ())
    }

    fn in_bundle(&self) -> bool {
        false
    }

    fn force_network_poll(&self) {
        if let Some(world) = joined() {
            polled(world.endpoint()).force_network_poll();
        }
        open_endpoints::for_each(|endpoint| polled(endpoint).force_network_poll());
    }

    fn activity(&self) -> u64 {
        let mut activity = joined().map_or(0, |world| polled(world.endpoint()).activity());
        open_endpoints::for_each(|endpoint| activity += polled(endpoint).activity());
        activity
    }

    fn arm_notifications(&self) {
        if let Some(world) = joined() {
            polled(world.endpoint()).arm_notifications();
        }
        open_endpoints::arm_notifications();
    }

    fn awake(&self) {
        if let Some(world) = joined() {
            polled(world.endpoint()).awake();
        }
        open_endpoints::awake();
    }

    fn request_room(&self) {
        if let Some(world) = joined() {
            polled(world.endpoint()).request_room();
        }
        open_endpoints::for_each(|endpoint| polled(endpoint).request_room());
    }

    fn due_in(&self) -> Option<Duration> {
        // The first poll after a sleep looks for signals and at the clock.
        STATE.with(|state| state.polls.set(POLLS - 1));
        let mut own = joined().and_then(|world| polled(world.endpoint()).due_in());
        open_endpoints::for_each(|endpoint| {
            let due = polled(endpoint).due_in();
            own = own.into_iter().chain(due).min();
        });
        let limit = STATE.with(|state| state.limit.get());
        let left = Duration::from_nanos(limit.saturating_sub(clock::now_ns()));
        Some(own.map_or(SLEEP, |own| own.min(SLEEP)).min(left.max(Duration::from_micros(200))))
    }

    fn anything_waiting(&self) -> bool {
        let mut any = joined().is_some_and(|world| {
            polled(world.endpoint()).anything_waiting() || world.mailbox().has_calls()
        });
        open_endpoints::for_each(|endpoint| any |= polled(endpoint).anything_waiting());
        any
    }

    fn keep_failure(&self, error: Error) -> Option<Error> {
        match error.kind() {
            ErrorKind::Interrupted(_) => Some(error),
            _ => match joined() {
                Some(world) => polled(world.endpoint()).keep_failure(error),
                None => Some(error),
            },
        }
    }

    fn take_kept_failure(&self) -> Option<Error> {
        joined().and_then(|world| polled(world.endpoint()).take_kept_failure())
    }
}
