//! Views of an array's memory, counted: memory is not freed while one lives.

use clump_os::sync::{AtomicUsize, Ordering};
use pyo3::prelude::*;
use std::sync::Arc;

/// Number of views of an array's memory that live.
#[derive(Debug, Clone)]
pub(crate) struct Exporters(Arc<AtomicUsize>);

impl Exporters {
    /// Creates the count of an array without views.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    /// Returns the number of views.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// Base of a NumPy view: it keeps the array alive, and counts.
#[pyclass(frozen, module = "clump._native")]
pub(crate) struct NativeView {
    exporters: Exporters,
    _array: Py<PyAny>,
}

impl NativeView {
    /// Counts one more view of an array.
    pub(crate) fn of(exporters: &Exporters, array: Py<PyAny>) -> Self {
        exporters.0.fetch_add(1, Ordering::AcqRel);
        Self { exporters: exporters.clone(), _array: array }
    }
}

impl Drop for NativeView {
    fn drop(&mut self) {
        self.exporters.0.fetch_sub(1, Ordering::AcqRel);
    }
}
