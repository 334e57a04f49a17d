//! Wake-ups of event loops: an eventfd that every message rings which this rank takes in, and the
//! wait of a thread that takes messages in while a loop sleeps on it. Messages of the program's own
//! endpoints ring it, too, and stay where they are: their handlers run in the loop's thread.

use crate::error::{FailureKind, failure, raised};
use crate::job::{joined, world};
use crate::open_endpoints;
use clump_am::{Pollable, polled};
use clump_os::alarm::Alarm;
use clump_os::sync::{AtomicBool, Ordering};
use pyo3::prelude::*;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

/// True once the waiting thread is to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Kind of a message that says nothing: it wakes the rank that sends it.
const NOTHING: u64 = 4;

/// An eventfd of an event loop.
#[pyclass(frozen, module = "clump._native")]
pub(crate) struct NativeAlarm(Arc<Alarm>);

#[pymethods]
impl NativeAlarm {
    #[new]
    fn new() -> PyResult<Self> {
        let made = Alarm::new().map_err(|error| failure(FailureKind::Memory, error))?;
        let alarm = Arc::new(made);
        world()?.mailbox().add_alarm(&alarm);
        Ok(Self(alarm))
    }

    fn fileno(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }

    fn ring(&self) {
        self.0.ring();
    }

    /// Clears all rings; the loop then polls.
    fn clear(&self) -> bool {
        let rung = self.0.clear();
        WATCH.heard();
        rung
    }
}

static WATCH: Watch = Watch { rung: AtomicBool::new(false) };

/// View that the watching thread has of the program's own endpoints.
#[derive(Debug)]
struct Watch {
    /// True from a ring for what waits at an endpoint until the loop is awake.
    rung: AtomicBool,
}

impl Watch {
    /// Notes that the loop is awake. It has cleared its alarm before, and polls afterwards: in the
    /// other order a ring between the two would be cleared, and none would follow it.
    fn heard(&self) {
        self.rung.swap(false, Ordering::SeqCst);
    }

    fn anything_new(&self) -> bool {
        let mut any = false;
        open_endpoints::for_each(|endpoint| any |= polled(endpoint).anything_waiting());
        any && !self.rung.load(Ordering::SeqCst)
    }
}

impl Pollable for Watch {
    fn poll_once(&self) -> clump_am::Result<usize> {
        let Some(world) = joined() else { return Ok(0) };
        if self.anything_new() && !self.rung.swap(true, Ordering::SeqCst) {
            world.mailbox().ring();
        }
        Ok(0)
    }

    fn poll_thoroughly(&self) -> clump_am::Result<usize> {
        self.poll_once()
    }

    fn housekeeping(&self) -> clump_am::Result<()> {
        Ok(())
    }

    fn in_bundle(&self) -> bool {
        false
    }

    fn force_network_poll(&self) {}

    fn activity(&self) -> u64 {
        0
    }

    fn arm_notifications(&self) {
        open_endpoints::arm_notifications();
    }

    fn awake(&self) {
        open_endpoints::awake();
    }

    fn request_room(&self) {}

    fn due_in(&self) -> Option<Duration> {
        let mut due = None;
        open_endpoints::for_each(|endpoint| {
            due = due.into_iter().chain(polled(endpoint).due_in()).min();
        });
        due
    }

    fn anything_waiting(&self) -> bool {
        self.anything_new()
    }
}

/// Takes messages in until [`end_watch`] is called. Runs no remote call.
#[pyfunction]
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    let world = world()?;
    clump_am::poll_also(&WATCH);
    py.detach(|| world.endpoint().poll_until(|| ENDS.load(Ordering::Acquire))).map_err(raised)
}

/// Ends [`watch`].
#[pyfunction]
pub(crate) fn end_watch(py: Python<'_>) -> PyResult<()> {
    ENDS.store(true, Ordering::Release);
    let world = world()?;
    let rank = world.clump().rank();
    let dest = world.dest(rank)?;
    let words = [NOTHING << 32 | rank as u64, 0];
    py.detach(|| world.send(dest, words, &[])).map_err(raised)
}

/// Returns true if a message has failed: the next wait raises it.
#[pyfunction]
pub(crate) fn has_failed() -> PyResult<bool> {
    Ok(world()?.mailbox().has_failed())
}
