//! Wake-ups of event loops: an eventfd that every message rings which this rank takes in, and the
//! wait of a thread that takes messages in while a loop sleeps on it.

use crate::error::{FailureKind, failure, raised};
use crate::job::world;
use clump_os::alarm::Alarm;
use clump_os::sync::{AtomicBool, Ordering};
use pyo3::prelude::*;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

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

    fn clear(&self) -> bool {
        self.0.clear()
    }
}

/// Takes messages in until [`end_watch`] is called. Runs no remote call.
#[pyfunction]
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    let world = world()?;
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
