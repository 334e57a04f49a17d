//! `AM_Init` and `AM_Terminate`: the job behind the endpoints.

use crate::job_context::{check_process, context, not_init, set_context};
use crate::status::{AmFailure, Code, call, in_handler};
use crate::{bundle, endpoint_slot, token};
use clump_am::AsContext;
use clump_ffi::border;
use clump_ffi::job::{self, Above, clump_t};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Functions of this interface that the job calls.
const ABOVE: Above =
    Above { close: close_all, abandon: abandon_all, is_handling: token::is_handling };

/// The state between the first `AM_Init` and the last `AM_Terminate`.
struct Started {
    times: u32,
    /// True if `AM_Init` joined the job, so that `AM_Terminate` ends it.
    own: bool,
    job: *mut clump_t,
}

// SAFETY: a `clump_t` may be used from any thread; it is not followed here.
unsafe impl Send for Started {}

/// Held while the job is joined and left.
static STARTED: Mutex<Option<Started>> = Mutex::new(None);
fn started() -> MutexGuard<'static, Option<Started>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs in a child by `fork`: invalidates all handles and tokens. Takes no lock.
fn abandon_all() {
    bundle::abandon_all();
    endpoint_slot::abandon_all();
    token::abandon();
}

/// Implements `AM_Init` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_Init() -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_Init"));
        }
        check_process()?;
        let mut started = started();
        if let Some(started) = started.as_mut() {
            started.times += 1;
            return Ok(());
        }
        job::register(ABOVE);
        let there = job::current();
        let own = there.is_null();
        let job = if own { border::guard_pointer(job::join) } else { there };
        if job.is_null() {
            let said = clump_ffi::fault::last(|fault| {
                fault.map(|fault| fault.whole().to_string_lossy().into_owned())
            });
            return Err(AmFailure::new(Code::Resource, said.unwrap_or_default()));
        }
        let context = job::with(job, |job| Ok(job.runtime.context().clone()));
        set_context(Some(context.map_err(|_| not_init())?));
        *started = Some(Started { times: 1, own, job });
        Ok(())
    })
}

/// Implements `AM_Terminate` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_Terminate() -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_Terminate"));
        }
        check_process()?;
        let mut started = started();
        let Some(now) = started.as_mut() else { return Err(not_init()) };
        if now.times > 1 {
            now.times -= 1;
            return Ok(());
        }
        bundle::free_all()?;
        let (own, job) = (now.own, now.job);
        *started = None;
        set_context(None);
        drop(started);
        if own && border::guard(|| job::leave(job).map(|()| 0)) != 0 {
            let what = "the rank cannot leave its job: other threads are still inside of clump";
            return Err(AmFailure::new(Code::InUse, what));
        }
        Ok(())
    })
}

/// Frees all endpoints and bundles, because the job ends; false if one is in use.
fn close_all() -> bool {
    let mut started = started();
    if bundle::free_all().is_err() {
        return false;
    }
    *started = None;
    set_context(None);
    true
}

/// Returns the job that `AM_Init` joined, for `clump_rank`, `clump_all_gather` and the like; null
/// before.
#[unsafe(no_mangle)]
pub extern "C" fn clump_am_job() -> *mut clump_t {
    // The lock of `started` is not taken: handlers call this too, while AM_Terminate may wait for
    // them.
    if context().is_ok() { job::current() } else { std::ptr::null_mut() }
}
