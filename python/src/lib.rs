//! The extension module of the Python package `clump`: ranks, arrays over all ranks, collectives,
//! messages and shared memory, on the facade `clump`.
//!
//! Outside of the workspace and of its layers; the package in `package/clump` calls it, and nothing
//! else does. Importing it does nothing but load.
//!
//! Types to know: `job::JoinedJob` (the job, joined once), `array::NativeArray` (a global array),
//! `endpoint::NativeEndpoint` (active messages whose handlers are Python functions),
//! `team::NativeTeam` (collectives), `hook::Hook` (signals, limits and remote calls during waits),
//! `owner::OwnerBound` (values of one thread).
//!
//! # Invariants
//! 1. The interpreter's lock is given up in every call that may wait (`hook::waiting`).
//! 2. Global arrays, locks and the heap are used by the thread that joined the job alone
//!    (`owner::OwnerBound`).
//! 3. Memory that a NumPy view shows is mapped until the process ends or the view is gone.

mod array;
mod bytes;
mod endpoint;
mod error;
mod exporters;
mod heap;
mod hook;
mod indexes;
mod interpreter;
mod job;
mod lock;
mod mailbox;
mod open_endpoints;
mod owner;
mod plain;
mod runs;
mod team;
mod typed;
mod view;
mod wakeup;
mod world;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    interpreter::refuse_second(module.py())?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(world::join, module)?)?;
    module.add_function(wrap_pyfunction!(world::is_joined, module)?)?;
    module.add_function(wrap_pyfunction!(world::node_of, module)?)?;
    module.add_function(wrap_pyfunction!(world::barrier, module)?)?;
    module.add_function(wrap_pyfunction!(world::sync, module)?)?;
    module.add_function(wrap_pyfunction!(world::begin_phase, module)?)?;
    module.add_class::<world::NativePhase>()?;
    module.add_function(wrap_pyfunction!(world::poll, module)?)?;
    module.add_function(wrap_pyfunction!(world::serve, module)?)?;
    module.add_function(wrap_pyfunction!(world::send, module)?)?;
    module.add_function(wrap_pyfunction!(world::send_object, module)?)?;
    module.add_function(wrap_pyfunction!(world::recv, module)?)?;
    module.add_function(wrap_pyfunction!(plain::plain_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(plain::plain_value, module)?)?;
    module.add_function(wrap_pyfunction!(world::probe, module)?)?;
    module.add_function(wrap_pyfunction!(world::answer, module)?)?;
    module.add_function(wrap_pyfunction!(world::has_answer, module)?)?;
    module.add_function(wrap_pyfunction!(world::forget_answer, module)?)?;
    module.add_function(wrap_pyfunction!(world::leave, module)?)?;
    module.add_function(wrap_pyfunction!(lock::export_locks, module)?)?;
    module.add_function(wrap_pyfunction!(heap::open, module)?)?;
    module.add_function(wrap_pyfunction!(heap::alloc, module)?)?;
    module.add_function(wrap_pyfunction!(heap::barrier, module)?)?;
    module.add_function(wrap_pyfunction!(heap::touch, module)?)?;
    module.add_function(wrap_pyfunction!(heap::leave, module)?)?;
    module.add_function(wrap_pyfunction!(hook::note_early, module)?)?;
    module.add_function(wrap_pyfunction!(wakeup::watch, module)?)?;
    module.add_function(wrap_pyfunction!(wakeup::end_watch, module)?)?;
    module.add_function(wrap_pyfunction!(wakeup::has_failed, module)?)?;
    module.add_class::<wakeup::NativeAlarm>()?;
    module.add_class::<array::NativeArray>()?;
    module.add_class::<endpoint::NativeEndpoint>()?;
    module.add_class::<endpoint::NativeDest>()?;
    module.add_class::<endpoint::NativeToken>()?;
    module.add_class::<exporters::NativeView>()?;
    module.add_class::<team::NativeTeam>()?;
    module.add_class::<lock::NativeLock>()?;
    module.add_class::<heap::NativeHeapLocks>()?;
    Ok(())
}
