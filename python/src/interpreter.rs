//! State of the Python interpreter that Rust code consults.

use clump_os::sync::{AtomicBool, Ordering};
use pyo3::prelude::*;
use std::sync::OnceLock;
use std::thread::ThreadId;

static MAIN: OnceLock<ThreadId> = OnceLock::new();
static NUMPY: AtomicBool = AtomicBool::new(false);

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
