//! The job, as a program sees it: joining, finalizing, ranks and nodes.

use crate::border::{guard, guard_pointer, to_int};
use crate::fault::{Fault, Result, range};
use crate::slot::{self, Object, Slot};
use crate::status::clump_status as S;
use crate::{abi, thread};
use clump_os::sync::{AtomicPtr, AtomicU32, Ordering};
use std::ffi::{c_char, c_int};

/// The job that this process is a rank of. One per process.
#[derive(Debug)]
pub struct clump_t(());

/// The object behind a ::clump_t.
#[derive(Debug)]
pub(crate) struct JobHandle {
    pub(crate) runtime: clump::Clump,
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
pub(crate) fn current() -> *mut clump_t {
    CURRENT.load(Ordering::Relaxed)
}

/// Returns the runtime of that job, for Rust code in a C program. It keeps the rank in its job
/// while it lives.
pub fn runtime() -> Option<clump::Clump> {
    with(current(), |job| Ok(job.runtime.clone())).ok()
}

/// Progress of this process: 0 before, 1 as a rank, 2 after.
static STATE: AtomicU32 = AtomicU32::new(0);

/// Returns the reason why no function of clump works now, if none does.
pub(crate) fn not_running() -> Option<Fault> {
    if clump_os::forked::is_child() {
        return Some(forked());
    }
    let what = match STATE.load(Ordering::Relaxed) {
        0 => "clump_init has not been called in this process",
        1 => return None,
        _ => "clump_finalize has been called; this process is no rank any more",
    };
    Some(Fault::new(S::CLUMP_ERR_NOT_RUNNING, what))
}

/// The error of a call in a child by `fork`.
#[cold]
pub(crate) fn forked() -> Fault {
    clump_am::Error::from(clump_am::ErrorKind::Forked).into()
}

/// Runs in each child that `fork` makes of a rank, before `fork` returns there. Takes no lock and
/// allocates nothing.
unsafe extern "C" fn abandon() {
    slot::abandon_all();
    crate::am2::abandon_all();
}

/// Runs `run` with the job.
pub(crate) fn with<R>(cl: *const clump_t, run: impl FnOnce(&JobHandle) -> Result<R>) -> Result<R> {
    Slot::enter::<JobHandle, R>(cl.cast(), |job, _| run(job))
}

/// Runs `run` with the job, unless a handler of this thread runs.
pub(crate) fn outside_handlers<R>(
    cl: *const clump_t,
    what: &str,
    run: impl FnOnce(&JobHandle) -> Result<R>,
) -> Result<R> {
    with(cl, |job| {
        if thread::is_handling() {
            let what =
                format!("{what} was called inside a handler, which may not wait for other ranks");
            return Err(Fault::new(S::CLUMP_ERR_IN_HANDLER, what));
        }
        run(job)
    })
}

/// Joins the job that this process was started in by `clump run`, and waits until all ranks have
/// joined. A program that is started alone is a job of one rank. `argc` and `argv` may be null;
/// they are not changed today.
///
/// Returns null on failure: ::CLUMP_ERR_ALREADY (called before in this process, or by another
/// process of this rank), ::CLUMP_ERR_SETTING, ::CLUMP_ERR_VERSION (of headers, library, launcher),
/// ::CLUMP_ERR_SYSTEM, ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_FORKED. Any thread, once.
///
/// Programs call it as `clump_init(&argc, &argv)`, a macro that passes on the version of their
/// headers.
#[unsafe(no_mangle)]
pub extern "C" fn clump_init_abi(
    abi: c_int,
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
) -> *mut clump_t {
    let _ = (argc, argv);
    guard_pointer(|| {
        if abi != abi::CLUMP_ABI {
            let what = format!(
                "this program was compiled with headers of binary interface {abi}, but the library has {}; \
                 compile it again",
                abi::CLUMP_ABI
            );
            return Err(Fault::new(S::CLUMP_ERR_VERSION, what));
        }
        let runtime = clump::init()?;
        clump_os::forked::in_children(abandon);
        let slot = Slot::fill(JobHandle { runtime })?;
        STATE.store(1, Ordering::Relaxed);
        CURRENT.store(slot.pointer(), Ordering::Relaxed);
        Ok(slot.pointer())
    })
}

/// Ends this rank's part in the job; the process may go on with something else. Closes what this
/// thread has open, and all endpoints that threads share. It is no barrier: a rank that others
/// still need calls ::clump_barrier before. Only ::clump_version, ::clump_abi, ::clump_strerror,
/// ::clump_error_text and the like, and ::clump_wall_ns work afterwards; all other functions fail
/// with ::CLUMP_ERR_NOT_RUNNING.
///
/// Errors: ::CLUMP_ERR_BUSY (another thread is inside a call, or has objects of its own open),
/// ::CLUMP_ERR_IN_HANDLER, ::CLUMP_ERR_NOT_RUNNING. After an error nothing has been closed, or only
/// what could be, and it may be called again. Any thread, outside of handlers.
///
/// A rank whose process ends without calling it counts as dead, whatever its exit code.
#[unsafe(no_mangle)]
pub extern "C" fn clump_finalize(cl: *mut clump_t) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_finalize", |_| {
            if slot::bound() > thread::owned() {
                let what = "other threads have endpoints or one-sided operations open; each thread \
                            closes its own before it ends, or ends before clump_finalize";
                return Err(Fault::new(S::CLUMP_ERR_BUSY, what));
            }
            Ok(())
        })?;
        if !thread::close_all() || !slot::close_shared() {
            let what = "an object of this job is in use by a call that has not returned";
            return Err(Fault::new(S::CLUMP_ERR_BUSY, what));
        }
        if !crate::am2::close_all() {
            let what = "another thread has endpoints of Active Messages II (clump/am2.h) in use";
            return Err(Fault::new(S::CLUMP_ERR_BUSY, what));
        }
        let job = Slot::empty_of::<JobHandle>(cl.cast())?;
        CURRENT.store(std::ptr::null_mut(), Ordering::Relaxed);
        STATE.store(2, Ordering::Relaxed);
        drop(job);
        Ok(0)
    })
}

