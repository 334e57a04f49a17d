//! NumPy views of memory that clump has.

use numpy::npyffi::{self, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Returns an array of that type and shape over memory; `base` is kept alive by it.
///
/// # Safety
/// The memory is mapped, and has the elements, as long as `base` lives, or for good without one.
pub(crate) unsafe fn over<'py>(
    py: Python<'py>,
    memory: *mut u8,
    dtype: &Bound<'py, PyAny>,
    shape: &[usize],
    base: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype.cast::<PyArrayDescr>()?.clone();
    let mut dims: Vec<npy_intp> = shape.iter().map(|&len| len as npy_intp).collect();
    // SAFETY: NumPy's own call; it takes over the reference to the type, and checks the shape.
    let array = unsafe {
        PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            dtype.into_dtype_ptr(),
            i32::try_from(dims.len()).unwrap_or(i32::MAX),
            dims.as_mut_ptr(),
            null_mut(),
            memory.cast::<c_void>(),
            npyffi::NPY_ARRAY_WRITEABLE,
            null_mut(),
        )
    };
    // SAFETY: a new reference, or null with an exception set.
    let array = unsafe { Bound::from_owned_ptr_or_err(py, array)? };
    if let Some(base) = base {
        // SAFETY: an array that was just made; the reference to the base is taken over.
        let set = unsafe {
            PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr())
        };
        if set != 0 {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(array)
}
