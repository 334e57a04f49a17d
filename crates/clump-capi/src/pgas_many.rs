//! Vector forms: one call for many elements of an array, by their indexes.

use crate::element::clump_type;
use crate::pgas::{SpreadHandle, array, clump_spread};
use clump::pgas::{AtomicElement, GlobalError, GlobalErrorKind, GlobalPhase, GlobalResult, Spread};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::status::clump_status as S;
use std::ffi::{c_int, c_void};

/// Returns the indexes that a program gives.
///
/// # Safety
/// `given` has `count` numbers.
unsafe fn indexes<'a>(given: *const usize, count: usize) -> Result<&'a [usize]> {
    if count == 0 {
        return Ok(&[]);
    }
    if given.is_null() || !given.is_aligned() {
        return Err(null("indexes"));
    }
    if count > isize::MAX as usize / size_of::<usize>() {
        return Err(range("a number of indexes", count, "what fits into memory"));
    }
    // SAFETY: by the function's own; not null, aligned.
    Ok(unsafe { std::slice::from_raw_parts(given, count) })
}

/// Returns the bytes of `count` elements.
fn length(array: &SpreadHandle, count: usize) -> Result<usize> {
    let bytes = count.checked_mul(array.element);
    bytes.ok_or_else(|| range("a number of elements", count, "what fits into memory"))
}

/// Returns the first byte of an element.
fn first_byte(array: &SpreadHandle, index: usize) -> Result<usize> {
    let end = array.spread.len() / array.element;
    if index >= end {
        return Err(range("an index", index, "below the number of elements"));
    }
    Ok(index * array.element)
}

/// Begins to write elements of an array: element `indexes[i]` becomes value `i` of `values`. Writes
/// to other nodes are collected as by ::clump_pgas_put. ::clump_pgas_sync waits for it.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (an index beyond the end, null): then some have been begun; others
/// as ::clump_pgas_put.
///
/// # Safety
/// `indexes` has `count` numbers, and `values` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_spread_scatter(
    spread: *mut clump_spread,
    indexes: *const usize,
    count: usize,
    values: *const c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let indexes = unsafe { self::indexes(indexes, count) }?;
        array(spread, |array| {
            // SAFETY: the caller's.
            let values = unsafe { crate::send::bytes(values, length(array, count)?) }?;
            for (&index, value) in indexes.iter().zip(values.chunks_exact(array.element)) {
                let at = first_byte(array, index)?;
                put(&array.spread, at, value)?;
            }
            Ok(0)
        })
    })
}

/// Begins to write an element of any size.
fn put(spread: &Spread<u8>, at: usize, value: &[u8]) -> Result<()> {
    if let Ok(word) = <[u8; 8]>::try_from(value) {
        return Ok(spread.view(at).put(u64::from_ne_bytes(word))?);
    }
    if let Ok(half) = <[u8; 4]>::try_from(value) {
        return Ok(spread.view(at).put(u32::from_ne_bytes(half))?);
    }
    let pointer = spread.ptr(at).ok_or_else(|| range("an index", at, "inside the array"))?;
    Ok(spread.pgas().bulk_put(pointer, value)?)
}

/// Reads elements of an array: place `i` of `to` gets element `indexes[i]`. They are there when
/// this returns. Elements of 1, 2, 4 and 8 bytes on other nodes are requested many at a time.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (an index beyond the end, null), and as ::clump_pgas_read. Then
/// `to` may hold anything.
///
/// # Safety
/// `indexes` has `count` numbers, and `to` has room for `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_spread_gather(
    spread: *mut clump_spread,
    indexes: *const usize,
    count: usize,
    to: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let indexes = unsafe { self::indexes(indexes, count) }?;
        array(spread, |array| {
            // SAFETY: the caller's.
            let to = unsafe { crate::send::room(to, length(array, count)?) }?;
            let last = indexes.iter().max().map_or(Ok(0), |last| first_byte(array, *last));
            last?;
            let (table, element) = (&array.spread, array.element);
            table.pgas().phase(|phase| {
                let mut places = indexes.iter().zip(to.chunks_exact_mut(element));
                places.try_for_each(|(index, to)| get(phase, table, index * element, to))
            })?;
            Ok(0)
        })
    })
}

/// Begins to read an element of any size.
fn get<'env>(
    phase: &GlobalPhase<'_, 'env>,
    table: &Spread<u8>,
    at: usize,
    to: &'env mut [u8],
) -> GlobalResult<()> {
    match to.len() {
        1 => get_whole::<1>(phase, table, at, to),
        2 => get_whole::<2>(phase, table, at, to),
        4 => get_whole::<4>(phase, table, at, to),
        8 => get_whole::<8>(phase, table, at, to),
        _ => match table.ptr(at) {
            Some(pointer) => phase.bulk_get(pointer, to),
            None => Err(beyond(table, at)),
        },
    }
}

#[cold]
fn beyond(table: &Spread<u8>, at: usize) -> GlobalError {
    GlobalErrorKind::NoSuchElement { index: at, len: table.len() }.into()
}

/// Begins to read an element of `N` bytes, which is a word or a part of one.
fn get_whole<'env, const N: usize>(
    phase: &GlobalPhase<'_, 'env>,
    table: &Spread<u8>,
    at: usize,
    to: &'env mut [u8],
) -> GlobalResult<()> {
    match <&mut [u8; N]>::try_from(to) {
        Ok(to) => phase.get(table.view::<[u8; N]>(at), to),
        Err(_) => Err(beyond(table, at)),
    }
}

/// Begins to add the number at `operand`, of `type` (::clump_type), to elements of an array, as
/// often as each is named. ::clump_pgas_sync waits for it.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (an index beyond the end, a type of another size than elements,
/// null): then some have been begun; others as ::clump_pgas_atomic.
///
/// # Safety
/// `indexes` has `count` numbers; `operand` is a number of that type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_spread_scatter_add(
    spread: *mut clump_spread,
    r#type: clump_type,
    indexes: *const usize,
    count: usize,
    operand: *const c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's.
        let indexes = unsafe { self::indexes(indexes, count) }?;
        if operand.is_null() {
            return Err(null("an operand"));
        }
        array(spread, |array| {
            macro_rules! on {
                ($type:ty) => {{
                    // SAFETY: the caller's; not null.
                    let operand = unsafe { operand.cast::<$type>().read_unaligned() };
                    add(array, indexes, operand)
                }};
            }
            match r#type.code {
                1 => on!(u8),
                2 => on!(u16),
                3 => on!(u32),
                4 => on!(u64),
                5 => on!(i8),
                6 => on!(i16),
                7 => on!(i32),
                8 => on!(i64),
                9 => on!(f32),
                10 => on!(f64),
                other => {
                    let what = format!("{other} is no type: give one of CLUMP_U8 to CLUMP_F64");
                    Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what))
                }
            }
        })
    })
}

fn add<T: AtomicElement>(array: &SpreadHandle, indexes: &[usize], operand: T) -> Result<c_int> {
    if size_of::<T>() != array.element {
        let bytes = size_of::<T>();
        return Err(range("a type's bytes", bytes, "as many as an element of the array has"));
    }
    for &index in indexes {
        array.spread.view::<T>(first_byte(array, index)?).add(operand)?;
    }
    Ok(0)
}
