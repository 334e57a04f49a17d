//! Return codes of `AM_*` functions.

use clump_am::ErrorKind as Am;
use clump_ffi::border;
use clump_ffi::fault::Fault;
use clump_ffi::status::clump_status as S;
use std::ffi::c_int;

/// The codes of the 1996 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    NotInit = 1,
    BadArg = 2,
    Resource = 3,
    NotSent = 4,
    InUse = 5,
}

/// A failure: its code, and its text for `clump_error_text`.
#[derive(Debug)]
pub(crate) struct AmFailure {
    pub(crate) code: Code,
    fault: Fault,
}

pub(crate) type Result<T> = std::result::Result<T, AmFailure>;

impl AmFailure {
    #[cold]
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        let status = match code {
            Code::NotInit => S::CLUMP_ERR_NOT_RUNNING,
            Code::BadArg => S::CLUMP_ERR_ARGUMENT,
            Code::Resource => S::CLUMP_ERR_LIMIT,
            Code::NotSent => S::CLUMP_ERR_RETURNED,
            Code::InUse => S::CLUMP_ERR_BUSY,
        };
        Self { code, fault: Fault::new(status, what) }
    }
}

/// The error for an invalid argument.
#[cold]
pub(crate) fn bad(what: impl Into<String>) -> AmFailure {
    AmFailure::new(Code::BadArg, what)
}

/// The error for a null pointer.
#[cold]
pub(crate) fn null(what: &str) -> AmFailure {
    bad(format!("the program gave a null pointer as {what}"))
}

/// The error for a call inside a handler, where it is not allowed.
#[cold]
pub(crate) fn in_handler(what: &str) -> AmFailure {
    AmFailure::new(Code::InUse, format!("{what} was called inside a handler"))
}

impl From<clump_am::Error> for AmFailure {
    #[cold]
    fn from(error: clump_am::Error) -> Self {
        let code = match error.kind() {
            Am::InHandler | Am::CollectiveInHandler | Am::OtherThread | Am::Occupied => Code::InUse,
            Am::NoEndpoint
            | Am::TooManyWords(_)
            | Am::PayloadTooLong { .. }
            | Am::NoSuchDestination(_)
            | Am::HandlerReserved => Code::BadArg,
            Am::Unclaimed { .. } => Code::NotSent,
            Am::Forked => Code::NotInit,
            _ => Code::Resource,
        };
        Self { code, fault: error.into() }
    }
}

/// Runs the body of an exported function: nothing unwinds into C, and a failure leaves its text.
#[inline(always)]
pub(crate) fn call(run: impl FnOnce() -> Result<()>) -> c_int {
    // The code after a panic: a fault of this library.
    let mut code = Code::Resource;
    let given = border::guard(|| match run() {
        Ok(()) => Ok(0),
        Err(failure) => {
            code = failure.code;
            Err(failure.fault)
        }
    });
    if given == 0 { 0 } else { code as c_int }
}

/// Runs the body of a function of the round trip without a landing pad for panics, which would slow
/// it down. A panic ends the process at the border.
#[inline(always)]
pub(crate) fn call_hot(run: impl FnOnce() -> Result<()>) -> c_int {
    match run() {
        Ok(()) => 0,
        Err(failure) => failed(failure),
    }
}

#[cold]
fn failed(failure: AmFailure) -> c_int {
    failure.fault.keep();
    failure.code as c_int
}

/// Writes a result to the address that C gave.
#[inline]
pub(crate) fn give<T>(to: *mut T, what: &str, value: T) -> Result<()> {
    if to.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller gave the address of a variable of that type; it is written once, during
    // the call.
    unsafe { to.write(value) };
    Ok(())
}
