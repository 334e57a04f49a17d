//! Calls of the package about the job as a whole, and its messages.

use crate::bytes::{Chunk, buffer, chunks};
use crate::error::{FailureKind, failure, is_timeout, raised};
use crate::hook::{Limit, complete, refuse_in_call, settle, waiting};
use crate::job::{forked, joined, open, world};
use crate::open_endpoints;
use crate::plain;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Joins the job, if this process has not: the calling thread owns global arrays from then on.
/// Returns rank, ranks, node and nodes.
#[pyfunction]
pub(crate) fn join(py: Python<'_>) -> PyResult<(usize, usize, usize, usize)> {
    if clump_os::forked::is_child() {
        return Err(forked());
    }
    waiting(py, Limit::NONE, open)?.map_err(raised)?;
    let clump = world()?.clump();
    let node = clump.node_of(clump.rank()).unwrap_or_default();
    Ok((clump.rank(), clump.nranks(), node, clump.nnodes()))
}

/// Returns true if this process has joined.
#[pyfunction]
pub(crate) fn is_joined() -> bool {
    joined().is_some() && !clump_os::forked::is_child()
}

/// Returns the node of a rank.
#[pyfunction]
pub(crate) fn node_of(rank: usize) -> PyResult<Option<usize>> {
    Ok(world()?.clump().node_of(rank))
}

/// Returns once all ranks have called it, and everything that any rank began before has happened.
#[pyfunction]
#[pyo3(signature = (timeout=Limit::NONE))]
pub(crate) fn barrier(py: Python<'_>, timeout: Limit) -> PyResult<()> {
    let world = world()?;
    let owner = world.owner()?;
    complete(owner, || waiting(py, timeout, || owner.pgas.all_store_sync())?.map_err(raised))
}

/// Waits until the updates that this rank began have happened.
#[pyfunction]
#[pyo3(signature = (timeout=Limit::NONE))]
pub(crate) fn sync(py: Python<'_>, timeout: Limit) -> PyResult<()> {
    settle(py, world()?, timeout)
}

/// Phase of the program that it times.
#[pyclass(frozen)]
pub(crate) struct NativePhase(std::sync::Mutex<Option<clump::TimedPhase>>);

#[pymethods]
impl NativePhase {
    /// Ends the phase. Returns its seconds; 0 if it has ended before.
    fn end(&self) -> f64 {
        let phase = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        phase.map_or(0.0, clump::TimedPhase::end)
    }
}

/// Begins a phase that the program times, which traces show by the first eight bytes of its name.
#[pyfunction]
pub(crate) fn begin_phase(name: &str) -> PyResult<NativePhase> {
    let phase = clump::TimedPhase::begin(world()?.clump().team(), name);
    Ok(NativePhase(std::sync::Mutex::new(Some(phase))))
}

/// Handles what has arrived, runs remote calls, sends what is collected. Never waits.
#[pyfunction]
pub(crate) fn poll(py: Python<'_>) -> PyResult<usize> {
    let world = world()?;
    let polled = waiting(py, Limit::NONE, || {
        let mut handled = world.endpoint().poll_network()?;
        // Waits for an endpoint that another thread uses: what has arrived there has rung already.
        handled += open_endpoints::poll_each(|endpoint| endpoint.poll_thoroughly())?;
        if let Ok(owner) = world.owner() {
            owner.pgas.poll()?;
        }
        Ok::<_, clump::Error>(handled + crate::hook::run_calls(world)?)
    })?;
    let handled = polled.map_err(raised)?;
    open_endpoints::take_failure().map_or(Ok(handled), Err)
}

/// Handles messages and remote calls for so many seconds.
#[pyfunction]
pub(crate) fn serve(py: Python<'_>, seconds: f64) -> PyResult<()> {
    let world = world()?;
    let served = waiting(py, Limit::after(seconds), || world.endpoint().poll_until(|| false))?;
    match served.map_err(raised) {
        Err(error) if is_timeout(py, &error) => Ok(()),
        other => other,
    }
}

/// Sends bytes to a rank: an object (kind 0), a call (1), a call without an answer (2) or an
/// answer (3). Also inside remote calls.
#[pyfunction]
#[pyo3(signature = (dest, kind, tag, parts, timeout=Limit::NONE))]
pub(crate) fn send(
    py: Python<'_>,
    dest: usize,
    kind: u32,
    tag: i64,
    parts: Vec<Bound<'_, PyAny>>,
    timeout: Limit,
) -> PyResult<()> {
    send_chunks(py, (dest, kind, tag), &chunks(&parts)?, timeout)
}

