//! Model of [`crate::forked`] for loom, in which no process has children.

use std::ptr::NonNull;

/// Returns false.
pub fn is_child() -> bool {
    false
}

/// Without effect.
pub fn in_children(_: unsafe extern "C" fn()) {}

pub(crate) fn keep(_: NonNull<u8>, _: usize) -> usize {
    0
}

pub(crate) fn forget(_: usize) {}
