//! Programs whose `main` creates workers: it runs on rank 0, and the other ranks wait for work.
//!
//! A worker begins with a copy of the program's global variables, as a child by `fork` would.

use crate::svm::{begin, heap, home_of};
use crate::svm_sync::fault;
use crate::svm_workers_globals::{GlobalsCopy, ProgramGlobals, name_of};
use crate::threads_heap::end_for;
use clump::svm::{Home, SharedArray, SharedFlags, Svm};
use clump_ffi::border::guard;
use clump_ffi::fault::{Fault, Result, last, range};
use clump_ffi::job::{current, leave};
use clump_ffi::status::clump_status as S;
use clump_os::sync::{AtomicBool, Ordering};
use clump_os::{c_library as c, console};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

/// A function that a worker runs.
pub type svm_worker = extern "C" fn();

/// Words of each rank: its orders, which rank 0 leaves, and behind them what it has stored in its
/// globals.
const WORDS: usize = ORDER + 1 + MAX_STORED;
const ORDER: usize = 3;
/// Variables that a rank reports at most.
const MAX_STORED: usize = 12;
/// Function of an order that ends a worker.
const END: u64 = 0;

/// Objects by which ranks hand work on.
#[derive(Debug)]
struct Workers {
    /// By rank: orders given, and orders carried out.
    given: SharedFlags,
    done: SharedFlags,
    /// By rank: function, copy of globals, where they belong; number of variables stored since,
    /// and their addresses.
    words: SharedArray<u64>,
    /// By rank, at rank 0: the number of its last order.
    last: Vec<u64>,
    /// Rank that gets the next order.
    next: usize,
    globals: ProgramGlobals,
    /// At rank 0: the copy of them that the last worker began with.
    copy: Option<GlobalsCopy>,
    /// At rank 0: variables that were reported.
    reported: Vec<usize>,
}

static WORKERS: Mutex<Option<Workers>> = Mutex::new(None);
/// True if the program means to have globals of its own at each rank.
static OWN_GLOBALS: AtomicBool = AtomicBool::new(false);

fn lock_workers() -> std::sync::MutexGuard<'static, Option<Workers>> {
    WORKERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_workers<R>(what: &str, run: impl FnOnce(&Svm, &mut Workers) -> Result<R>) -> Result<R> {
    heap(what, |svm| {
        let mut workers = lock_workers();
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
            "objects of the C library are among the program's globals: compile it with -fPIC";
        return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
    }
    Ok(())
}

/// Begins a program whose `main` creates workers: joins the job and opens the heap, as
/// ::svm_init_abi does. Returns at rank 0. The other ranks carry out what it creates, and end with
/// the program: there it does not return. Once it has returned, other calls of it do nothing.
///
/// The program's globals are from `first` to `last`; `libc_object` is the address of an object of
/// the C library, which must not be among them. The program is compiled with `-fPIC`, linked with
/// `-no-pie` and with libclump.so. If it ends with code 0 when no worker runs, ::svm_workers_end is
/// called.
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
        if lock_workers().is_some() {
            return Ok(0);
        }
        begin(abi, 1)?;
        let lead = heap("svm_workers_begin", |svm| {
            let ranks = svm.nranks();
            let flags = || svm.flags(ranks).map_err(fault);
            let words = svm.array(ranks * WORDS, Home::Node(0)).map_err(fault)?;
            let workers = Workers {
                given: flags()?,
                done: flags()?,
                words,
                last: vec![0; ranks],
                next: 1,
                globals: ProgramGlobals::new(globals.0, globals.1),
                copy: None,
                reported: Vec::new(),
            };
            *lock_workers() = Some(workers);
            Ok(svm.rank() == 0)
        })?;
        if lead {
            // SAFETY: a function that lives as long as this library.
            unsafe { c::on_exit(at_exit, null_mut()) };
            return Ok(0);
        }
        serve()?;
        end()?;
        clump_os::process::exit_at_once(0)
    })
}

/// Declares that the program means each rank to have globals of its own: stores in them are not
/// reported.
#[unsafe(no_mangle)]
pub extern "C" fn svm_workers_own_globals() {
    OWN_GLOBALS.store(true, Ordering::Relaxed);
}

/// Ends the workers when rank 0 ends without having done so.
unsafe extern "C" fn at_exit(status: c_int, _argument: *mut c_void) {
    // Workers that run may wait for this rank: its end is reported then, as that of any other.
    let none_runs = lock_workers().as_ref().is_some_and(|workers| workers.next == 1);
    if status != 0 || clump_os::forked::is_child() || !none_runs {
        return;
    }
    // SAFETY: streams of the C library, which it ends with in any case.
    unsafe { c::fflush(null_mut()) };
    if let Err(why) = end_all() {
        end_for("the end of the workers", &why.whole().to_string_lossy());
    }
}

/// Carries out the orders of rank 0, until the last one.
fn serve() -> Result<()> {
    let mut number = 1;
    while let Some((run, copy)) = next_order(number)? {
        run();
        // SAFETY: streams of the C library; the worker, which has ended, used them last.
        unsafe { c::fflush(null_mut()) };
        with_workers("a worker's end", |svm, workers| {
            let rank = svm.rank();
            let stored = stored(workers, &copy);
            let set = |at, word| workers.words.set(rank * WORDS + ORDER + at, word);
            set(0, stored.len().min(MAX_STORED) as u64);
            for (at, address) in stored.into_iter().take(MAX_STORED).enumerate() {
                set(1 + at, address as u64);
            }
            workers.done.set(rank, number).map_err(fault)
        })?;
        number += 1;
    }
    Ok(())
}

