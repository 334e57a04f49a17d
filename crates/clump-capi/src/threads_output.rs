//! Standard output of a program whose threads run on several ranks: one stream, in the order in
//! which locks, joins and the like put its lines.
//!
//! Ranks other than the first have a stream in place of theirs, whose text is appended to a list in
//! shared memory before each release that another thread may wait for. Rank 0 prints the list after
//! each wait, so that its own lines come behind those that precede them; a thread of its own prints
//! what arrives meanwhile.

use crate::svm::heap;
use crate::svm_sync::fault;
use crate::threads_heap::end_for;
use crate::threads_kernel::KernelCall;
use clump::svm::{Home, SharedArray, SharedFlags, SharedLocks, Svm};
use clump_ffi::fault::Result;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use clump_os::{c_library as c, thread};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Arc, OnceLock};

/// Words of the list: its first text, its last one, and how many there have been. A text begins
/// with the address of the next one and with its length.
const FIRST: usize = 0;
const LAST: usize = 1;
const COUNT: usize = 2;
const HEAD: usize = 2 * size_of::<u64>();
/// Descriptor of standard output.
const OUT: c_int = 1;

/// List of texts that ranks have printed.
#[derive(Debug)]
struct OutputList {
    words: SharedArray<u64>,
    lock: SharedLocks,
    /// Raised to the number of texts that there have been.
    posted: SharedFlags,
    /// Number of texts that rank 0 has taken.
    taken: AtomicU64,
    is_first: bool,
}

static LIST: OnceLock<Arc<OutputList>> = OnceLock::new();
/// True once texts go to this rank's own standard output: the process ends.
static DIRECT: AtomicBool = AtomicBool::new(false);

/// Makes the list, and has texts go there. A collective.
pub(crate) fn open(svm: &Svm) -> Result<()> {
    let list = OutputList {
        words: svm.array(3, Home::Node(0)).map_err(fault)?,
        lock: svm.locks(1).map_err(fault)?,
        posted: svm.flags(1).map_err(fault)?,
        taken: AtomicU64::new(0),
        is_first: svm.rank() == 0,
    };
    if svm.nranks() == 1 {
        return Ok(());
    }
    let list = Arc::new(list);
    if list.is_first {
        let own = list.clone();
        let printer = thread::spawn("clump-output", move || own.print_on());
        printer.map_err(|why| fault(why.into()))?;
    } else {
        let functions =
            c::StreamFunctions { read: None, write: Some(write), seek: None, close: None };
        // SAFETY: functions without a cookie; no other thread uses the stream yet.
        unsafe {
            let stream = c::fopencookie(null_mut(), c"w".as_ptr(), functions);
            if !stream.is_null() {
                c::fflush(c::stdout);
                c::stdout = stream;
            }
        }
    }
    let fresh = LIST.set(list);
    debug_assert!(fresh.is_ok(), "it is made once");
    Ok(())
}

/// Makes what this rank has printed known before it releases something.
pub(crate) fn publish() {
    let Some(list) = LIST.get() else { return };
    // SAFETY: the stream that this rank has in place of its own.
    unsafe {
        if !list.is_first && c::__fpending(c::stdout) > 0 {
            c::fflush(c::stdout);
        }
    }
}

/// Prints at rank 0 what others have printed before what it has waited for.
pub(crate) fn collect() {
    if let Some(list) = LIST.get()
        && list.is_first
        && list.words.get(COUNT) > list.taken.load(Ordering::Relaxed)
    {
        list.print();
    }
}

/// Has what this rank prints go to its own standard output from now on.
pub(crate) fn become_direct() {
    DIRECT.store(true, Ordering::Relaxed);
}

/// Takes the text of a stream.
unsafe extern "C" fn write(_cookie: *mut c_void, text: *const c_char, bytes: usize) -> isize {
    let child = clump_os::forked::is_child();
    if let Some(list) = LIST.get().filter(|_| !child && !DIRECT.load(Ordering::Relaxed)) {
        // SAFETY: so many bytes are there.
        let text = unsafe { std::slice::from_raw_parts(text.cast(), bytes) };
        if heap("printing", |svm| list.post(svm, text)).is_ok() {
            return bytes as isize;
        }
    }
    // SAFETY: as above; private memory of the C library.
    unsafe { c::write(OUT, text.cast(), bytes) }
}

