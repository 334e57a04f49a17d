//! Shared virtual memory: the heap, its allocations, barrier and time.

use crate::abi;
use clump::svm::{Home, Svm, SvmOptions};
use clump_ffi::border::{guard, guard_pointer, to_int};
use clump_ffi::fault::{Fault, Result, null, range};
use clump_ffi::job::{JobHandle, clump_t, current, join, not_running, outside_handlers, with};
use clump_ffi::status::clump_status as S;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

/// Homes of an allocation's pages: these, or `SVM_HOME_NODE(n)`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum svm_home {
    /// Consecutive pages share a home, as many for each node.
    SVM_HOME_BLOCK = 0,
    /// Page by page, each node in turn.
    SVM_HOME_CYCLIC = 1,
    /// The node that first writes a page.
    SVM_HOME_FIRST_WRITE = 2,
}

/// First number that stands for a node: `SVM_HOME_NODE(0)`.
const FIRST_NODE: c_int = 16;

/// Bytes of the heap that ::svm_init opens, and of its part for ::svm_alloc.
pub(crate) const HEAP: SvmOptions =
    SvmOptions { heap_bytes: 128 << 30, move_after: 0, dynamic_bytes: 96 << 30, globals: None };

/// Time of this rank since it opened the heap, in ns, by what it waited for.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct svm_breakdown {
    /// All time, of all threads that use the heap.
    pub elapsed_ns: u64,
    /// The rank's own computation.
    pub compute_ns: u64,
    /// Page faults.
    pub data_ns: u64,
    /// Acquires of locks, and waits for flags.
    pub lock_ns: u64,
    /// Releases, and flags that were set.
    pub release_ns: u64,
    /// Barriers.
    pub barrier_ns: u64,
    /// Changes of rights by the kernel; within the times above.
    pub protection_ns: u64,
    /// Number of page faults.
    pub faults: u64,
}

/// Runs `run` with the heap of this process.
pub(crate) fn heap<R>(what: &str, run: impl FnOnce(&Svm) -> Result<R>) -> Result<R> {
    if let Some(fault) = not_running() {
        return Err(fault);
    }
    outside_handlers(current(), what, |job| run(opened(job)?))
}

fn opened(job: &JobHandle) -> Result<&Svm> {
    let missing = || {
        Fault::new(
            S::CLUMP_ERR_NOT_RUNNING,
            "svm_init or svm_open has not been called in this rank",
        )
    };
    job.svm.get().ok_or_else(missing)
}

fn open(job: &JobHandle, bytes: u64) -> Result<()> {
    let options = match bytes {
        0 => HEAP,
        _ => SvmOptions { heap_bytes: bytes, dynamic_bytes: bytes / 4 * 3, ..HEAP },
    };
    open_with(job, &options)
}

pub(crate) fn open_with(job: &JobHandle, options: &SvmOptions) -> Result<()> {
    let svm = job.runtime.svm_with(options)?;
    let fresh = job.svm.set(svm);
    debug_assert!(fresh.is_ok(), "a heap is opened once");
    Ok(())
}

pub(crate) fn begin(abi: c_int, threads: c_int) -> Result<*mut clump_t> {
    if abi != abi::CLUMP_ABI {
        let what = "this program was compiled with headers of another version; compile it again";
        return Err(Fault::new(S::CLUMP_ERR_VERSION, what));
    }
    if threads < 1 {
        return Err(range("threads of a rank", threads, "1 or more"));
    }
    let cl = join()?;
    with(cl, |job| open(job, 0))?;
    Ok(cl)
}

pub(crate) fn home_of(home: c_int) -> Result<Home> {
    match home {
        0 => Ok(Home::Block),
        1 => Ok(Home::Cyclic),
        2 => Ok(Home::FirstWrite),
        node if node >= FIRST_NODE => Ok(Home::Node((node - FIRST_NODE) as usize)),
        other => Err(range("a home", other, "one of svm_home, or SVM_HOME_NODE(n)")),
    }
}

