//! State of the Python interpreter that Rust code consults.

use clump_os::sync::{AtomicBool, Ordering};
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::OnceLock;
use std::thread::ThreadId;

static MAIN: OnceLock<ThreadId> = OnceLock::new();
static FIRST: OnceLock<i64> = OnceLock::new();
static NUMPY: AtomicBool = AtomicBool::new(false);

/// Refuses a second interpreter in this process: the job is the process's, its locks and callbacks
/// are those of one interpreter.
///
/// # Errors
/// Fails in every interpreter but the first that has imported the module.
pub(crate) fn refuse_second(_: Python<'_>) -> PyResult<()> {
    // SAFETY: the caller is attached to an interpreter, as its argument proves, which lives.
    let own = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if *FIRST.get_or_init(|| own) == own {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "another interpreter of this process has imported clump, and a process is one rank: start \
         a process in place of an interpreter",
    ))
}

/// Returns true on Python's main thread, the only one that signal handlers run on.
pub(crate) fn is_main_thread() -> bool {
    MAIN.get() == Some(&std::thread::current().id())
}

/// Notes that the calling thread is Python's main thread, if it is.
///
/// # Errors
/// Fails if the module `threading` cannot be imported.
#[pyfunction]
pub(crate) fn note_main_thread(py: Python<'_>) -> PyResult<()> {
    let threads = py.import("threading")?;
    let main = threads.call_method0("main_thread")?;
    if main.is(&threads.call_method0("current_thread")?) {
        let _ = MAIN.set(std::thread::current().id());
    }
    Ok(())
}

/// Returns true if the program has imported NumPy.
///
/// # Errors
/// Fails if the interpreter has no modules any more.
pub(crate) fn has_numpy(py: Python<'_>) -> PyResult<bool> {
    if NUMPY.load(Ordering::Relaxed) {
        return Ok(true);
    }
    let loaded = py.import("sys")?.getattr("modules")?.contains("numpy")?;
    NUMPY.store(loaded, Ordering::Relaxed);
    Ok(loaded)
}
