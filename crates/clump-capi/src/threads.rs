//! Threads of a program for pthreads, spread over the ranks of its job: creation, end, identity.
//!
//! Programs are linked so that these functions stand in for those of the C library
//! (`lib/clump-threads.ld`). Thread `t` runs on rank `t` modulo the number of ranks; 0 is `main`.

use crate::svm_sync::fault;
use crate::threads_heap::{end_for, is_shared, with_heap};
use crate::threads_output;
use clump::svm::{Home, SharedArray, SharedFlags, SharedLocks, Svm};
use clump_ffi::fault::Result;
use clump_os::c_library::{self as c, ThreadFunction};
use clump_os::signal::SignalMask;
use clump_os::{console, thread};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Arc, PoisonError, RwLock};

/// Threads that a program creates from its beginning to its end.
pub(crate) const MAX_THREADS: usize = 1 << 20;
/// Words of a thread: function (0: none), argument, bytes of stack (0: as usual), result; 1 once it
/// has ended, which is set and read under the lock; signals that it blocks.
const WORDS: usize = 6;
const RESULT: usize = 3;
const ENDED: usize = 4;
const BLOCKED: usize = 5;
/// Orders of a rank once the program ends.
const ALL_ORDERS: u64 = 1 << 40;
/// Mark of threads that the program has not created by `pthread_create`.
const FOREIGN: u64 = 1 << 63;

/// Table of the program's threads.
#[derive(Debug)]
pub(crate) struct ThreadTable {
    /// By rank: threads that were created for it.
    given: SharedFlags,
    /// By thread: 1 once it has ended.
    done: SharedFlags,
    words: SharedArray<u64>,
    /// Number of the next thread, under the lock.
    next: SharedArray<u64>,
    locks: SharedLocks,
    rank: usize,
    ranks: usize,
}

impl ThreadTable {
    /// Notes that a thread has ended, and wakes those that wait for it.
    fn end(&self, number: usize, result: u64) -> Result<()> {
        threads_output::publish();
        self.words.set(number * WORDS + RESULT, result);
        let held = self.locks.lock(0).map_err(fault)?;
        self.words.set(number * WORDS + ENDED, 1);
        held.release().map_err(fault)?;
        self.done.set(number, 1).map_err(fault)
    }

    /// Returns true once a thread has ended; `None` if there is no such thread.
    pub(crate) fn has_ended(&self, number: usize) -> Result<Option<bool>> {
        let held = self.locks.lock(0).map_err(fault)?;
        let known = (number as u64) < self.next.get(0);
        let ended = self.words.get(number * WORDS + ENDED) == 1;
        held.release().map_err(fault)?;
        Ok(known.then_some(ended))
    }
}

static TABLE: RwLock<Option<Arc<ThreadTable>>> = RwLock::new(None);

thread_local! {
    /// Number of this thread in the program.
    static NUMBER: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns a number that no other thread has.
pub(crate) fn own_number() -> u64 {
    NUMBER.get().unwrap_or_else(|| thread::pointer() as u64 | FOREIGN)
}

pub(crate) fn table() -> Option<Arc<ThreadTable>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Makes the table. A collective.
pub(crate) fn open(svm: &Svm) -> Result<()> {
    let flags = |count| svm.flags(count).map_err(fault);
    let array = |len| svm.array(len, Home::Node(0)).map_err(fault);
    let table = ThreadTable {
        given: flags(svm.nranks())?,
        done: flags(MAX_THREADS)?,
        words: array(MAX_THREADS * WORDS)?,
        next: array(1)?,
        locks: svm.locks(1).map_err(fault)?,
        rank: svm.rank(),
        ranks: svm.nranks(),
    };
    if table.rank == 0 {
        NUMBER.set(Some(0));
        table.next.set(0, 1);
    }
    *TABLE.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(table));
    Ok(())
}

/// Has the threads run that are created for this rank, until the program ends.
pub(crate) fn serve() {
    let Some(table) = table() else {
        clump_bug::bug!("the table was made before");
        return;
    };
    let first = usize::from(table.rank == 0);
    for order in first.. {
        with_heap("waiting for threads", |_| {
            table.given.wait(table.rank, order as u64 + 1).map_err(fault)
        });
        let number = order * table.ranks + table.rank;
        if number >= MAX_THREADS {
            return;
        }
        let [function, argument, stack] = [0, 1, 2].map(|at| table.words.get(number * WORDS + at));
        if function == 0 {
            return;
        }
        let blocked = SignalMask::from_bits(table.words.get(number * WORDS + BLOCKED));
        let begun = BegunThread { number: number as u64, function, argument, stack, blocked };
        let table = table.clone();
        let started = thread::spawn("clump-thread", move || {
            let result = begun.run();
            with_heap("the end of a thread", |_| table.end(number, result));
        });
        if let Err(why) = started {
            end_for("pthread_create", &why);
        }
    }
}

