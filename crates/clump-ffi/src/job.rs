//! The job behind a binding: joining it, using it, leaving it.

use crate::above::ABOVE;
pub use crate::above::{Above, register};
use crate::fault::{Fault, Result, range};
use crate::job_state::STATE;
pub use crate::job_state::{forked, not_running};
use crate::owned;
use crate::slot::{self, Object, Slot};
use crate::status::clump_status as S;
use crate::thread;
use clump_am::AsContext;
use clump_os::sync::{AtomicPtr, Ordering};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Mutex, OnceLock};

/// The job that this process is a rank of. One per process.
#[derive(Debug)]
pub struct clump_t(());

/// The object behind a ::clump_t.
#[derive(Debug)]
pub struct JobHandle {
    /// The shared heap, once it is open.
    pub svm: OnceLock<clump::svm::Svm>,
    /// The runtime object of this rank.
    pub runtime: clump::Clump,
    /// Regions that are executed and measured, by their names.
    pub sampled: Mutex<HashMap<String, clump::SampledRegion>>,
}

impl Object for JobHandle {
    const KIND: u32 = 1;
    const NAME: &'static str = "job (clump_t)";
    const BOUND: bool = false;
    const LISTED: bool = false;
}

/// The job of this process, as C knows it; null before and after.
static CURRENT: AtomicPtr<clump_t> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the job of this process; null if there is none.
pub fn current() -> *mut clump_t {
    CURRENT.load(Ordering::Relaxed)
}

/// Returns the runtime of that job, for Rust code in a C program. It keeps the rank in its job
/// while it lives.
pub fn runtime() -> Option<clump::Clump> {
    with(current(), |job| Ok(job.runtime.clone())).ok()
}

/// Runs in each child that `fork` makes of a rank, before `fork` returns there. Takes no lock and
/// allocates nothing.
unsafe extern "C" fn abandon() {
    slot::abandon_all();
    if let Some(above) = ABOVE.get() {
        (above.abandon)();
    }
}

/// Runs `run` with the job.
///
/// # Errors
/// `cl` is no job; errors of `run`.
pub fn with<R>(cl: *const clump_t, run: impl FnOnce(&JobHandle) -> Result<R>) -> Result<R> {
    Slot::enter::<JobHandle, R>(cl.cast(), |job, _| run(job))
}

/// Runs `run` with the job, unless a handler of this thread runs.
///
/// # Errors
/// As for [`with`]; inside a handler.
pub fn outside_handlers<R>(
    cl: *const clump_t,
    what: &str,
    run: impl FnOnce(&JobHandle) -> Result<R>,
) -> Result<R> {
    with(cl, |job| {
        refuse_in_handlers(what)?;
        run(job)
    })
}

/// Checks that no handler of this thread runs; `what` is the call that is refused if one does.
///
/// # Errors
/// Inside a handler.
pub fn refuse_in_handlers(what: &str) -> Result<()> {
    if thread::is_handling() {
        let what =
            format!("{what} was called inside a handler, which may not wait for other ranks");
        return Err(Fault::new(S::CLUMP_ERR_IN_HANDLER, what));
    }
    Ok(())
}

/// Joins the job that this process was started in, and waits until all ranks have joined. A program
/// that is started alone is a job of one rank.
///
/// # Errors
/// This process or another has joined as this rank; settings, versions or the system prevent it.
pub fn join() -> Result<*mut clump_t> {
    let runtime = clump::init()?;
    clump_os::forked::in_children(abandon);
    let slot = Slot::fill(JobHandle { svm: OnceLock::new(), runtime, sampled: Mutex::default() })?;
    STATE.store(1, Ordering::Relaxed);
    CURRENT.store(slot.pointer(), Ordering::Relaxed);
    Ok(slot.pointer())
}

/// Ends this rank's part in the job: closes what this thread has open, and everything that threads
/// share.
///
/// # Errors
/// It is called inside a handler; another thread is inside a call, or has objects of its own open.
/// Nothing has been closed then, or only what could be, and it may be called again. Or an endpoint
/// had a failure that the program never asked for: all is closed then, and the rank has left.
pub fn leave(cl: *mut clump_t) -> Result<()> {
    outside_handlers(cl, "clump_finalize", |_| {
        if slot::bound() > owned::count() {
            let what = "other threads have endpoints or one-sided operations open; each thread \
                        closes its own before it ends, or ends before clump_finalize";
            return Err(Fault::new(S::CLUMP_ERR_BUSY, what));
        }
        Ok(())
    })?;
    if !owned::close_all() || !slot::close_shared() {
        let what = "an object of this job is in use by a call that has not returned";
        return Err(Fault::new(S::CLUMP_ERR_BUSY, what));
    }
    if ABOVE.get().is_some_and(|above| !(above.close)()) {
        let what = "another thread has endpoints of Active Messages II (clump/am2.h) in use";
        return Err(Fault::new(S::CLUMP_ERR_BUSY, what));
    }
    let job = Slot::empty_of::<JobHandle>(cl.cast())?;
    CURRENT.store(std::ptr::null_mut(), Ordering::Relaxed);
    STATE.store(2, Ordering::Relaxed);
    let unreported = job.runtime.context().take_unreported();
    drop(job);
    unreported.map_or(Ok(()), |error| Err(error.into()))
}

/// Checks that the job has this rank.
///
/// # Errors
/// It has not.
pub fn checked_rank(job: &JobHandle, rank: c_int) -> Result<usize> {
    checked_rank_below(job.runtime.nranks(), rank)
}

/// Checks that a rank is one of `nranks`.
///
/// # Errors
/// It is not.
pub fn checked_rank_below(nranks: usize, rank: c_int) -> Result<usize> {
    let known = usize::try_from(rank).ok().filter(|&rank| rank < nranks);
    known.ok_or_else(|| range("a rank", rank, &format!("from 0 to {}", nranks.saturating_sub(1))))
}
