//! Bytes of Python objects in calls, and buffers for what calls give.

use numpy::npyffi::PyArrayObject;
use numpy::{PyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

/// Bytes from which on a buffer is a NumPy array, which takes them without a copy.
const LARGE: usize = 1 << 14;

/// Bytes of a Python object that a call keeps alive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    at: *const u8,
    len: usize,
}

impl Chunk {
    /// Returns the bytes of memory that the caller keeps.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { at: bytes.as_ptr(), len: bytes.len() }
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// The object they are of lives, and nobody changes them meanwhile.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the caller's contract.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

/// Returns the bytes of `bytes` objects and contiguous arrays.
///
/// # Errors
/// Fails on other objects.
pub(crate) fn chunks(parts: &[Bound<'_, PyAny>]) -> PyResult<Vec<Chunk>> {
    parts.iter().map(chunk).collect()
}

fn chunk(part: &Bound<'_, PyAny>) -> PyResult<Chunk> {
    if let Ok(bytes) = part.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return Ok(Chunk { at: bytes.as_ptr(), len: bytes.len() });
    }
    let array = part.cast::<PyUntypedArray>().map_err(|_| {
        PyTypeError::new_err(format!("bytes or an array expected, not {}", part.get_type()))
    })?;
    if !array.is_c_contiguous() && !array.is_fortran_contiguous() {
        return Err(PyValueError::new_err("a contiguous array expected"));
    }
    let (at, len) = memory(array);
    Ok(Chunk { at, len })
}

/// Returns memory and bytes of a contiguous array.
pub(crate) fn memory(array: &Bound<'_, PyUntypedArray>) -> (*mut u8, usize) {
    let object: *mut PyArrayObject = array.as_array_ptr();
    // SAFETY: an array object that lives.
    let data = unsafe { (*object).fields.data };
    let itemsize = numpy::PyArrayDescrMethods::itemsize(&array.dtype());
    (data.cast(), array.len() * itemsize)
}

/// Returns memory and bytes of a contiguous array that a call may write to.
///
/// # Errors
/// Fails if it is not contiguous, not aligned, or read-only.
pub(crate) fn writable(array: &Bound<'_, PyUntypedArray>) -> PyResult<(*mut u8, usize)> {
    // SAFETY: an array object that lives.
    let flags = unsafe { (*array.as_array_ptr()).fields.flags };
    if flags & numpy::npyffi::NPY_ARRAY_WRITEABLE == 0 {
        return Err(PyValueError::new_err("the array is read-only"));
    }
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("the array is not contiguous (C order)"));
    }
    if !array.is_aligned() {
        return Err(PyValueError::new_err("the array is not aligned in memory, as its type asks"));
    }
    Ok(memory(array))
}

/// Checks that values are of a type, one for each of `count` elements, or one.
///
/// # Errors
/// Fails if they are not, or are not contiguous and aligned.
pub(crate) fn check_values(
    dtype: &Bound<'_, PyAny>,
    values: &Bound<'_, PyUntypedArray>,
    count: usize,
) -> PyResult<()> {
    if !values.dtype().as_any().eq(dtype)? || !values.is_c_contiguous() {
        return Err(PyTypeError::new_err("values must be contiguous, of the array's type"));
    }
    if !values.is_aligned() {
        return Err(PyValueError::new_err("values must be aligned in memory, as their type asks"));
    }
    if values.len() != count && values.len() != 1 {
        let given = values.len();
        return Err(PyValueError::new_err(format!(
            "{given} values were given for {count} elements"
        )));
    }
    Ok(())
}

/// Joins bytes in one buffer.
///
/// # Safety
/// As for [`Chunk::bytes`].
pub(crate) unsafe fn joined(chunks: &[Chunk]) -> Vec<u8> {
    let mut all = Vec::with_capacity(chunks.iter().map(Chunk::len).sum());
    for chunk in chunks {
        // SAFETY: the caller's contract.
        all.extend_from_slice(unsafe { chunk.bytes() });
    }
    all
}

/// Returns a writable buffer of these bytes: a NumPy array if they are many and NumPy is loaded.
///
/// # Errors
/// Fails if memory has run out.
pub(crate) fn buffer(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Bound<'_, PyAny>> {
    if bytes.len() >= LARGE && crate::interpreter::has_numpy(py)? {
        return Ok(PyArray1::from_vec(py, bytes).into_any());
    }
    Ok(PyByteArray::new(py, &bytes).into_any())
}