/// Joins the job as ::clump_init_abi does, and opens a shared heap of 128 GiB of address space, at
/// the same address in all ranks. So many `threads` of a rank use it, at least 1; each may call
/// what is no collective. `argc` and `argv` may be null.
///
/// Returns null on failure: as ::clump_init_abi and ::svm_open; ::CLUMP_ERR_ARGUMENT (`threads`).
/// Programs call it as `svm_init(&argc, &argv, 1)`, and ::clump_finalize at the end.
#[unsafe(no_mangle)]
pub extern "C" fn svm_init_abi(
    abi: c_int,
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    threads: c_int,
) -> *mut clump_t {
    let _ = (argc, argv);
    guard_pointer(|| begin(abi, threads))
}

/// Opens the shared heap of a job that was joined by ::clump_init_abi: so many bytes of address
/// space, or 128 GiB if that is 0. Collective: all ranks pass the same.
///
/// Errors: ::CLUMP_ERR_ALREADY, ::CLUMP_ERR_LIMIT (no address space), ::CLUMP_ERR_SYSTEM,
/// ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn svm_open(cl: *mut clump_t, bytes: u64) -> c_int {
    guard(|| opening(cl, "svm_open", |job| open(job, bytes)))
}

/// Opens the heap of a job that has none yet.
fn opening(
    cl: *mut clump_t,
    what: &str,
    open: impl FnOnce(&JobHandle) -> Result<()>,
) -> Result<c_int> {
    outside_handlers(cl, what, |job| {
        if job.svm.get().is_some() {
            return Err(Fault::new(S::CLUMP_ERR_ALREADY, "the heap is open in this rank"));
        }
        open(job).map(|()| 0)
    })
}

/// Options of a heap.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct svm_options {
    /// Bytes of address space; 0: 128 GiB.
    pub bytes: u64,
    /// Bytes of it for ::svm_alloc, that is for allocation by single ranks; 0: three quarters.
    pub dynamic_bytes: u64,
    /// Periods between barriers after which a page moves to the node that was its only writer; 0:
    /// pages stay.
    pub move_after: u8,
}

/// Opens the shared heap as ::svm_open does, with options. Collective: all ranks pass the same.
///
/// Errors: as ::svm_open; ::CLUMP_ERR_ARGUMENT (null, a part larger than the heap).
///
/// # Safety
/// `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_open_with(cl: *mut clump_t, options: *const svm_options) -> c_int {
    guard(|| {
        let options = NonNull::new(options.cast_mut()).ok_or_else(|| null("options"))?;
        // SAFETY: the caller's options.
        let given = unsafe { options.read() };
        let heap_bytes = if given.bytes == 0 { HEAP.heap_bytes } else { given.bytes };
        let dynamic_bytes = match given.dynamic_bytes {
            0 => heap_bytes / 4 * 3,
            some if some <= heap_bytes => some,
            some => {
                let least = format!("at most the {heap_bytes} bytes of the heap");
                return Err(range("bytes for allocation by single ranks", some, &least));
            }
        };
        let move_after = given.move_after;
        let options = SvmOptions { heap_bytes, dynamic_bytes, move_after, globals: None };
        opening(cl, "svm_open_with", |job| open_with(job, &options))
    })
}

/// Returns the job of this process; null before it has joined one, and after it has left.
#[unsafe(no_mangle)]
pub extern "C" fn svm_current() -> *mut clump_t {
    current()
}

/// Returns the number of this process among those that share the heap, from 0: its rank. Negative
/// on failure.
#[unsafe(no_mangle)]
pub extern "C" fn svm_proc_id(cl: *const clump_t) -> c_int {
    guard(|| with(cl, |job| Ok(to_int(job.runtime.rank()))))
}

/// Returns the number of processes that share the heap. Negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn svm_nprocs(cl: *const clump_t) -> c_int {
    guard(|| with(cl, |job| Ok(to_int(job.runtime.nranks()))))
}

/// Allocates zeroed memory in whole pages, with homes by ::svm_home. Collective: all ranks pass the
/// same, and get the same address. It is never given back.
///
/// Returns null on failure: ::CLUMP_ERR_LIMIT (the heap is full), ::CLUMP_ERR_ARGUMENT (no such
/// home or node, different arguments), ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn svm_alloc_all(cl: *mut clump_t, bytes: usize, home: c_int) -> *mut c_void {
    guard_pointer(|| {
        outside_handlers(cl, "svm_alloc_all", |job| {
            let svm = opened(job)?;
            Ok(svm.alloc(bytes as u64, home_of(home)?).map_err(clump::Error::from)?.as_ptr().cast())
        })
    })
}