/// Ends this process at once with `code` (1 if that is 0), and with it the job: the others are told
/// which rank aborted, and `clump run` exits with that code. Buffered output of the process is
/// lost, and functions registered by `atexit` do not run. `why` (or null) is printed on the error
/// stream. Any thread, also inside handlers; does not return.
///
/// # Safety
/// `why` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_abort(cl: *mut clump_t, code: c_int, why: *const c_char) -> ! {
    let _ = guard(|| {
        let rank = with(cl, |job| Ok(job.runtime.rank())).ok();
        let who = rank.map_or_else(|| "clump".to_owned(), |rank| format!("clump: rank {rank}"));
        if !why.is_null() {
            // SAFETY: the caller gave a string.
            let why = unsafe { std::ffi::CStr::from_ptr(why) }.to_string_lossy();
            eprintln!("{who} aborts: {why}");
        }
        Ok(0)
    });
    clump_os::process::exit_at_once(if code & 0xff == 0 { 1 } else { code })
}

/// Returns the number of this rank, from 0. Any thread. Negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_rank(cl: *const clump_t) -> c_int {
    guard(|| with(cl, |job| Ok(to_int(job.runtime.rank()))))
}

/// Returns the number of ranks of the job. Any thread. Negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_nranks(cl: *const clump_t) -> c_int {
    guard(|| with(cl, |job| Ok(to_int(job.runtime.nranks()))))
}

/// Returns the number of this rank's node, from 0. Any thread. Negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_node(cl: *const clump_t) -> c_int {
    guard(|| with(cl, |job| Ok(to_int(job.runtime.node().node() as usize))))
}

/// Returns the number of nodes of the job. Any thread. Negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn clump_nnodes(cl: *const clump_t) -> c_int {
    guard(|| with(cl, |job| Ok(to_int(job.runtime.node().nnodes() as usize))))
}

/// Returns the node of `rank`. Any thread. Errors: ::CLUMP_ERR_ARGUMENT if the job has no such
/// rank.
#[unsafe(no_mangle)]
pub extern "C" fn clump_node_of(cl: *const clump_t, rank: c_int) -> c_int {
    guard(|| {
        with(cl, |job| {
            let rank = checked_rank(job, rank)?;
            Ok(to_int(job.runtime.node().node_of(rank as u32) as usize))
        })
    })
}

/// Checks that the job has this rank.
pub(crate) fn checked_rank(job: &JobHandle, rank: c_int) -> Result<usize> {
    let nranks = job.runtime.nranks();
    let known = usize::try_from(rank).ok().filter(|&rank| rank < nranks);
    known.ok_or_else(|| range("a rank", rank, &format!("from 0 to {}", nranks.saturating_sub(1))))
}

/// Returns the wall clock: nanoseconds since some moment in the past, equal for all processes of a
/// machine. It is monotonic and cannot be set. Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn clump_wall_ns() -> u64 {
    clump_os::clock::now_ns()
}

/// Returns once all ranks have called it; polls meanwhile. All ranks make the same collective calls
/// in the same order.
///
/// Errors: ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_RANK_LEFT, ::CLUMP_ERR_IN_HANDLER; errors of handlers
/// that run meanwhile. Any thread, one collective at a time; endpoints of the calling thread are
/// polled.
#[unsafe(no_mangle)]
pub extern "C" fn clump_barrier(cl: *mut clump_t) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_barrier", |job| {
            job.runtime.barrier()?;
            Ok(0)
        })
    })
}