/// Sends an object, as [`send`] sends its encoding.
#[pyfunction]
#[pyo3(signature = (dest, kind, tag, object, timeout=Limit::NONE))]
pub(crate) fn send_object(
    py: Python<'_>,
    dest: usize,
    kind: u32,
    tag: i64,
    object: &Bound<'_, PyAny>,
    timeout: Limit,
) -> PyResult<()> {
    if let Some(bytes) = plain::encode(object) {
        return send_chunks(py, (dest, kind, tag), &[Chunk::of(&bytes)], timeout);
    }
    static PICKLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let parts = PICKLED.import(py, "clump._codec", "pickled")?.call1((object,))?;
    let parts: Vec<Bound<'_, PyAny>> = parts.extract()?;
    send_chunks(py, (dest, kind, tag), &chunks(&parts)?, timeout)
}

/// Sends bytes that live until this returns.
fn send_chunks(
    py: Python<'_>,
    (dest, kind, tag): (usize, u32, i64),
    taken: &[Chunk],
    timeout: Limit,
) -> PyResult<()> {
    let world = world()?;
    let dest = world.dest(dest)?;
    let words = [u64::from(kind) << 32 | world.clump().rank() as u64, tag as u64];
    if refuse_in_call().is_err() {
        let run = crate::owner::SameThread(move || world.send(dest, words, taken));
        return py.detach(move || (run.into_inner())()).map_err(raised);
    }
    waiting(py, timeout, || world.send(dest, words, taken))?.map_err(raised)
}

/// Waits for an object of this source and tag (`None`: any); returns it, its source and its tag.
#[pyfunction]
#[pyo3(signature = (source=None, tag=None, timeout=Limit::NONE))]
pub(crate) fn recv<'py>(
    py: Python<'py>,
    source: Option<u32>,
    tag: Option<i64>,
    timeout: Limit,
) -> PyResult<(Bound<'py, PyAny>, u32, i64)> {
    let world = world()?;
    if let Some(source) = source {
        world.dest(source as usize)?;
    }
    let mut found = None;
    let waited = waiting(py, timeout, || {
        let done = || {
            found = found.take().or_else(|| world.mailbox().take(source, tag));
            found.is_some() || world.mailbox().has_failed()
        };
        match source {
            Some(source) => world.endpoint().poll_until_answer(source, done),
            None => world.endpoint().poll_until(done),
        }
    })?;
    waited.map_err(raised)?;
    let Some(message) = found else {
        world.report()?;
        return Err(failure(FailureKind::Clump, "a wait for a message ended without one"));
    };
    Ok((object(py, message.bytes)?, message.source, message.tag))
}

/// Returns the object of an encoding.
fn object(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Bound<'_, PyAny>> {
    if let Some(value) = plain::decode(py, &bytes)? {
        return Ok(value);
    }
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "clump._codec", "loads")?.call1((buffer(py, bytes)?,))
}

/// Returns source, tag and bytes of the next object, if it has arrived.
#[pyfunction]
#[pyo3(signature = (source=None, tag=None))]
pub(crate) fn probe(
    py: Python<'_>,
    source: Option<u32>,
    tag: Option<i64>,
) -> PyResult<Option<(u32, i64, usize)>> {
    poll(py)?;
    Ok(world()?.mailbox().find(source, tag))
}

/// Drops the answer to a call that nobody waits for, whenever it comes.
#[pyfunction]
pub(crate) fn forget_answer(number: i64) {
    if let Some(world) = joined() {
        world.mailbox().forget_answer(number);
    }
}

/// Returns true if the answer to a call has come.
#[pyfunction]
pub(crate) fn has_answer(number: i64) -> PyResult<bool> {
    Ok(world()?.mailbox().has_answer(number))
}

/// Waits for the answer to a call at rank `peer`.
#[pyfunction]
#[pyo3(signature = (number, peer, timeout=Limit::NONE))]
pub(crate) fn answer(
    py: Python<'_>,
    number: i64,
    peer: u32,
    timeout: Limit,
) -> PyResult<Py<PyAny>> {
    let world = world()?;
    let waited = waiting(py, timeout, || {
        let done = || world.mailbox().has_answer(number) || world.mailbox().has_failed();
        world.endpoint().poll_until_answer(peer, done)
    })?;
    waited.map_err(raised)?;
    let Some(message) = world.mailbox().answer(number) else {
        world.report()?;
        return Err(failure(FailureKind::Clump, "a wait for an answer ended without one"));
    };
    Ok(buffer(py, message.bytes)?.unbind())
}

/// Leaves the job at the end of the process. With `together`, waits for all ranks before, so that
/// none reads the memory of one that has gone.
#[pyfunction]
pub(crate) fn leave(py: Python<'_>, together: bool) -> PyResult<()> {
    if clump_os::forked::is_child() {
        return Ok(());
    }
    let Some(world) = joined() else { return Ok(()) };
    if let Some(failure) = open_endpoints::take_failure() {
        return Err(failure);
    }
    let met = match world.owner() {
        Ok(owner) if together => waiting(py, Limit::NONE, || owner.pgas.all_store_sync())?,
        _ => Ok(()),
    };
    // A rank that died or left ends the job; its own report is the launcher's.
    let met = met.map_err(raised);
    py.detach(|| world.clump().leave_at_exit());
    met
}
