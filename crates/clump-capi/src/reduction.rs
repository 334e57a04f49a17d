//! Collectives that combine elements: all-reduce, reduce, scans.

use clump::op::{And, Max, Min, Number, Op, Or, Product, Sum, Xor};
use clump_ffi::border::guard;
use clump_ffi::fault::{Result, null, range};
use clump_ffi::job::{JobHandle, checked_rank, clump_t, outside_handlers};
use std::ffi::{c_int, c_void};

/// The element type of a reduction: one of ::CLUMP_U8 to ::CLUMP_F64. A type of its own, so that
/// no compiler takes it for a ::clump_op.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_type {
    /// Its number, which never changes.
    pub code: c_int,
}

/// The operation of a reduction on two elements: one of ::CLUMP_SUM to ::CLUMP_XOR.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_op {
    /// Its number, which never changes.
    pub code: c_int,
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
            // SAFETY: the caller's.
            unsafe { Given { job, from, to, count, reach: Reach::All }.combine(r#type, op) }
        })
    })
}

/// Combines all ranks' `count` elements of `type` (::clump_type) one by one by `op` (::clump_op),
/// in rank order, in `to` of `root`: the bits that ::clump_all_reduce gives. `to` of other ranks is
/// not used. `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce; ::CLUMP_ERR_ARGUMENT (no such rank).
///
/// # Safety
/// `from` has, and `to` of the root has space for, `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_reduce(
    cl: *mut clump_t,
    root: c_int,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_reduce", |job| {
            let reach = Reach::Root(checked_rank(job, root)?);
            // SAFETY: the caller's.
            unsafe { Given { job, from, to, count, reach }.combine(r#type, op) }
        })
    })
}

/// Combines the `count` elements of all ranks up to this one, this one's included, in rank order.
/// `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce.
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_scan(
    cl: *mut clump_t,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_scan", |job| {
            // SAFETY: the caller's.
            unsafe { Given { job, from, to, count, reach: Reach::Through }.combine(r#type, op) }
        })
    })
}

/// Combines the `count` elements of all ranks before this one, in rank order; `to` of rank 0 is not
/// written. `from` and `to` may be the same. All ranks give equally many.
///
/// Errors: as ::clump_all_reduce.
///
/// # Safety
/// `from` has, and `to` has space for, `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_exclusive_scan(
    cl: *mut clump_t,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    r#type: clump_type,
    op: clump_op,
) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_exclusive_scan", |job| {
            // SAFETY: the caller's.
            unsafe { Given { job, from, to, count, reach: Reach::Before }.combine(r#type, op) }
        })
    })
}

/// Ranks whose elements are combined, and ranks that get them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Those of all ranks, for all.
    All,
    /// Those of all ranks, for one.
    Root(usize),
    /// Those of the ranks up to each.
    Through,
    /// Those of the ranks before each.
    Before,
}

/// Arguments of a reduction.
struct Given<'a> {
    job: &'a JobHandle,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    reach: Reach,
}

impl Given<'_> {
    /// # Safety
    /// As [`Given::reduce`].
    unsafe fn combine(&self, r#type: clump_type, op: clump_op) -> Result<c_int> {
        let op = op.code;
        // SAFETY: by the function's own.
        unsafe {
            match r#type.code {
                1 => self.integers::<u8>(op),
                2 => self.integers::<u16>(op),
                3 => self.integers::<u32>(op),
                4 => self.integers::<u64>(op),
                5 => self.integers::<i8>(op),
                6 => self.integers::<i16>(op),
                7 => self.integers::<i32>(op),
                8 => self.integers::<i64>(op),
                9 => self.numbers::<f32>(op, no_bits),
                10 => self.numbers::<f64>(op, no_bits),
                other => Err(range("a type", other, "one of clump_type")),
            }
        }
    }

    /// Returns true if this rank gets elements.
    fn gets(&self) -> bool {
        match self.reach {
            Reach::All | Reach::Through => true,
            Reach::Root(root) => self.job.runtime.rank() == root,
            Reach::Before => self.job.runtime.rank() != 0,
        }
    }

    fn run<T: Number, O: Op<T>>(&self, values: &mut [T], op: O) -> Result<()> {
        let runtime = &self.job.runtime;
        Ok(match self.reach {
            Reach::All => runtime.all_reduce_slice(values, op),
            Reach::Root(root) => runtime.reduce_slice(root, values, op),
            Reach::Through => runtime.scan_slice(values, op),
            Reach::Before => runtime.exclusive_scan_slice(values, op),
        }?)
    }

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
            self.run::<T, O>(&mut [], op)?;
            return Ok(0);
        }
        if self.from.is_null() || (self.to.is_null() && self.gets()) {
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
        self.run(&mut values, op)?;
        if !self.gets() {
            return Ok(0);
        }
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
