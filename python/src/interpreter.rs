//! State of the Python interpreter that Rust code consults.

use clump_os::sync::{AtomicBool, Ordering};
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::OnceLock;

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

/// Returns true on Python's main thread, the only one that signal handlers run on: the one that
/// the process began with, whichever thread imported the module.
pub(crate) fn is_main_thread() -> bool {
    clump_os::thread::number() == clump_os::process::own_pid()
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