/// Allocates zeroed memory on node 0, as ::svm_alloc_all does: for the structure that all ranks
/// find everything else by.
#[unsafe(no_mangle)]
pub extern "C" fn svm_alloc_once(cl: *mut clump_t, bytes: usize) -> *mut c_void {
    svm_alloc_all(cl, bytes, FIRST_NODE)
}

/// Allocates zeroed memory for this rank alone, which hands its address to others through memory.
/// More than 1 KiB take whole pages, with homes by ::svm_home; less is homed on this node.
///
/// Returns null on failure: as ::svm_alloc_all.
#[unsafe(no_mangle)]
pub extern "C" fn svm_alloc(cl: *mut clump_t, bytes: usize, home: c_int) -> *mut c_void {
    guard_pointer(|| {
        outside_handlers(cl, "svm_alloc", |job| {
            let svm = opened(job)?;
            let place = svm.alloc_alone(bytes as u64, home_of(home)?);
            Ok(place.map_err(clump::Error::from)?.as_ptr().cast())
        })
    })
}

/// Gives memory back that ::svm_alloc returned in any rank. Null does nothing.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (it is no such memory), ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn svm_free(cl: *mut clump_t, memory: *mut c_void) -> c_int {
    guard(|| {
        let Some(memory) = NonNull::new(memory.cast::<u8>()) else { return Ok(0) };
        outside_handlers(cl, "svm_free", |job| {
            opened(job)?.free(memory).map_err(clump::Error::from)?;
            Ok(0)
        })
    })
}

/// Returns once all ranks have called it; each then sees what the others had written.
///
/// Errors: ::CLUMP_ERR_RANK_DIED, ::CLUMP_ERR_SYSTEM (no memory for a page).
#[unsafe(no_mangle)]
pub extern "C" fn svm_barrier(cl: *mut clump_t) -> c_int {
    guard(|| {
        outside_handlers(cl, "svm_barrier", |job| {
            opened(job)?.barrier().map_err(clump::Error::from)?;
            Ok(0)
        })
    })
}

/// Publishes what this rank has written, for ranks that learn of it by messages.
///
/// Errors: as ::svm_barrier.
#[unsafe(no_mangle)]
pub extern "C" fn svm_fence(cl: *mut clump_t) -> c_int {
    guard(|| {
        outside_handlers(cl, "svm_fence", |job| {
            opened(job)?.fence().map_err(clump::Error::from)?;
            Ok(0)
        })
    })
}

/// Makes memory of the heap ready for a system call that reads it, or, if `stores` is not 0, writes
/// it: such a call fails with EFAULT on pages that are not here. It stays ready until the next call
/// of this interface. Other memory is left alone.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (null; memory of the heap that was not allocated: nothing is
/// fetched).
///
/// # Safety
/// The caller may read the memory, and write it if `stores` is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_touch(memory: *const c_void, bytes: usize, stores: c_int) -> c_int {
    guard(|| {
        let place = NonNull::new(memory.cast_mut().cast::<u8>()).ok_or_else(|| null("memory"))?;
        heap("svm_touch", |svm| {
            svm.touch(place, bytes, stores != 0).map_err(clump::Error::from)?;
            Ok(0)
        })
    })
}

/// Writes to `out` where this rank's time went.
///
/// # Safety
/// `out` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_times(cl: *const clump_t, out: *mut svm_breakdown) -> c_int {
    guard(|| {
        let place = NonNull::new(out).ok_or_else(|| null("the place of the times"))?;
        with(cl, |job| {
            let times = opened(job)?.breakdown();
            let found = svm_breakdown {
                elapsed_ns: times.threads_ns,
                compute_ns: times.compute_ns(),
                data_ns: times.data.ns,
                lock_ns: times.lock.ns,
                release_ns: times.release.ns,
                barrier_ns: times.barrier.ns,
                protection_ns: times.protection.ns,
                faults: times.data.count,
            };
            // SAFETY: the caller gave a place to write to.
            unsafe { place.write(found) };
            Ok(0)
        })
    })
}
