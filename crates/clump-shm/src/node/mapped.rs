//! Types in mapped memory: bounds and alignment are checked once, where a reference is made.

use crate::shared::{Shared, SharedLayout, SharedSlice};
use crate::{Error, Result};
use clump_os::map::Mapping;
use std::ptr::NonNull;
use std::sync::Arc;

/// Returns a `T` at `offset` of a mapping.
pub(crate) fn place<T: SharedLayout>(map: &Mapping, offset: usize) -> Result<Shared<T>> {
    let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= map.bytes());
    if !fits || !offset.is_multiple_of(align_of::<T>()) {
        return Err(Error::NotANode("a part lies outside of it"));
    }
    // SAFETY: in bounds and aligned (just checked; mappings are page aligned), kept by the mapping.
    Ok(unsafe { Shared::new(at(map, offset).cast(), Arc::new(map.clone())) })
}

/// Returns `len` times `T` at `offset` of a mapping.
pub(crate) fn place_slice<T: SharedLayout>(
    map: &Mapping,
    offset: usize,
    len: usize,
) -> Result<SharedSlice<T>> {
    let end = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
    if end.is_none_or(|end| end > map.bytes()) || !offset.is_multiple_of(align_of::<T>()) {
        return Err(Error::NotANode("a part lies outside of it"));
    }
    // SAFETY: in bounds and aligned (just checked), kept by the mapping.
    Ok(unsafe { SharedSlice::new(at(map, offset).cast(), len, Arc::new(map.clone())) })
}

/// Returns the address of `offset`, which the caller has checked to lie inside `map`.
fn at(map: &Mapping, offset: usize) -> NonNull<u8> {
    debug_assert!(offset <= map.bytes());
    // SAFETY: callers checked that offset lies inside the mapping.
    unsafe { map.base().add(offset) }
}