/// Returns the variables that this rank has stored since it took or made a copy of them.
fn stored(workers: &Workers, copy: &GlobalsCopy) -> Vec<usize> {
    match OWN_GLOBALS.load(Ordering::Relaxed) {
        true => Vec::new(),
        false => workers.globals.stored(copy),
    }
}

/// Waits for an order, and takes the globals that it comes with.
fn next_order(number: u64) -> Result<Option<(svm_worker, GlobalsCopy)>> {
    with_workers("a worker's wait", |svm, workers| {
        let rank = svm.rank();
        workers.given.wait(rank, number).map_err(fault)?;
        let word = |at: usize| workers.words.get(rank * WORDS + at);
        let (function, copy, place) = (word(0), word(1) as usize, word(2) as usize);
        if function == END {
            return Ok(None);
        }
        if place != workers.globals.start() {
            let what =
                "globals are at other addresses than at rank 0: link the program with -no-pie";
            return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
        }
        let copy = GlobalsCopy::at(copy);
        workers.globals.take(&copy)?;
        let function = std::ptr::with_exposed_provenance::<()>(function as usize);
        // SAFETY: the address of a function of this program at rank 0, which is the same here: the
        // program has fixed addresses, as its globals show.
        let function = unsafe { std::mem::transmute::<*const (), svm_worker>(function) };
        Ok(Some((function, copy)))
    })
}

/// Leaves an order for a rank.
fn order(svm: &Svm, workers: &mut Workers, rank: usize, function: u64) -> Result<()> {
    let mut address = 0;
    if function != END {
        let copy = workers.globals.copy(svm, workers.copy.take())?;
        address = copy.address();
        workers.copy = Some(copy);
    }
    let words = [function, address as u64, workers.globals.start() as u64];
    for (at, word) in words.into_iter().enumerate() {
        workers.words.set(rank * WORDS + at, word);
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
/// Variables of the program that a rank has stored in meanwhile are named in one line of the error
/// stream, since no other rank sees that, unless ::svm_workers_own_globals was called.
///
/// Errors: ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn svm_workers_wait() -> c_int {
    guard(|| with_workers("svm_workers_wait", |svm, workers| wait(svm, workers).map(|()| 0)))
}

fn wait(svm: &Svm, workers: &mut Workers) -> Result<()> {
    let mut by_variable: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for rank in 1..workers.next {
        workers.done.wait(rank, workers.last[rank]).map_err(fault)?;
        let word = |at: usize| workers.words.get(rank * WORDS + ORDER + at) as usize;
        for at in 0..word(0).min(MAX_STORED) {
            by_variable.entry(word(1 + at)).or_default().push(rank);
        }
    }
    workers.next = 1;
    let Some(copy) = workers.copy.take() else { return Ok(()) };
    for address in stored(workers, &copy).into_iter().take(MAX_STORED) {
        by_variable.entry(address).or_default().insert(0, 0);
    }
    by_variable.retain(|address, _| !workers.reported.contains(address));
    report(&by_variable);
    workers.reported.extend(by_variable.keys());
    copy.free(svm)
}

/// Names variables that ranks have stored in, each for itself.
fn report(by_variable: &BTreeMap<usize, Vec<usize>>) {
    let names = by_variable.iter().take(MAX_STORED).map(|(&address, ranks)| {
        let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let several = if ranks.len() == 1 { "" } else { "s" };
        format!("{} (rank{several} {})", name_of(address), ranks.join(", "))
    });
    let names: Vec<String> = names.collect();
    if !names.is_empty() {
        console::err(&format!(
            "clump: stored in globals while workers ran: {}. No other rank sees that: each has its \
             own. A program whose workers share globals is built by `clump-cc --clump-threads \
             -DCLUMP_PARMACS_THREADS`; one that means this, with -DCLUMP_PARMACS_OWN_GLOBALS",
            names.join(", ")
        ));
    }
}

/// Names in a line of the error stream, if the last failure of this thread was the death of a rank,
/// what a worker may have died of: variables that point to memory of rank 0 alone. Rank 0 calls it.
#[unsafe(no_mangle)]
pub extern "C" fn svm_workers_explain() {
    let died = last(|fault| fault.is_some_and(|fault| fault.status() == S::CLUMP_ERR_RANK_DIED));
    guard(|| {
        with_workers("svm_workers_explain", |svm, workers| {
            if !died || svm.rank() != 0 {
                return Ok(0);
            }
            let (first, behind) = svm.addresses();
            let found = workers.globals.private_pointers(&(first..behind));
            let names: Vec<String> = found.into_iter().take(MAX_STORED).map(name_of).collect();
            if !names.is_empty() {
                console::err(&format!(
                    "clump: a worker may have died of this: globals that point to memory of rank 0 \
                     alone, as malloc and fopen give it: {}. Memory of G_MALLOC is shared; a program \
                     whose workers share all is built by `clump-cc --clump-threads \
                     -DCLUMP_PARMACS_THREADS`",
                    names.join(", ")
                ));
            }
            Ok(0)
        })
    });
}

/// Ends the other ranks, and this rank's part in the job. Rank 0 calls it, when no worker runs.
///
/// Errors: as ::clump_finalize.
#[unsafe(no_mangle)]
pub extern "C" fn svm_workers_end() -> c_int {
    guard(|| end_all().map(|()| 0))
}

fn end_all() -> Result<()> {
    with_workers("svm_workers_end", |svm, workers| {
        wait(svm, workers)?;
        (1..svm.nranks()).try_for_each(|rank| order(svm, workers, rank, END))
    })?;
    end()
}

fn end() -> Result<()> {
    heap("the end", |svm| svm.barrier().map_err(fault))?;
    *lock_workers() = None;
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
/// `lock` and `cond` are such objects, `words` two words of shared memory without other users.
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