impl OutputList {
    /// Adds a text.
    fn post(&self, svm: &Svm, text: &[u8]) -> Result<()> {
        let place = svm.alloc_alone((HEAD + text.len()) as u64, Home::Node(0)).map_err(fault)?;
        let words = place.as_ptr().cast::<u64>();
        // SAFETY: a fresh allocation with room for all this.
        unsafe {
            words.write(0);
            words.add(1).write(text.len() as u64);
            place.as_ptr().add(HEAD).copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        let held = self.lock.lock(0).map_err(fault)?;
        let last = self.words.get(LAST) as usize;
        let address = words.expose_provenance() as u64;
        if last == 0 {
            self.words.set(FIRST, address);
        } else {
            // SAFETY: the text before, which stays until it is taken from the list.
            unsafe { with_exposed_provenance_mut::<u64>(last).write(address) };
        }
        self.words.set(LAST, address);
        let count = self.words.get(COUNT) + 1;
        self.words.set(COUNT, count);
        held.release().map_err(fault)?;
        self.posted.set(0, count).map_err(fault)
    }

    /// Prints the texts at rank 0.
    fn print(&self) {
        static LOCK: KernelCall = KernelCall::new("flockfile", &[]);
        static UNLOCK: KernelCall = KernelCall::new("funlockfile", &[]);
        // SAFETY: the stream, whose lock orders those that print the list.
        let stream = unsafe { c::stdout };
        let words = [stream.expose_provenance(), 0, 0, 0, 0, 0];
        // SAFETY: as above.
        unsafe { LOCK.run(words) };
        let printed = heap("printing", |svm| self.print_locked(svm, stream));
        // SAFETY: as above.
        unsafe { UNLOCK.run(words) };
        if let Err(why) = printed {
            end_for("printing", &why.whole().to_string_lossy());
        }
    }

    fn print_locked(&self, svm: &Svm, stream: *mut c::FILE) -> Result<()> {
        let held = self.lock.lock(0).map_err(fault)?;
        let mut next = self.words.get(FIRST) as usize;
        self.words.set(FIRST, 0);
        self.words.set(LAST, 0);
        self.taken.store(self.words.get(COUNT), Ordering::Relaxed);
        held.release().map_err(fault)?;
        while let Some(place) = std::ptr::NonNull::new(with_exposed_provenance_mut::<u8>(next)) {
            let words = place.as_ptr().cast::<u64>();
            // SAFETY: a text of the list, which this thread has taken; the kernel gets a copy.
            unsafe {
                next = words.read() as usize;
                let bytes = words.add(1).read() as usize;
                let text = std::slice::from_raw_parts(place.as_ptr().add(HEAD), bytes).to_vec();
                c::fwrite(text.as_ptr().cast(), 1, bytes, stream);
            }
            svm.free(place).map_err(fault)?;
        }
        Ok(())
    }

    /// Prints texts as they come, until the process ends.
    fn print_on(&self) {
        loop {
            let seen = self.taken.load(Ordering::Relaxed);
            if heap("printing", |_| self.posted.wait(0, seen + 1).map_err(fault)).is_err() {
                return;
            }
            self.print();
            // SAFETY: a stream of the C library.
            unsafe { c::fflush(c::stdout) };
        }
    }
}

/// Stands in for `fileno`: the stream in place of standard output has none of its own.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fileno(stream: *mut c::FILE) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    unsafe {
        if stream == c::stdout && LIST.get().is_some_and(|list| !list.is_first) {
            return OUT;
        }
        c::fileno(stream)
    }
}

/// Stands in for `fileno_unlocked`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fileno_unlocked(stream: *mut c::FILE) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    unsafe { __wrap_fileno(stream) }
}
