//! Words of segments: atomic operations of all kinds, blocking or split-phase, and waiting for a
//! word.

use crate::pending::{PendingKind, begun, clump_pending};
use crate::rma::{clump_target, place, write_if};
use clump::rma::{AtomicOp, Comparison, Target, Word};
use clump_ffi::border::{guard, guard_pointer};
use clump_ffi::fault::{Result, null, range};
use std::ffi::{c_int, c_void};

/// Atomic operations on a word.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum clump_atomic {
    /// Reads it, and sees what its writer wrote before it.
    CLUMP_LOAD = 0,
    /// Writes it; a reader that reads it by ::CLUMP_LOAD sees what was written before.
    CLUMP_STORE = 1,
    /// Writes it and returns its old value.
    CLUMP_SWAP = 2,
    /// Writes the operand if the word is the other operand.
    CLUMP_COMPARE_SWAP = 3,
    /// Adds, wrapping around.
    CLUMP_ADD = 4,
    /// Keeps the bits of both.
    CLUMP_BIT_AND = 5,
    /// Sets the bits of either.
    CLUMP_BIT_OR = 6,
    /// Sets the bits that differ.
    CLUMP_BIT_XOR = 7,
    /// Keeps the smaller, as numbers without sign.
    CLUMP_ATOMIC_MIN = 8,
    /// Keeps the larger, as numbers without sign.
    CLUMP_ATOMIC_MAX = 9,
    /// Keeps the smaller, as numbers with sign.
    CLUMP_ATOMIC_MIN_SIGNED = 10,
    /// Keeps the larger, as numbers with sign.
    CLUMP_ATOMIC_MAX_SIGNED = 11,
    /// Adds, as floating-point numbers: `double`, or `float` in words of 4 bytes.
    CLUMP_ADD_FLOAT = 12,
    /// Keeps the smaller, as floating-point numbers; of a number and a NaN, the number.
    CLUMP_ATOMIC_MIN_FLOAT = 13,
    /// Keeps the larger, as floating-point numbers; of a number and a NaN, the number.
    CLUMP_ATOMIC_MAX_FLOAT = 14,
}

/// Comparisons of a word with a value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum clump_comparison {
    /// Equal.
    CLUMP_EQUAL = 0,
    /// Not equal.
    CLUMP_NOT_EQUAL = 1,
    /// Greater or equal, as numbers without sign.
    CLUMP_AT_LEAST = 2,
    /// Less or equal, as numbers without sign.
    CLUMP_AT_MOST = 3,
}

fn operation(op: c_int) -> Result<AtomicOp> {
    let known = usize::try_from(op).ok().and_then(|op| AtomicOp::ALL.get(op).copied());
    known.ok_or_else(|| range("an operation", op, "one of clump_atomic"))
}

/// Returns the comparison of a number.
pub(crate) fn comparison(number: c_int) -> Result<Comparison> {
    Ok(match number {
        0 => Comparison::Equal,
        1 => Comparison::NotEqual,
        2 => Comparison::AtLeast,
        3 => Comparison::AtMost,
        other => return Err(range("a comparison", other, "one of clump_comparison")),
    })
}

/// Executes an operation; without a place for the result it does not wait for one.
fn apply<T: Word>(
    target: &Target,
    (offset, op): (u64, AtomicOp),
    (operand, other): (T, T),
    old: *mut T,
) -> Result<()> {
    let before = match (op, old.is_null()) {
        (AtomicOp::Load, true) => return Err(null("the place for what is read")),
        (AtomicOp::Load, false) => target.load(offset)?,
        (AtomicOp::CompareSwap, _) => target.compare_swap(offset, other, operand)?,
        (AtomicOp::Swap, false) => target.swap(offset, operand)?,
        (AtomicOp::Store, _) | (AtomicOp::Swap, true) => {
            target.store(offset, operand)?;
            operand
        }
        (_, true) => return Ok(target.update(offset, op, operand)?),
        (_, false) => target.fetch(offset, op, operand)?,
    };
    write_if(old, before);
    Ok(())
}

