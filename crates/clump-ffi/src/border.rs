//! The border between Rust and C: no panic unwinds across it, and every failure leaves its text
//! behind.

use crate::fault::{Fault, Result};
use crate::status::clump_status as S;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that returns a number. Records a failure and returns its status.
#[inline(always)]
pub fn guard(run: impl FnOnce() -> Result<c_int>) -> c_int {
    // State that a panic leaves behind is only reached through cells that detect it themselves.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => value,
        Ok(Err(fault)) => fault.keep(),
        Err(payload) => internal(payload.as_ref()).keep(),
    }
}

/// Runs the body of a function of the round trip without a landing pad for panics, which would slow
/// it down. A panic ends the process at the border: the compiler ensures it.
#[inline(always)]
pub fn hot(run: impl FnOnce() -> Result<c_int>) -> c_int {
    run().unwrap_or_else(Fault::keep)
}

/// Runs the body of a function that returns a pointer; null on failure.
#[inline(always)]
pub fn guard_pointer<T>(run: impl FnOnce() -> Result<*mut T>) -> *mut T {
    guard_or(std::ptr::null_mut(), run)
}

/// Runs the body of a function with any other return type; `failed` is what it returns on failure.
#[inline(always)]
pub fn guard_or<T>(failed: T, run: impl FnOnce() -> Result<T>) -> T {
    let fault = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => return value,
        Ok(Err(fault)) => fault,
        Err(payload) => internal(payload.as_ref()),
    };
    fault.keep();
    failed
}

/// Converts a count for C; a count that does not fit saturates.
#[inline(always)]
pub fn to_int(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

#[cold]
fn internal(payload: &(dyn std::any::Any + Send)) -> Fault {
    let said = payload.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a word");
    let what = format!("a fault of libclump, please report it: {said}");
    Fault::new(S::CLUMP_ERR_INTERNAL, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::last;

    #[test]
    fn a_panic_stays_on_this_side() {
        assert_eq!(guard(|| panic!("on purpose")), S::CLUMP_ERR_INTERNAL as c_int);
        assert!(last(|f| f.is_some_and(|f| f.whole().to_string_lossy().contains("on purpose"))));
        assert!(guard_pointer::<u8>(|| panic!("again")).is_null());
    }
}
