//! Programs whose `main` creates workers: it runs on rank 0, and the other ranks wait for work.
//!
//! A worker begins with a copy of the program's global variables, as a child by `fork` would.

use crate::svm::{begin, heap, home_of};
use crate::svm_sync::fault;
use clump::svm::{Home, SharedArray, SharedFlags, Svm};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result, range};
use clump_ffi::job::{current, leave};
use clump_ffi::status::clump_status as S;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A function that a worker runs.
pub type svm_worker = extern "C" fn();

/// Words that rank 0 leaves for each rank: its orders.
const WORDS: usize = 3;
/// Function of an order that ends a worker.
const END: u64 = 0;

/// Objects by which ranks hand work on.
#[derive(Debug)]
struct Workers {
    /// By rank: orders given, and orders carried out.
    given: SharedFlags,
    done: SharedFlags,
    /// By rank: function, copy of globals, where they belong.
    orders: SharedArray<u64>,
    /// By rank, at rank 0: the number of its last order.
    last: Vec<u64>,
    /// Rank that gets the next order.
    next: usize,
    /// First and last address of the program's globals.
    globals: (usize, usize),
}

static WORKERS: Mutex<Option<Workers>> = Mutex::new(None);

fn with_workers<R>(what: &str, run: impl FnOnce(&Svm, &mut Workers) -> Result<R>) -> Result<R> {
    heap(what, |svm| {
        let mut workers = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = || Fault::new(S::CLUMP_ERR_NOT_RUNNING, "svm_workers_begin comes first");
        run(svm, workers.as_mut().ok_or_else(missing)?)
    })
}

/// Checks that globals can be copied from one rank to another.
fn check_globals((first, last): (usize, usize), libc_object: usize) -> Result<()> {
    let within = |address: usize| (first..last).contains(&address);
    if first > last || within(std::ptr::from_ref(&WORKERS).addr()) {
        let what = "a program that creates workers has to be linked with libclump.so";
        return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
    }
    if within(libc_object) {
        let what =
            "objects of the C library lie among the program's globals: compile it with -fPIC";
        return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
    }
    Ok(())
}

/// Begins a program whose `main` creates workers: joins the job and opens the heap, as
/// ::svm_init_abi does. Returns at rank 0. The other ranks carry out what it creates, and end with
/// the program: there it does not return.
///
/// The program's globals lie from `first` to `last`; `libc_object` is the address of an object of
/// the C library, which must not lie among them. The program is compiled with `-fPIC`, linked with
/// `-no-pie` and with libclump.so.
///
/// Errors: as ::svm_init_abi; ::CLUMP_ERR_ARGUMENT (how the program was compiled or linked).
///
/// # Safety
/// The globals may be overwritten at ranks other than 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_workers_begin(
    abi: c_int,
    first: *mut c_void,
    last: *mut c_void,
    libc_object: *const c_void,
) -> c_int {
    guard(|| {
        let globals = (first.expose_provenance(), last.addr());
        check_globals(globals, libc_object.addr())?;
        begin(abi, 1)?;
        let lead = heap("svm_workers_begin", |svm| {
            let ranks = svm.nranks();
            let flags = || svm.flags(ranks).map_err(fault);
            let orders = svm.array(ranks * WORDS, Home::Node(0)).map_err(fault)?;
            let (last, next) = (vec![0; ranks], 1);
            let workers = Workers { given: flags()?, done: flags()?, orders, last, next, globals };
            *WORKERS.lock().unwrap_or_else(PoisonError::into_inner) = Some(workers);
            Ok(svm.rank() == 0)
        })?;
        if lead {
            return Ok(0);
        }
        let mut number = 1;
        while let Some(run) = next_order(number)? {
            run();
            with_workers("a worker's end", |svm, workers| {
                workers.done.set(svm.rank(), number).map_err(fault)
            })?;
            number += 1;
        }
        end()?;
        clump_os::process::exit_at_once(0)
    })
}

/// Waits for an order, and takes the globals that it comes with.
fn next_order(number: u64) -> Result<Option<svm_worker>> {
    with_workers("a worker's wait", |svm, workers| {
        let rank = svm.rank();
        workers.given.wait(rank, number).map_err(fault)?;
        let word = |at: usize| workers.orders.get(rank * WORDS + at);
        let (function, copy, place) = (word(0), word(1) as usize, word(2) as usize);
        if function == END {
            return Ok(None);
        }
        let (first, last) = workers.globals;
        if place != first {
            let what =
                "globals lie at other addresses than at rank 0: link the program with -no-pie";
            return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
        }
        if last > first {
            let from = std::ptr::with_exposed_provenance::<u8>(copy);
            let to = std::ptr::with_exposed_provenance_mut::<u8>(first);
            // SAFETY: the globals of the program, which it lets be overwritten; their copy is an
            // allocation of rank 0 of the same length, and the program is the same.
            unsafe { from.copy_to_nonoverlapping(to, last - first) };
        }
        if let Some(copy) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(copy)) {
            svm.free(copy).map_err(fault)?;
        }
        let function = std::ptr::with_exposed_provenance::<()>(function as usize);
        // SAFETY: the address of a function of this program at rank 0, where it lies as here: the
        // program has fixed addresses, as its globals show.
        Ok(Some(unsafe { std::mem::transmute::<*const (), svm_worker>(function) }))
    })
}