/// Does `op` (a ::clump_atomic) to the word of 8 bytes at `offset` of a segment, with `operand`,
/// and for ::CLUMP_COMPARE_SWAP with `other`, which the word is compared with. The old value of the
/// word is written to `old`. If that is null, the operation is only begun, and ::clump_rma_quiet
/// waits until it is complete (except ::CLUMP_COMPARE_SWAP, which is waited for). After
/// ::CLUMP_STORE, `old` is what was stored.
///
/// Errors: ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_ALIGNMENT (offset no multiple of 8),
/// ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_OWNER_DIED, ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED,
/// ::CLUMP_ERR_ARGUMENT (no such operation, or ::CLUMP_LOAD to nowhere).
///
/// # Safety
/// `old` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_atomic_u64(
    target: *mut clump_target,
    offset: u64,
    op: c_int,
    operand: u64,
    other: u64,
    old: *mut u64,
) -> c_int {
    guard(|| {
        let op = operation(op)?;
        place(target, |place| {
            apply(&place.target, (offset, op), (operand, other), old)?;
            Ok(0)
        })
    })
}

/// Does ::clump_rma_atomic_u64 to a word of 4 bytes, at a multiple of 4.
///
/// # Safety
/// `old` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_atomic_u32(
    target: *mut clump_target,
    offset: u64,
    op: c_int,
    operand: u32,
    other: u32,
    old: *mut u32,
) -> c_int {
    guard(|| {
        let op = operation(op)?;
        place(target, |place| {
            apply(&place.target, (offset, op), (operand, other), old)?;
            Ok(0)
        })
    })
}

/// Begins to write `from`, `bytes` bytes, to `offset` of a segment; `from` may be reused when this
/// returns. The pending operation is waited for, or dropped.
///
/// Returns null on failure: as ::clump_rma_put.
///
/// # Safety
/// `from` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_put_start(
    target: *mut clump_target,
    offset: u64,
    from: *const c_void,
    bytes: usize,
) -> *mut clump_pending {
    guard_pointer(|| {
        // SAFETY: the caller's.
        let from = unsafe { crate::send::bytes(from, bytes) }?;
        place(target, |place| begun(PendingKind::Put(place.target.start_put(offset, from)?)))
    })
}

/// Begins ::clump_rma_atomic_u64. The pending operation is waited for, which returns the old value
/// of the word, or dropped.
///
/// Returns null on failure: as that.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_atomic_start_u64(
    target: *mut clump_target,
    offset: u64,
    op: c_int,
    operand: u64,
    other: u64,
) -> *mut clump_pending {
    guard_pointer(|| {
        let op = operation(op)?;
        place(target, |place| {
            begun(PendingKind::Long(place.target.start_atomic(offset, op, operand, other)?))
        })
    })
}

/// Begins ::clump_rma_atomic_u32.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rma_atomic_start_u32(
    target: *mut clump_target,
    offset: u64,
    op: c_int,
    operand: u32,
    other: u32,
) -> *mut clump_pending {
    guard_pointer(|| {
        let op = operation(op)?;
        place(target, |place| {
            begun(PendingKind::Short(place.target.start_atomic(offset, op, operand, other)?))
        })
    })
}

/// Waits until the word of 8 bytes at `offset` of a segment of this node compares to `value` by
/// `how` (a ::clump_comparison), and writes it to `seen`, if that is not null. Signals to a segment
/// wake its own rank at once, and others of the node after some milliseconds.
///
/// Errors: ::CLUMP_ERR_SEGMENT (it is on another node), ::CLUMP_ERR_BOUNDS, ::CLUMP_ERR_ALIGNMENT,
/// ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_ARGUMENT.
///
/// # Safety
/// `seen` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_rma_wait_until_u64(
    target: *mut clump_target,
    offset: u64,
    how: c_int,
    value: u64,
    seen: *mut u64,
) -> c_int {
    guard(|| {
        let how = comparison(how)?;
        let word = place(target, |place| Ok(place.target.wait_until(offset, how, value)?))?;
        write_if(seen, word);
        Ok(0)
    })
}
