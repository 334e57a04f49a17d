//! Collectives besides the barrier: all-gather, broadcast, all-reduce.

use crate::send::{bytes, room};
use clump::op::{And, Max, Min, Number, Op, Or, Product, Sum, Xor};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::job::{JobHandle, checked_rank, clump_t, outside_handlers};
use clump_ffi::status::clump_status as S;
use std::ffi::{c_int, c_void};

/// The element type of an all-reduce: one of ::CLUMP_U8 to ::CLUMP_F64. A type of its own, so that
/// no compiler takes it for a ::clump_op.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_type {
    /// Its number, which never changes.
    pub code: c_int,
}

/// The operation of an all-reduce on two elements: one of ::CLUMP_SUM to ::CLUMP_XOR.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_op {
    /// Its number, which never changes.
    pub code: c_int,
}

/// Gathers `mine_bytes` bytes of every rank in `all` on every rank, in rank order: `all` has space
/// for as many as there are ranks. All ranks contribute equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, or a rank gave another number of bytes).
///
/// # Safety
/// `mine` has `mine_bytes` bytes, `all` space for as many of each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_gather(
    cl: *mut clump_t,
    mine: *const c_void,
    mine_bytes: usize,
    all: *mut c_void,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_gather", |job| {
            // SAFETY: the caller's.
            let mine = unsafe { bytes(mine, mine_bytes) }?;
            if all.is_null() && mine_bytes > 0 {
                return Err(null("the place for what all ranks give"));
            }
            let parts = job.runtime.all_gather_bytes(mine)?;
            if let Some(rank) = parts.iter().position(|part| part.len() != mine_bytes) {
                let other = parts.get(rank).map_or(0, Vec::len);
                let what = format!(
                    "rank {rank} gives {other} bytes, this one {mine_bytes}; all give equally many"
                );
                return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
            }
            for (rank, part) in parts.iter().enumerate() {
                // SAFETY: the caller has space for these bytes of each rank.
                unsafe {
                    let place = all.cast::<u8>().add(rank * mine_bytes);
                    std::ptr::copy_nonoverlapping(part.as_ptr(), place, mine_bytes);
                }
            }
            Ok(0)
        })
    })
}

/// Gathers one word of each rank as ::clump_all_gather does, names of endpoints and segments for
/// example.
///
/// # Safety
/// `all` has space for a word of each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_gather_u64(cl: *mut clump_t, mine: u64, all: *mut u64) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_gather_u64", |job| {
            if all.is_null() {
                return Err(null("the place for what all ranks give"));
            }
            let words = job.runtime.all_gather(mine)?;
            // SAFETY: the caller has space for a word of each rank.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), all, words.len()) };
            Ok(0)
        })
    })
}

/// Copies the `values_bytes` bytes of `root` to all ranks, which give equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such rank).
///
/// # Safety
/// `values` has `values_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_broadcast(
    cl: *mut clump_t,
    root: c_int,
    values: *mut c_void,
    values_bytes: usize,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_broadcast", |job| {
            let root = checked_rank(job, root)?;
            // SAFETY: the caller's; nothing else uses it meanwhile.
            let values = unsafe { room(values, values_bytes) }?;
            job.runtime.broadcast(root, values)?;
            Ok(0)
        })
    })
}

/// Combines all ranks' `count` elements of `type` (::clump_type) one by one by `op` (::clump_op),
/// in rank order; all ranks get the same bits. `from` and `to` may be the same. All ranks give
/// equally many.
///
/// Errors: as ::clump_barrier; ::CLUMP_ERR_ARGUMENT (null, no such type or operation, bits of
/// floating-point numbers).
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_reduce(
    cl: *mut clump_t,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_reduce", |job| {
            let (given, op) = (Given { job, from, to, count }, op.code);
            // SAFETY: the caller's.
            unsafe {
                match r#type.code {
                    1 => given.integers::<u8>(op),
                    2 => given.integers::<u16>(op),
                    3 => given.integers::<u32>(op),
                    4 => given.integers::<u64>(op),
                    5 => given.integers::<i8>(op),
                    6 => given.integers::<i16>(op),
                    7 => given.integers::<i32>(op),
                    8 => given.integers::<i64>(op),
                    9 => given.numbers::<f32>(op, no_bits),
                    10 => given.numbers::<f64>(op, no_bits),
                    other => Err(range("a type", other, "one of clump_type")),
                }
            }
        })
    })
}

/// Arguments of an all-reduce.
struct Given<'a> {
    job: &'a JobHandle,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
}

impl Given<'_> {
    /// # Safety
    /// As [`Given::reduce`].
    unsafe fn integers<T: Number>(&self, op: c_int) -> Result<c_int>
    where
        And: Op<T>,
        Or: Op<T>,
        Xor: Op<T>,
    {
        let bits = |given: &Self, op| {
            // SAFETY: by the function's own.
            unsafe {
                match op {
                    5 => given.reduce::<T, _>(And),
                    6 => given.reduce::<T, _>(Or),
                    7 => given.reduce::<T, _>(Xor),
                    other => Err(range("an operation", other, "one of clump_op")),
                }
            }
        };
        // SAFETY: by the function's own.
        unsafe { self.numbers::<T>(op, bits) }
    }

    /// # Safety
    /// As [`Given::reduce`].
    unsafe fn numbers<T: Number>(
        &self,
        op: c_int,
        others: impl Fn(&Self, c_int) -> Result<c_int>,
    ) -> Result<c_int> {
        // SAFETY: by the function's own.
        unsafe {
            match op {
                1 => self.reduce::<T, _>(Sum),
                2 => self.reduce::<T, _>(Product),
                3 => self.reduce::<T, _>(Min),
                4 => self.reduce::<T, _>(Max),
                other => others(self, other),
            }
        }
    }

    /// # Safety
    /// `from` has, and `to` has space for, `count` elements of `T`.
    unsafe fn reduce<T: Number, O: Op<T>>(&self, op: O) -> Result<c_int> {
        let bytes = self.count.checked_mul(size_of::<T>());
        let Some(bytes) = bytes.filter(|&bytes| isize::try_from(bytes).is_ok()) else {
            return Err(range("a number of elements", self.count, "what fits into memory"));
        };
        if self.count == 0 {
            self.job.runtime.all_reduce_slice::<T, O>(&mut [], op)?;
            return Ok(0);
        }
        if self.from.is_null() || self.to.is_null() {
            return Err(null("elements"));
        }
        // Copied, because they may lie anywhere, aligned or not, and be the same.
        let mut values: Vec<T> = Vec::new();
        if values.try_reserve_exact(self.count).is_err() {
            return Err(clump_am::Error::from(clump_am::ErrorKind::NoMemory(bytes)).into());
        }
        // SAFETY: the caller has that many bytes; all bits are a number; the space was just
        // allocated.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.from.cast::<u8>(),
                values.as_mut_ptr().cast(),
                bytes,
            );
            values.set_len(self.count);
        }
        self.job.runtime.all_reduce_slice(&mut values, op)?;
        // SAFETY: the caller has space for that many bytes, which belong to it alone.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr().cast(), self.to.cast::<u8>(), bytes);
        }
        Ok(0)
    }
}

fn no_bits(_: &Given<'_>, op: c_int) -> Result<c_int> {
    Err(range(
        "an operation",
        op,
        "a clump_op for floating-point numbers, which have no bits to combine",
    ))
}
