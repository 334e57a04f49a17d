//! The border between Rust and C: nothing unwinds across it, and what fails leaves its text behind.

use crate::fault::{Fault, Result};
use crate::status::clump_status as S;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what a function does that returns a number; a failure is kept, and its status returned.
#[inline(always)]
pub(crate) fn guard(run: impl FnOnce() -> Result<c_int>) -> c_int {
    // What a panic leaves behind is only reached through cells that say so themselves.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => value,
        Ok(Err(fault)) => fault.keep(),
        Err(payload) => internal(payload.as_ref()).keep(),
    }
}

/// The same for the functions that a round trip consists of, which a landing place for panics would slow down:
/// there a panic ends the process at the border, as the compiler sees to.
#[inline(always)]
pub(crate) fn hot(run: impl FnOnce() -> Result<c_int>) -> c_int {
    run().unwrap_or_else(Fault::keep)
}

/// The same for functions that return a pointer; null if it failed.
#[inline(always)]
pub(crate) fn guard_pointer<T>(run: impl FnOnce() -> Result<*mut T>) -> *mut T {
    guard_or(std::ptr::null_mut(), run)
}

/// The same for functions that return something else, given what they return when they fail.
#[inline(always)]
pub(crate) fn guard_or<T>(failed: T, run: impl FnOnce() -> Result<T>) -> T {
    let fault = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => return value,
        Ok(Err(fault)) => fault,
        Err(payload) => internal(payload.as_ref()),
    };
    fault.keep();
    failed
}

/// A count as C gets it; what does not fit is as much as does.
#[inline(always)]
pub(crate) fn to_int(count: usize) -> c_int {
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
