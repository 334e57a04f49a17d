//! The heap of shared virtual memory, as the package uses it.

use crate::bytes::memory;
use crate::error::{FailureKind, failure, raised};
use crate::hook::{Limit, waiting};
use crate::job::world;
use crate::owner::OwnerBound;
use crate::view::over;
use clump::svm::{HeldLock, Home, SharedLocks, Svm, SvmOptions};
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::OnceLock;

static HEAP: OnceLock<OwnerBound<Svm>> = OnceLock::new();

fn heap() -> PyResult<&'static Svm> {
    let opened = HEAP.get().map(OwnerBound::get).transpose()?;
    opened.ok_or_else(|| failure(FailureKind::Clump, "the shared heap is not open"))
}

/// Opens the heap with so much address space, if it is not open: a collective.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, bytes: u64) -> PyResult<()> {
    if HEAP.get().is_some() {
        return heap().map(drop);
    }
    let world = world()?;
    world.owner()?;
    let options = SvmOptions { heap_bytes: bytes, ..SvmOptions::default() };
    let opened = waiting(py, Limit::NONE, || world.clump().svm_with(&options))?.map_err(raised)?;
    let _ = HEAP.set(OwnerBound::new(opened));
    Ok(())
}

/// Notes that the process ends: the interpreter restores signal handlers then.
#[pyfunction]
#[pyo3(name = "heap_leave")]
pub(crate) fn leave() {
    if HEAP.get().is_some() && !clump_os::forked::is_child() {
        clump::svm::end_handler_watch();
    }
}

/// Allocates an array of zeros at the same address in all ranks: a collective.
#[pyfunction]
#[pyo3(signature = (dtype, shape, size, home, timeout=Limit::NONE))]
pub(crate) fn alloc<'py>(
    py: Python<'py>,
    dtype: &Bound<'py, PyAny>,
    shape: Vec<usize>,
    size: usize,
    home: (String, usize),
    timeout: Limit,
) -> PyResult<Bound<'py, PyAny>> {
    let (name, node) = home;
    let home = match name.as_str() {
        "block" => Home::Block,
        "cyclic" => Home::Cyclic,
        "first-write" => Home::FirstWrite,
        "node" => Home::Node(node),
        _ => {
            return Err(PyValueError::new_err(format!(
                "there is no home {name:?}: use block, cyclic, first-write, or a node's number"
            )));
        }
    };
    let svm = heap()?;
    let lens = shape.iter().try_fold(size, |bytes, &len| bytes.checked_mul(len));
    let bytes = lens.ok_or_else(|| PyValueError::new_err("no memory can hold this array"))?;
    let place = waiting(py, timeout, || svm.alloc(bytes.max(1) as u64, home).map(SendPlace))?;
    let place = place.map_err(|error| raised(clump::Error::from(error)))?.0;
    // SAFETY: the heap is mapped until the process ends.
    unsafe { over(py, place.as_ptr(), dtype, &shape, None) }
}

/// Address that a wait gives.
struct SendPlace(NonNull<u8>);

/// Returns once all ranks have called it; each then sees what the others had written.
#[pyfunction]
#[pyo3(name = "heap_barrier", signature = (timeout=Limit::NONE))]
pub(crate) fn barrier(py: Python<'_>, timeout: Limit) -> PyResult<()> {
    let svm = heap()?;
    waiting(py, timeout, || svm.barrier())?.map_err(|error| raised(clump::Error::from(error)))
}

/// Fetches the pages of a contiguous array, or of a part of one, for reads, or for stores too.
#[pyfunction]
#[pyo3(signature = (array, stores=false))]
pub(crate) fn touch(
    py: Python<'_>,
    array: &Bound<'_, PyUntypedArray>,
    stores: bool,
) -> PyResult<()> {
    let svm = heap()?;
    let (at, bytes) = memory(array);
    let place = NonNull::new(at).ok_or_else(|| PyValueError::new_err("an array without memory"))?;
    if !svm.contains(place.addr().get()) || bytes == 0 {
        return Ok(());
    }
    let place = SendPlace(place);
    let touched = waiting(py, Limit::NONE, || svm.touch(place.0, bytes, stores))?;
    touched.map_err(|error| raised(clump::Error::from(error)))
}

/// Locks of the heap.
#[pyclass(frozen, module = "clump._native", name = "NativeHeapLocks")]
pub(crate) struct NativeHeapLocks {
    state: OwnerBound<State>,
}

struct State {
    /// Never freed: others may wait for them.
    locks: &'static SharedLocks,
    count: usize,
    held: RefCell<HashMap<usize, HeldLock<'static>>>,
}

#[pymethods]
impl NativeHeapLocks {
    /// Makes so many locks: a collective.
    #[new]
    #[pyo3(signature = (count, timeout=Limit::NONE))]
    fn new(py: Python<'_>, count: usize, timeout: Limit) -> PyResult<Self> {
        let svm = heap()?;
        let locks = waiting(py, timeout, || svm.locks(count))?;
        let locks = locks.map_err(|error| raised(clump::Error::from(error)))?;
        let locks: &'static SharedLocks = Box::leak(Box::new(locks));
        let state = State { locks, count, held: RefCell::default() };
        Ok(Self { state: OwnerBound::new(state) })
    }

    /// Waits for a lock: what its holders wrote before is seen then.
    fn acquire(&self, py: Python<'_>, number: usize) -> PyResult<()> {
        let state = self.state.get()?;
        if number >= state.count {
            return Err(PyIndexError::new_err(format!("lock {number} of {}", state.count)));
        }
        if state.held.borrow().contains_key(&number) {
            return Err(PyRuntimeError::new_err("this rank holds the lock already"));
        }
        let held = waiting(py, Limit::NONE, || state.locks.lock(number))?;
        let held = held.map_err(|error| raised(clump::Error::from(error)))?;
        state.held.borrow_mut().insert(number, held);
        Ok(())
    }

    /// Gives a lock back.
    fn release(&self, py: Python<'_>, number: usize) -> PyResult<()> {
        let Some(held) = self.state.get()?.held.borrow_mut().remove(&number) else {
            return Err(PyRuntimeError::new_err("this rank does not hold the lock"));
        };
        waiting(py, Limit::NONE, || held.release())?
            .map_err(|error| raised(clump::Error::from(error)))
    }
}
