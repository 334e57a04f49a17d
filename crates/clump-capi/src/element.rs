//! Element types and operations of reductions: numbers of C, types of Rust.

use clump::op::{And, Max, Min, Number, Op, Or, Product, Sum, Xor};
use clump_ffi::fault::{Result, range};
use std::ffi::c_int;

/// The element type of a reduction: one of ::CLUMP_U8 to ::CLUMP_F64. A type of its own, so that
/// no compiler takes it for a ::clump_op.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_type {
    /// Number of the type, which never changes.
    pub code: c_int,
}

/// The operation of a reduction on two elements: one of ::CLUMP_SUM to ::CLUMP_XOR.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_op {
    /// Number of the operation, which never changes.
    pub code: c_int,
}

/// A call that combines elements of a type by an operation, which are not known yet.
pub(crate) trait ReductionCall: Sized {
    type Output;
    /// Makes the call.
    ///
    /// # Errors
    /// Its own.
    fn run<T: Number, O: Op<T>>(self, op: O) -> Result<Self::Output>;
}

/// Makes a call for the type and the operation that C names.
///
/// # Errors
/// No such type or operation; bits of floating-point numbers; errors of the call.
pub(crate) fn dispatch<C: ReductionCall>(
    (r#type, op): (clump_type, clump_op),
    call: C,
) -> Result<C::Output> {
    let op = op.code;
    match r#type.code {
        1 => integers::<u8, C>(op, call),
        2 => integers::<u16, C>(op, call),
        3 => integers::<u32, C>(op, call),
        4 => integers::<u64, C>(op, call),
        5 => integers::<i8, C>(op, call),
        6 => integers::<i16, C>(op, call),
        7 => integers::<i32, C>(op, call),
        8 => integers::<i64, C>(op, call),
        9 => numbers::<f32, C>(op, call, no_bits),
        10 => numbers::<f64, C>(op, call, no_bits),
        other => Err(range("a type", other, "one of clump_type")),
    }
}

fn integers<T: Number, C: ReductionCall>(op: c_int, call: C) -> Result<C::Output>
where
    And: Op<T>,
    Or: Op<T>,
    Xor: Op<T>,
{
    numbers::<T, C>(op, call, |op, call| match op {
        5 => call.run::<T, _>(And),
        6 => call.run::<T, _>(Or),
        7 => call.run::<T, _>(Xor),
        other => Err(range("an operation", other, "one of clump_op")),
    })
}

fn numbers<T: Number, C: ReductionCall>(
    op: c_int,
    call: C,
    others: impl Fn(c_int, C) -> Result<C::Output>,
) -> Result<C::Output> {
    match op {
        1 => call.run::<T, _>(Sum),
        2 => call.run::<T, _>(Product),
        3 => call.run::<T, _>(Min),
        4 => call.run::<T, _>(Max),
        other => others(other, call),
    }
}

fn no_bits<C: ReductionCall>(op: c_int, _: C) -> Result<C::Output> {
    Err(range(
        "an operation",
        op,
        "a clump_op for floating-point numbers, which have no bits to combine",
    ))
}
