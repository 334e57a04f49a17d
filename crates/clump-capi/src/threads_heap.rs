//! The shared heap, as functions that stand in for those of the C library use it.

use crate::svm::heap;
use clump::svm::Svm;
use clump_ffi::fault::Result;
use clump_os::sync::{AtomicBool, AtomicUsize, Ordering};
use clump_os::{console, process};

/// Ends this process because a function of the program cannot do its work.
#[cold]
pub(crate) fn end_for(what: &str, why: &dyn std::fmt::Display) -> ! {
    console::err_at_once(&["clump: ", what, ": ", &why.to_string(), "\n"]);
    process::exit_at_once(1)
}

/// Runs `run` with the heap; a failure ends the process, since programs do not expect one.
pub(crate) fn with_heap<R>(what: &str, run: impl FnOnce(&Svm) -> Result<R>) -> R {
    heap(what, run).unwrap_or_else(|why| end_for(what, &why.whole().to_string_lossy()))
}

/// Addresses that the program's threads share.
#[derive(Debug)]
pub(crate) struct SharedRange {
    first: AtomicUsize,
    last: AtomicUsize,
}

impl SharedRange {
    const fn new() -> Self {
        Self { first: AtomicUsize::new(0), last: AtomicUsize::new(0) }
    }

    fn contains(&self, address: usize) -> bool {
        let first = self.first.load(Ordering::Relaxed);
        (first..self.last.load(Ordering::Relaxed)).contains(&address)
    }

    fn become_range(&self, (first, last): (usize, usize)) {
        self.first.store(first, Ordering::Relaxed);
        self.last.store(last, Ordering::Relaxed);
    }

    /// Sets the range to the heap; `globals` are objects, too, but private ones.
    pub(crate) fn set(svm: &Svm, globals: (usize, usize), mallocs: bool) {
        GLOBALS.become_range(globals);
        let (first, last) = svm.addresses();
        HEAP.become_range((first, last));
        MALLOCS.store(mallocs, Ordering::Relaxed);
    }
}

static HEAP: SharedRange = SharedRange::new();
/// Globals of the program that are private, and have objects in them that are not.
static GLOBALS: SharedRange = SharedRange::new();
static MALLOCS: AtomicBool = AtomicBool::new(false);

/// Returns true if an address is in the shared heap.
pub(crate) fn is_shared<T>(address: *const T) -> bool {
    HEAP.contains(address.addr())
}

/// Returns true if the program allocates in the shared heap.
pub(crate) fn are_mallocs_shared() -> bool {
    MALLOCS.load(Ordering::Relaxed)
}

/// Returns true if an object at an address is known to threads of other ranks.
pub(crate) fn is_known(address: usize) -> bool {
    HEAP.contains(address) || GLOBALS.contains(address)
}
