//! Objects that every rank has its own of: functions that are called there find it by its number.

use crate::pgas_calls::{ObjectAddress, clump_call, clump_calls, with};
use clump::pgas::DistName;
use clump_ffi::border::{guard, guard_pointer};
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::status::clump_status as S;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Makes this rank's object known to functions, under a number that all ranks get. Collective: all
/// ranks make objects of the same types in the same order; `type` names the type. Functions may use
/// the object before this returns, and until ::clump_calls_object_free.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (ranks name different types; null), and as ::clump_barrier.
///
/// # Safety
/// `type` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_calls_object(
    calls: *mut clump_calls,
    r#type: *const c_char,
    object: *mut c_void,
) -> c_int {
    guard(|| {
        let is_missing = r#type.is_null() || object.is_null();
        let of_type = match is_missing {
            // No text has a zero byte: the others find that this rank differs.
            true => Cow::Borrowed("\0"),
            // SAFETY: the caller's; not null.
            false => unsafe { CStr::from_ptr(r#type) }.to_string_lossy(),
        };
        with(calls, |handle| {
            let made = handle.calls.dist_raw(&of_type, ObjectAddress(object));
            if is_missing {
                let took_part = made.as_ref().err().is_none_or(|why| why.took_part());
                return Err(null("an object or its type").having_taken_part(took_part));
            }
            let made = made?;
            let id = made.name().id();
            let too_many = |_| Fault::new(S::CLUMP_ERR_LIMIT, "too many objects were made");
            let number = c_int::try_from(id).map_err(too_many)?;
            handle.objects.borrow_mut().insert(id, made);
            Ok(number)
        })
    })
}

/// Takes this rank's object away: functions do not find it any more. Not a collective: meet in
/// ::clump_calls_end before.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no such object).
#[unsafe(no_mangle)]
pub extern "C" fn clump_calls_object_free(calls: *mut clump_calls, object: c_int) -> c_int {
    guard(|| {
        with(calls, |handle| {
            let taken = handle.objects.borrow_mut().remove(&id_of(object)?);
            taken.map(|_| 0).ok_or_else(|| unknown(object))
        })
    })
}

/// Returns this rank's object of a number, in a function that runs; the number may have come as an
/// argument. Null on failure: ::CLUMP_ERR_ARGUMENT (there is none).
///
/// # Safety
/// `call` is what a function that runs was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_call_object(call: *mut clump_call, object: c_int) -> *mut c_void {
    guard_pointer(|| {
        // SAFETY: the caller's: it is in the frame that called the function.
        let call = unsafe { call.as_ref() }.ok_or_else(|| null("a call"))?;
        // SAFETY: the caller's.
        let context = unsafe { call.context() };
        // Found by the number itself: this rank may still be about to return it to its program.
        let name = DistName::<ObjectAddress>::new(id_of(object)?);
        Ok(context.with(name, |address| address.0)?)
    })
}

fn id_of(object: c_int) -> Result<u64> {
    u64::try_from(object).map_err(|_| unknown(object))
}

#[cold]
fn unknown(object: c_int) -> Fault {
    range("an object", object, "one that clump_calls_object has returned, and not freed")
}
