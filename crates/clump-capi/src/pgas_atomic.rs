//! Atomics through global pointers, on all number types.

use crate::element::clump_type;
use crate::pgas::{clump_gptr, clump_pgas, space};
use clump::pgas::{AtomicElement, Bits, GlobalPtr, Pgas};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::status::clump_status as S;
use std::ffi::{c_int, c_void};

/// Numbers of operations, as ::clump_atomic has them.
mod op {
    pub(super) const SWAP: i32 = 2;
    pub(super) const COMPARE_SWAP: i32 = 3;
    pub(super) const ADD: i32 = 4;
    pub(super) const AND: i32 = 5;
    pub(super) const OR: i32 = 6;
    pub(super) const XOR: i32 = 7;
    pub(super) const MIN: i32 = 8;
    pub(super) const MAX: i32 = 9;
}

/// An operation on a number.
struct Operation<T> {
    op: c_int,
    operand: T,
    other: Option<T>,
    /// False if it is only begun.
    wants_old: bool,
}

#[cold]
fn unknown(op: c_int) -> Fault {
    range("an operation", op, "one of clump_atomic that this type has, but no load or store")
}

impl<T: AtomicElement> Operation<T> {
    fn on_number(&self, pgas: &Pgas, at: GlobalPtr<T>) -> Result<Option<T>> {
        let Self { op, operand, other, wants_old } = *self;
        let at = pgas.at(at)?;
        if !wants_old {
            match op {
                op::ADD => return Ok(at.add(operand).map(|()| None)?),
                op::MIN => return Ok(at.min(operand).map(|()| None)?),
                op::MAX => return Ok(at.max(operand).map(|()| None)?),
                _ => {}
            }
        }
        let pending = match op {
            op::SWAP => at.swap(operand),
            op::ADD => at.fetch_add(operand),
            op::MIN => at.fetch_min(operand),
            op::MAX => at.fetch_max(operand),
            op::COMPARE_SWAP => {
                let expected = other.ok_or_else(|| null("what is compared with"))?;
                return Ok(Some(at.compare_swap(expected, operand)?));
            }
            _ => return Err(unknown(op)),
        };
        Ok(Some(pending?.wait()?))
    }
}

impl<T: Bits> Operation<T> {
    fn on_bits(&self, pgas: &Pgas, at: GlobalPtr<T>) -> Result<Option<T>> {
        let &Self { op, operand, wants_old, .. } = self;
        if !matches!(op, op::AND | op::OR | op::XOR) {
            return self.on_number(pgas, at);
        }
        let at = pgas.at(at)?;
        let pending = match op {
            op::AND if !wants_old => return Ok(at.and(operand).map(|()| None)?),
            op::OR if !wants_old => return Ok(at.or(operand).map(|()| None)?),
            op::XOR if !wants_old => return Ok(at.xor(operand).map(|()| None)?),
            op::AND => at.fetch_and(operand),
            op::OR => at.fetch_or(operand),
            _ => at.fetch_xor(operand),
        };
        Ok(Some(pending?.wait()?))
    }
}

/// Places of numbers in the program's memory.
#[derive(Clone, Copy)]
struct Places {
    operand: *const c_void,
    other: *const c_void,
    old: *mut c_void,
}

impl Places {
    /// Reads operands, runs `run`, and writes its result.
    ///
    /// # Safety
    /// Each place is null, or has a `T`.
    unsafe fn with<T: AtomicElement>(
        self,
        op: c_int,
        run: impl FnOnce(&Operation<T>) -> Result<Option<T>>,
    ) -> Result<c_int> {
        if self.operand.is_null() {
            return Err(null("an operand"));
        }
        // SAFETY: the caller's; not null.
        let operand = unsafe { self.operand.cast::<T>().read_unaligned() };
        // SAFETY: the caller's; not null.
        let other =
            (!self.other.is_null()).then(|| unsafe { self.other.cast::<T>().read_unaligned() });
        let found = run(&Operation { op, operand, other, wants_old: !self.old.is_null() })?;
        if let Some(found) = found.filter(|_| !self.old.is_null()) {
            // SAFETY: the caller's; not null.
            unsafe { self.old.cast::<T>().write_unaligned(found) };
        }
        Ok(0)
    }
}

/// Does `op` (a ::clump_atomic: not load or store) to the number of `type` (::clump_type) at `at`,
/// with `operand`. The previous number is written to `old`; if that is null, the operation is only
/// begun, collected with others for the same node where it is of 8 or 4 bytes, and
/// ::clump_pgas_sync waits for it (a swap and ::CLUMP_COMPARE_SWAP are waited for). `other` is what
/// ::CLUMP_COMPARE_SWAP compares with, else null. Typed forms: ::clump_pgas_add_u64 and its like.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (outside of the pointer's memory; no multiple of the size; no such
/// operation or type; bits of floating-point numbers; null), and as ::clump_pgas_read.
///
/// # Safety
/// `operand` is a number of that type; `other` and `old` are null, or places for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_pgas_atomic(
    gas: *mut clump_pgas,
    at: clump_gptr,
    r#type: clump_type,
    op: c_int,
    operand: *const c_void,
    other: *const c_void,
    old: *mut c_void,
) -> c_int {
    guard(|| {
        space(gas, |space| {
            let (pgas, places) = (&space.pgas, Places { operand, other, old });
            macro_rules! on {
                ($type:ty, $how:ident) => {
                    // SAFETY: the caller's.
                    unsafe { places.with::<$type>(op, |it| it.$how(pgas, at.pointer::<$type>())) }
                };
            }
            match r#type.code {
                1 => on!(u8, on_bits),
                2 => on!(u16, on_bits),
                3 => on!(u32, on_bits),
                4 => on!(u64, on_bits),
                5 => on!(i8, on_bits),
                6 => on!(i16, on_bits),
                7 => on!(i32, on_bits),
                8 => on!(i64, on_bits),
                9 => on!(f32, on_number),
                10 => on!(f64, on_number),
                other => {
                    let what = format!("{other} is no type: give one of CLUMP_U8 to CLUMP_F64");
                    Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what))
                }
            }
        })
    })
}