/// Leaves an order for a rank.
fn order(svm: &Svm, workers: &mut Workers, rank: usize, function: u64) -> Result<()> {
    let (first, last) = workers.globals;
    let mut copy = 0;
    if function != END {
        let bytes = last - first;
        let place = svm.alloc_alone(bytes as u64, Home::Node(0)).map_err(fault)?;
        let from = std::ptr::with_exposed_provenance::<u8>(first);
        // SAFETY: the globals of the program; the copy is a fresh allocation.
        unsafe { from.copy_to_nonoverlapping(place.as_ptr(), bytes) };
        copy = place.as_ptr().expose_provenance() as u64;
    }
    for (at, word) in [function, copy, first as u64].into_iter().enumerate() {
        workers.orders.set(rank * WORDS + at, word);
    }
    workers.last[rank] += 1;
    workers.given.set(rank, workers.last[rank]).map_err(fault)
}

/// Has another rank run `function`, with a copy of the globals as they are now. Rank 0 calls it.
///
/// Errors: ::CLUMP_ERR_LIMIT (all ranks have work: start the program with more), as ::svm_alloc.
#[unsafe(no_mangle)]
pub extern "C" fn svm_worker_create(function: svm_worker) -> c_int {
    guard(|| {
        with_workers("svm_worker_create", |svm, workers| {
            let rank = workers.next;
            if svm.rank() != 0 || rank >= svm.nranks() {
                let what = format!(
                    "rank {} creates worker {rank} of a job of {} ranks: give `clump run -n` one for \
                     each, and one for main",
                    svm.rank(),
                    svm.nranks()
                );
                return Err(Fault::new(S::CLUMP_ERR_LIMIT, what));
            }
            workers.next += 1;
            order(svm, workers, rank, function as usize as u64).map(|()| 0)
        })
    })
}

/// Waits until all functions that ::svm_worker_create has handed on have returned. Rank 0 calls it.
///
/// Errors: ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn svm_workers_wait() -> c_int {
    guard(|| {
        with_workers("svm_workers_wait", |_, workers| {
            for rank in 1..workers.next {
                workers.done.wait(rank, workers.last[rank]).map_err(fault)?;
            }
            workers.next = 1;
            Ok(0)
        })
    })
}

/// Ends the other ranks, and this rank's part in the job. Rank 0 calls it, when no worker runs.
///
/// Errors: as ::clump_finalize.
#[unsafe(no_mangle)]
pub extern "C" fn svm_workers_end() -> c_int {
    guard(|| {
        with_workers("svm_workers_end", |svm, workers| {
            (1..svm.nranks()).try_for_each(|rank| order(svm, workers, rank, END))
        })?;
        end().map(|()| 0)
    })
}

fn end() -> Result<()> {
    heap("the end", |svm| svm.barrier().map_err(fault))?;
    *WORKERS.lock().unwrap_or_else(PoisonError::into_inner) = None;
    leave(current())
}

/// Allocates memory as ::svm_alloc does, for programs that do not carry the job around.
///
/// Returns null on failure.
#[unsafe(no_mangle)]
pub extern "C" fn svm_workers_alloc(bytes: usize, home: c_int) -> *mut c_void {
    clump_ffi::border::guard_pointer(|| {
        if bytes == 0 {
            return Err(range("a size", bytes, "above 0"));
        }
        heap("svm_workers_alloc", |svm| {
            Ok(svm.alloc_alone(bytes as u64, home_of(home)?).map_err(fault)?.as_ptr().cast())
        })
    })
}

/// Gives memory of ::svm_workers_alloc back. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn svm_workers_free(memory: *mut c_void) -> c_int {
    guard(|| {
        let Some(memory) = NonNull::new(memory.cast::<u8>()) else { return Ok(0) };
        heap("svm_workers_free", |svm| svm.free(memory).map(|()| 0).map_err(fault))
    })
}

/// Returns once `count` ranks have called it, each with the same lock, condition and words: a
/// barrier of some ranks. `words` are two zeroes at first, in shared memory.
///
/// Errors: as ::svm_cond_wait.
///
/// # Safety
/// `lock` and `cond` are such objects, `words` two words of shared memory that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn svm_barrier_some(
    lock: *const crate::svm_sync::svm_lock,
    cond: *const crate::svm_sync::svm_cond,
    words: *mut u64,
    count: c_int,
) -> c_int {
    guard(|| {
        if lock.is_null() || cond.is_null() || words.is_null() {
            return Err(clump_ffi::fault::null("svm_barrier_some"));
        }
        let wanted = u64::try_from(count).ok().filter(|&count| count > 0);
        let wanted = wanted.ok_or_else(|| range("ranks of a barrier", count, "above 0"))?;
        heap("svm_barrier_some", |svm| {
            if wanted == svm.nranks() as u64 {
                return svm.barrier().map(|()| 0).map_err(fault);
            }
            // SAFETY: the caller gave objects, which are plain data.
            let (lock, cond) = unsafe { (lock.read(), cond.read()) };
            let lock = clump::svm::SyncObject::from_number(lock.id).map_err(fault)?;
            let cond = svm.condvar_of(cond.words).map_err(fault)?;
            svm.enter(lock).map_err(fault)?;
            // SAFETY: the caller gave two words, which are used under the lock.
            let word = |at: usize| unsafe { words.add(at) };
            // SAFETY: as above.
            let (arrived, round) = unsafe { (word(0).read() + 1, word(1).read()) };
            if arrived == wanted {
                // SAFETY: as above.
                unsafe {
                    word(0).write(0);
                    word(1).write(round + 1);
                }
                cond.notify_all().map_err(fault)?;
            } else {
                // SAFETY: as above.
                unsafe { word(0).write(arrived) };
                // SAFETY: as above.
                while unsafe { word(1).read() } == round {
                    cond.wait_under(lock).map_err(fault)?;
                }
            }
            svm.leave(lock).map_err(fault)?;
            Ok(0)
        })
    })
}
