//! Programs for pthreads on the ranks of a job: `main` runs on rank 0, and the other ranks wait for
//! the threads that it creates.

use crate::svm::{HEAP, heap, open_with};
use crate::svm_sync::fault;
use crate::threads;
use crate::threads_arguments::{MainArguments, place};
use crate::threads_globals::SavedGlobals;
use crate::threads_heap::{SharedRange, end_for};
use crate::threads_keys;
use crate::threads_object;
use crate::threads_output;
use clump::svm::SvmOptions;
use clump_boot::{Config, SvmShare};
use clump_ffi::fault::{Fault, Result};
use clump_ffi::job::{current, join, with};
use clump_ffi::status::clump_status as S;
use clump_os::signal::SignalMask;
use clump_os::sync::{AtomicBool, Ordering};
use clump_os::{c_library as c, process, thread};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Mutex;
use std::thread::JoinHandle;

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

/// True once the program ends.
static ENDING: AtomicBool = AtomicBool::new(false);
/// Thread of rank 0 that has the threads run that are created for it.
static SERVER: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

thread_local! {
    static IS_SERVER: Cell<bool> = const { Cell::new(false) };
}

/// Address of the word with the address of `main` (`link/threads.ld`), and bytes of a page.
const MAIN: usize = 0x200_0000_0000;
const PAGE: usize = 4096;
/// Flag of `msync` that only checks if memory is mapped.
const ASYNC: c_int = 1;

/// Returns the program's `main`; null if it was not linked for several ranks.
fn program() -> *mut c_void {
    let word = with_exposed_provenance_mut::<*mut c_void>(MAIN);
    // SAFETY: changes nothing.
    if unsafe { c::msync(word.cast(), PAGE, ASYNC) } == 0 {
        // SAFETY: memory that is there, which only the linker's script places.
        return unsafe { word.read() };
    }
    // SAFETY: looks for a name in the program.
    unsafe { c::dlsym(c::RTLD_DEFAULT, c"main".as_ptr()) }
}

/// Joins the job, and opens the heap with what the program shares. Returns true at rank 0, and what
/// `main` gets.
///
/// # Safety
/// `own` is what it was called with.
unsafe fn begin(own: MainArguments) -> Result<(bool, MainArguments)> {
    let config = Config::load().map_err(|why| Fault::from(clump::Error::from(why)))?;
    let share = config.svm_share;
    let saved = SavedGlobals::of_this_process(share)?;
    let job = join()?;
    if share >= SvmShare::Globals {
        let (sum, name) = saved.pointers();
        let all = with(job, |job| Ok(job.runtime.all_gather(sum)?))?;
        if all.iter().any(|&other| other != sum) {
            let what = format!(
                "globals of the program point to libraries, `{}` for example, which lie at other \
                 addresses at other ranks: set the pointer in `main`, or permit clump to fix \
                 addresses (personality(2))",
                name.unwrap_or_default()
            );
            return Err(Fault::new(S::CLUMP_ERR_ARGUMENT, what));
        }
    }
    let globals = if share >= SvmShare::Globals { saved.place() } else { None };
    with(job, |job| open_with(job, &SvmOptions { globals, ..HEAP }))?;
    let lead = heap("main", |svm| {
        if svm.rank() == 0 {
            saved.restore();
        }
        threads::open(svm)?;
        threads_object::open(svm)?;
        threads_keys::open(svm)?;
        threads_output::open(svm)?;
        svm.barrier().map_err(fault)?;
        let placed = match share >= SvmShare::Globals {
            // SAFETY: the caller's contract; no thread of the program runs.
            true => unsafe { place(svm, own) }?,
            false => own,
        };
        Ok((svm.rank() == 0, placed))
    })?;
    let private = if share >= SvmShare::Globals { (0, 0) } else { saved.range() };
    heap("main", |svm| {
        SharedRange::set(svm, private, share >= SvmShare::Malloc);
        Ok(())
    })?;
    Ok(lead)
}

/// Stands in for `main`: at rank 0 it runs it, at the others threads that it creates.
///
/// # Safety
/// As for `main`; the program is linked with `lib/clump-threads.ld`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_main(
    argc: c_int,
    argv: *mut *mut c_char,
    envp: *mut *mut c_char,
) -> c_int {
    let main = program();
    if main.is_null() {
        let what = "the program does not show its `main`: link it with `clump-cc --clump-threads`";
        end_for("main", &what);
    }
    // SAFETY: what `main` was called with.
    unsafe { process::fix_addresses(argv) };
    let own = MainArguments { argc, argv, envp };
    // SAFETY: as the C library has called this.
    let begun = unsafe { begin(own) };
    let (lead, placed) =
        begun.unwrap_or_else(|why| end_for("main", &why.whole().to_string_lossy()));
    // SAFETY: a function that lives as long as this library.
    unsafe { c::on_exit(at_exit, null_mut()) };
    if !lead {
        // Handlers of the program run on its own threads. Requests to end are taken here: this
        // process may have no thread of the program.
        SignalMask::all_but_ends().set();
        threads::serve();
        threads_output::become_direct();
        // SAFETY: no stream is in the hands of this thread.
        unsafe { c::fflush(null_mut()) };
        leave_job();
        process::exit_at_once(0);
    }
    let blocked = SignalMask::current();
    let server = thread::spawn("clump-threads", move || {
        IS_SERVER.set(true);
        threads::serve();
        if !ENDING.load(Ordering::Acquire) {
            // Functions that the program has registered for its end run here.
            blocked.set();
            // Another rank has ended the program.
            // SAFETY: ends the process as the C library does.
            unsafe { c::exit(0) }
        }
    });
    match server {
        Ok(server) => *lock_server() = Some(server),
        Err(why) => end_for("main", &why),
    }
    let MainArguments { argc, argv, envp } = placed;
    // SAFETY: the program's function, with what it was started with.
    unsafe { std::mem::transmute::<*mut c_void, Main>(main)(argc, argv, envp) }
}

fn lock_server() -> std::sync::MutexGuard<'static, Option<JoinHandle<()>>> {
    SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Ends the program at the end of a process of it, before the C library does.
unsafe extern "C" fn at_exit(status: c_int, _argument: *mut c_void) {
    if status != 0 {
        threads_output::become_direct();
    }
    if !clump_os::forked::is_child() {
        threads_output::collect();
    }
    // SAFETY: streams of the C library, which it ends with in any case.
    unsafe { c::fflush(null_mut()) };
    if status != 0 || clump_os::forked::is_child() {
        return;
    }
    let lead = heap("exit", |svm| Ok(svm.rank() == 0)).unwrap_or(false);
    if !lead {
        threads::tell_end(false);
        // This rank ends when all are notified.
        loop {
            std::thread::park();
        }
    }
    ENDING.store(true, Ordering::Release);
    threads::tell_end(true);
    if !IS_SERVER.get()
        && let Some(server) = lock_server().take()
    {
        let ended = server.join();
        debug_assert!(ended.is_ok(), "it does not panic");
    }
    leave_job();
    process::exit_at_once(status);
}

/// Ends this rank's part in the job; threads of the program that still wait for something end with
/// the process.
fn leave_job() {
    // A failure here has been reported before: there is no job any more.
    let _ = with(current(), |job| {
        job.runtime.leave_at_exit();
        Ok(())
    });
}