/// Notifies the ranks that the program ends, or rank 0 alone that it is to end.
pub(crate) fn tell_end(all: bool) {
    let Some(table) = table() else {
        clump_bug::bug!("the table was made before");
        return;
    };
    let last = if all { table.ranks } else { 1 };
    with_heap("the end of the program", |_| {
        (0..last).try_for_each(|rank| table.given.set(rank, ALL_ORDERS).map_err(fault))
    });
}

/// A thread of the program that runs on this rank.
struct BegunThread {
    number: u64,
    function: u64,
    argument: u64,
    stack: u64,
    /// Signal mask of the thread that created it.
    blocked: SignalMask,
}

impl BegunThread {
    /// Runs it as a thread of the C library; returns its result.
    fn run(self) -> u64 {
        // SAFETY: plain memory, which the C library fills.
        let mut attributes: c::pthread_attr_t = unsafe { std::mem::zeroed() };
        let (mut native, mut result) = (0, null_mut());
        let stack = self.stack as usize;
        let argument = Box::into_raw(Box::new(self)).cast();
        // SAFETY: objects of this function; the thread takes the argument over.
        let status = unsafe {
            c::pthread_attr_init(&raw mut attributes);
            if stack > 0 {
                c::pthread_attr_setstacksize(&raw mut attributes, stack);
            }
            let status =
                c::pthread_create(&raw mut native, &raw const attributes, begin_thread, argument);
            c::pthread_attr_destroy(&raw mut attributes);
            if status == 0 { c::pthread_join(native, &raw mut result) } else { status }
        };
        if status != 0 {
            let why = std::io::Error::from_raw_os_error(status);
            let why = thread::refused("a thread of the program", &why);
            end_for("pthread_create", &why);
        }
        result.expose_provenance() as u64
    }
}

/// Begins a thread of the program. Has nothing to drop when it is unwound by `pthread_exit`.
unsafe extern "C-unwind" fn begin_thread(argument: *mut c_void) -> *mut c_void {
    // SAFETY: what `BegunThread::run` has passed.
    let BegunThread { number, function, argument, blocked, .. } =
        *unsafe { Box::from_raw(argument.cast::<BegunThread>()) };
    NUMBER.set(Some(number));
    // Clump's own thread, which has created this one, blocks all.
    blocked.set();
    let function = std::ptr::with_exposed_provenance::<()>(function as usize);
    // SAFETY: a function of the program, which has the same addresses at all ranks.
    let function = unsafe { std::mem::transmute::<*const (), ThreadFunction>(function) };
    // SAFETY: the program upholds the contract of the C function.
    unsafe { function(with_exposed_provenance_mut(argument as usize)) }
}

/// Returns true if an address is on the stack of the calling thread.
fn is_on_stack(address: *const c_void) -> bool {
    // SAFETY: plain memory, which the C library fills.
    let mut attributes: c::pthread_attr_t = unsafe { std::mem::zeroed() };
    let (mut first, mut bytes) = (null_mut(), 0);
    // SAFETY: objects of this function.
    let known = unsafe {
        let known = c::pthread_getattr_np(c::pthread_self(), &raw mut attributes) == 0;
        if known {
            c::pthread_attr_getstack(&raw const attributes, &raw mut first, &raw mut bytes);
            c::pthread_attr_destroy(&raw mut attributes);
        }
        known
    };
    let offset = address.addr().checked_sub(first.addr());
    known && offset.is_some_and(|offset| offset < bytes)
}

