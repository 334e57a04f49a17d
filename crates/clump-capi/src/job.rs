//! The job, as a program sees it: joining, finalizing, ranks and nodes.

use crate::abi;
use crate::team_bytes::prepared;
use clump_ffi::border::{guard, guard_pointer, to_int};
use clump_ffi::fault::{Fault, null};
use clump_ffi::job::{checked_rank, clump_t, join, leave, outside_handlers, with};
use clump_ffi::status::clump_status as S;
use std::ffi::{c_char, c_int};

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
        join()
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
/// what could be, and it may be called again. Any thread, outside of handlers. Any other error is
/// one of an endpoint that no poll of the program has reported: of a returned message that no
/// handler took, for example (::CLUMP_ERR_RETURNED). The rank has left then.
///
/// A rank whose process ends without calling it counts as dead, whatever its exit code.
#[unsafe(no_mangle)]
pub extern "C" fn clump_finalize(cl: *mut clump_t) -> c_int {
    guard(|| leave(cl).map(|()| 0))
}

/// Ends this process at once with `code` (1 if that is 0), and with it the job: the other ranks are
/// notified which rank aborted, and `clump run` exits with that code. Buffered output of the
/// process is lost, and functions registered by `atexit` do not run. `why` (or null) is printed on
/// the error stream. Any thread, also inside handlers; does not return.
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
            clump_os::console::err(&format!("{who} aborts: {why}"));
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
    guard(|| with(cl, |job| Ok(to_int(job.runtime.nnodes()))))
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
            job.runtime.team().barrier()?;
            Ok(0)
        })
    })
}

/// Lets the network seem slower than it is from now on, as the variable CLUMP_EMU does from the
/// start: "o=+5us,g=10us,L=+20us,G=+1ns/B,scope=net"; an empty text ends that. A collective: all
/// ranks give the same text. Messages on their way keep what they were sent with.
///
/// Errors: ::CLUMP_ERR_SETTING (the text names no knobs), ::CLUMP_ERR_ARGUMENT (null), and as
/// ::clump_barrier.
///
/// # Safety
/// `knobs` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_emulate(cl: *mut clump_t, knobs: *const c_char) -> c_int {
    guard(|| {
        if knobs.is_null() {
            return Err(null("knobs"));
        }
        // SAFETY: the caller gave a string.
        let text = unsafe { std::ffi::CStr::from_ptr(knobs) }.to_string_lossy();
        outside_handlers(cl, "clump_emulate", |job| {
            job.runtime.emulate(&text)?;
            Ok(0)
        })
    })
}

/// Gathers one word of each rank as ::clump_all_gather does, names of endpoints and segments for
/// example.
///
/// # Safety
/// `all` has space for a word of each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_all_gather_u64(cl: *mut clump_t, mine: u64, all: *mut u64) -> c_int {
    guard(|| {
        outside_handlers(cl, "clump_all_gather_u64", |job| {
            if all.is_null() {
                let wrong = null("the place for what all ranks give");
                return prepared(job.runtime.team(), Err(wrong));
            }
            let words = job.runtime.all_gather(mine)?;
            // SAFETY: the caller has space for a word of each rank.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), all, words.len()) };
            Ok(0)
        })
    })
}
