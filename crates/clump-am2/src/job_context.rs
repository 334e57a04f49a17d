//! The rank behind the endpoints, between the first `AM_Init` and the last `AM_Terminate`.

use crate::status::{AmFailure, Code, Result, bad};
use clump_am::RankContext;
use clump_os::sync::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The rank, for all threads: no thread waits for anything while holding the lock.
static CONTEXT: RwLock<Option<Arc<RankContext>>> = RwLock::new(None);
/// Maximum number of bytes of a medium message; 0 before the first `AM_Init` and after the last
/// `AM_Terminate`.
static MEDIUM_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Returns the maximum number of bytes of a medium message in this job; 0 if there is none.
#[inline(always)]
pub(crate) fn max_medium() -> usize {
    MEDIUM_BYTES.load(Ordering::Relaxed)
}

/// Returns the rank that endpoints are opened for.
pub(crate) fn context() -> Result<Arc<RankContext>> {
    check_process()?;
    let context = CONTEXT.read().unwrap_or_else(PoisonError::into_inner);
    context.as_ref().cloned().ok_or_else(not_init)
}

/// Sets the rank that endpoints are opened for.
pub(crate) fn set_context(context: Option<Arc<RankContext>>) {
    let medium = context.as_ref().map_or(0, |context| context.node().geometry().max_medium());
    *CONTEXT.write().unwrap_or_else(PoisonError::into_inner) = context;
    MEDIUM_BYTES.store(medium, Ordering::Relaxed);
}

/// The error of calls outside of a job.
#[cold]
pub(crate) fn not_init() -> AmFailure {
    AmFailure::new(Code::NotInit, "AM_Init has not been called, or AM_Terminate has")
}

/// Fails in a child by `fork`, where the holder of a lock may not exist any more.
pub(crate) fn check_process() -> Result<()> {
    if clump_os::forked::is_child() {
        return Err(clump_am::Error::from(clump_am::ErrorKind::Forked).into());
    }
    Ok(())
}

/// The error for an invalid handle: because nothing is started, or because the program is wrong.
#[cold]
pub(crate) fn refuse(what: &str) -> AmFailure {
    if let Err(forked) = check_process() {
        return forked;
    }
    if max_medium() == 0 {
        return not_init();
    }
    bad(format!("the program gave something as {what} that is none, or was freed before"))
}