/// Stands in for `pthread_create`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_create(
    thread: *mut c::pthread_t,
    attributes: *const c::pthread_attr_t,
    function: ThreadFunction,
    argument: *mut c_void,
) -> c_int {
    let Some(table) = table() else {
        // SAFETY: the program upholds the contract of the C function, before `main` or at its end.
        return unsafe { c::pthread_create(thread, attributes, function, argument) };
    };
    let mut stack = 0;
    if !attributes.is_null() {
        // SAFETY: attributes that the program has initialised.
        unsafe { c::pthread_attr_getstacksize(attributes, &raw mut stack) };
    }
    let on_stack = !is_shared(argument) && is_on_stack(argument);
    threads_output::publish();
    let number = with_heap("pthread_create", |_| {
        // Under the lock: a rank is notified of its threads in the order of their numbers.
        let held = table.locks.lock(0).map_err(fault)?;
        let number = table.next.get(0) as usize;
        if on_stack && number % table.ranks != table.rank {
            let what = "its argument lies on the stack of the calling thread, which threads of \
                        other ranks do not share: let it lie in a global variable or in memory of \
                        malloc";
            end_for("pthread_create", &what);
        }
        if number < MAX_THREADS {
            let words = [function as usize, argument.expose_provenance(), stack];
            for (at, word) in words.into_iter().enumerate() {
                table.words.set(number * WORDS + at, word as u64);
            }
            table.words.set(number * WORDS + BLOCKED, SignalMask::current().to_bits());
            table.next.set(0, number as u64 + 1);
            let (rank, order) = (number % table.ranks, number / table.ranks);
            table.given.set(rank, order as u64 + 1).map_err(fault)?;
        }
        held.release().map_err(fault)?;
        Ok(number)
    });
    if number >= MAX_THREADS {
        let text =
            format!("clump: pthread_create: a program creates at most {MAX_THREADS} threads\n");
        console::err_at_once(&[&text]);
        return c::EAGAIN;
    }
    // SAFETY: a place that the program has given.
    unsafe { thread.write(number as c::pthread_t + 1) };
    0
}

/// Stands in for `pthread_join`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_join(
    thread: c::pthread_t,
    result: *mut *mut c_void,
) -> c_int {
    let Some(table) = table() else { return c::ESRCH };
    let Some(number) = thread.checked_sub(1) else { return c::ESRCH };
    if number == own_number() {
        return c::EDEADLK;
    }
    if number == 0 || number >= MAX_THREADS as u64 {
        return c::ESRCH;
    }
    with_heap("pthread_join", |_| table.done.wait(number as usize, 1).map_err(fault));
    threads_output::collect();
    if !result.is_null() {
        let word = table.words.get(number as usize * WORDS + RESULT);
        // SAFETY: a place that the program has given.
        unsafe { result.write(with_exposed_provenance_mut(word as usize)) };
    }
    0
}

/// Stands in for `pthread_detach`: nothing of a thread that has ended is kept anyway.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_detach(_thread: c::pthread_t) -> c_int {
    0
}

/// Stands in for `pthread_self`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_self() -> c::pthread_t {
    own_number() as c::pthread_t + 1
}

/// Stands in for `pthread_equal`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_equal(one: c::pthread_t, other: c::pthread_t) -> c_int {
    c_int::from(one == other)
}

/// Stands in for `pthread_exit`. In `main` it waits for all other threads, and ends the program.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __wrap_pthread_exit(result: *mut c_void) -> ! {
    if NUMBER.get() == Some(0) {
        await_all();
        // SAFETY: ends the process as the C library does.
        unsafe { c::exit(0) }
    }
    // SAFETY: a thread of the C library, which `BegunThread::run` waits for.
    unsafe { c::pthread_exit(result) }
}

/// Waits until all threads have ended, those included that are created meanwhile.
fn await_all() {
    let Some(table) = table() else {
        clump_bug::bug!("`main` has its number from the table");
        return;
    };
    let mut number = 1;
    loop {
        let created = with_heap("pthread_exit", |_| {
            let held = table.locks.lock(0).map_err(fault)?;
            let created = table.next.get(0) as usize;
            held.release().map_err(fault)?;
            Ok(created)
        });
        if number >= created {
            return;
        }
        while number < created {
            with_heap("pthread_exit", |_| table.done.wait(number, 1).map_err(fault));
            number += 1;
        }
    }
}

/// Runs `run` with the thread of the C library that runs a thread of the program.
pub(crate) fn with_native(thread: c::pthread_t, run: impl FnOnce(c::pthread_t) -> c_int) -> c_int {
    if thread != __wrap_pthread_self() {
        return c::ESRCH;
    }
    // SAFETY: takes nothing.
    run(unsafe { c::pthread_self() })
}

/// Stands in for `pthread_setaffinity_np`, of the calling thread.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_setaffinity_np(
    thread: c::pthread_t,
    bytes: usize,
    set: *const c::cpu_set_t,
) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    with_native(thread, |native| unsafe { c::pthread_setaffinity_np(native, bytes, set) })
}

/// Stands in for `pthread_getaffinity_np`, of the calling thread.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_getaffinity_np(
    thread: c::pthread_t,
    bytes: usize,
    set: *mut c::cpu_set_t,
) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    with_native(thread, |native| unsafe { c::pthread_getaffinity_np(native, bytes, set) })
}

/// Stands in for `pthread_setname_np`, of the calling thread.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_setname_np(
    thread: c::pthread_t,
    name: *const c_char,
) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    with_native(thread, |native| unsafe { c::pthread_setname_np(native, name) })
}
