//! Vectors of indexes that a program gives: checked once, used without a copy.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;

/// Indexes of a contiguous array that a call keeps alive.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Indexes {
    I64(*const i64, usize),
    I32(*const i32, usize),
    U64(*const u64, usize),
    U32(*const u32, usize),
}

/// Number type of indexes.
pub(crate) trait Index: Copy {
    /// Returns the element of an array of `len` that it means; negative ones count from the end.
    fn element(self, len: usize) -> usize;
    /// Returns the number, as wide as any.
    fn wide(self) -> i128;
    /// Returns indexes as the elements that they mean, if they are these numbers in memory.
    fn elements(all: &[Self]) -> Option<&[usize]>;
}

macro_rules! signed {
    ($($t:ty)+) => {$(
        impl Index for $t {
            #[inline(always)]
            fn element(self, len: usize) -> usize {
                if self < 0 { len.wrapping_add_signed(self as isize) } else { self as usize }
            }
            fn wide(self) -> i128 {
                self.into()
            }
            fn elements(all: &[Self]) -> Option<&[usize]> {
                // Negative ones count from the end.
                let same = size_of::<Self>() == size_of::<usize>()
                    && !all.iter().fold(false, |any, &index| any | (index < 0));
                // SAFETY: integers of one size and alignment, and not negative.
                same.then(|| unsafe { slice(all.as_ptr().cast(), all.len()) })
            }
        }
    )+};
}
signed!(i32 i64);

macro_rules! unsigned {
    ($($t:ty)+) => {$(
        impl Index for $t {
            #[inline(always)]
            fn element(self, _len: usize) -> usize {
                self as usize
            }
            fn wide(self) -> i128 {
                self.into()
            }
            fn elements(all: &[Self]) -> Option<&[usize]> {
                let same = size_of::<Self>() == size_of::<usize>();
                // SAFETY: integers of one size and alignment.
                same.then(|| unsafe { slice(all.as_ptr().cast(), all.len()) })
            }
        }
    )+};
}
unsigned!(u32 u64);

/// Runs a body with the slice of indexes, whatever their type.
macro_rules! with_indexes {
    ($indexes:expr, $slice:ident => $body:expr) => {
        match $indexes {
            Indexes::I64(at, len) => with_indexes!(@ at, len, $slice => $body),
            Indexes::I32(at, len) => with_indexes!(@ at, len, $slice => $body),
            Indexes::U64(at, len) => with_indexes!(@ at, len, $slice => $body),
            Indexes::U32(at, len) => with_indexes!(@ at, len, $slice => $body),
        }
    };
    (@ $at:expr, $len:expr, $slice:ident => $body:expr) => {{
        // SAFETY: memory of an array that the call keeps alive, contiguous and aligned.
        let $slice = unsafe { crate::indexes::slice($at, $len) };
        $body
    }};
}
pub(crate) use with_indexes;

/// Returns a slice; also of no elements.
///
/// # Safety
/// As for `std::slice::from_raw_parts`, unless there are none.
pub(crate) unsafe fn slice<'a, T>(at: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(at, len) }
}

impl Indexes {
    /// Returns the indexes of an array, of 4 or 8 bytes each.
    ///
    /// # Errors
    /// Fails on other types, and arrays that are not contiguous.
    pub(crate) fn of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Self> {
        let (dtype, len) = (array.dtype(), array.len());
        let native = dtype.is_native_byteorder() != Some(false);
        if !array.is_c_contiguous() || !array.is_aligned() || !native {
            return Err(PyTypeError::new_err("indexes must be contiguous, aligned and native"));
        }
        let (at, _) = crate::bytes::memory(array);
        match (dtype.kind(), dtype.itemsize()) {
            (b'i', 8) => Ok(Self::I64(at.cast(), len)),
            (b'i', 4) => Ok(Self::I32(at.cast(), len)),
            (b'u', 8) => Ok(Self::U64(at.cast(), len)),
            (b'u', 4) => Ok(Self::U32(at.cast(), len)),
            _ => Err(PyTypeError::new_err("indexes must be integers of 4 or 8 bytes")),
        }
    }

    /// Returns the number of indexes.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::I64(_, len) | Self::I32(_, len) | Self::U64(_, len) | Self::U32(_, len) => len,
        }
    }

    /// Checks all indexes of an array of `len` elements in one pass.
    ///
    /// # Errors
    /// Fails with the first that is out of bounds.
    pub(crate) fn check(self, len: usize) -> PyResult<()> {
        let found = with_indexes!(self, all => first_outside(all, len));
        let Some((position, index)) = found else { return Ok(()) };
        Err(PyIndexError::new_err(format!(
            "index {index} at position {position} is out of bounds for a global array of {len} elements"
        )))
    }
}

/// Returns position and value of the first index out of bounds.
fn first_outside<I: Index>(all: &[I], len: usize) -> Option<(usize, i128)> {
    // The compiler makes a loop without branches of this one.
    let outside = all.iter().fold(false, |outside, &index| outside | (index.element(len) >= len));
    if !outside {
        return None;
    }
    let found = all.iter().position(|index| index.element(len) >= len)?;
    Some((found, all.get(found)?.wide()))
}

/// Returns the element that a single index means.
///
/// # Errors
/// Fails out of bounds.
#[inline]
pub(crate) fn single(index: isize, len: usize) -> PyResult<usize> {
    let element = if index < 0 { len.wrapping_add_signed(index) } else { index as usize };
    if element < len {
        return Ok(element);
    }
    Err(PyIndexError::new_err(format!(
        "index {index} is out of bounds for a global array of {len} elements"
    )))
}
