//! Watch over the handler of the heap's faults: a program that installs its own later takes them.

use crate::error::Result;
use clump_os::sync::{AtomicBool, Ordering};
use clump_os::{access_fault, console, forked, process};
use std::sync::OnceLock;

static WATCH: OnceLock<HandlerWatch> = OnceLock::new();

/// Watch of a rank, which reports the program's handler once: at a call, or at the end of the
/// process if there was none since.
#[derive(Debug)]
pub(crate) struct HandlerWatch {
    rank: u32,
    /// True if faults arrive as SIGBUS; as SIGSEGV otherwise.
    bus: bool,
    is_reported: AtomicBool,
}

impl HandlerWatch {
    /// Begins the watch of a process, which lasts until it ends.
    ///
    /// # Errors
    /// Fails if memory has run out.
    pub(crate) fn begin(rank: u32, bus: bool) -> Result<&'static Self> {
        let is_first = WATCH.get().is_none();
        let watch = WATCH.get_or_init(|| Self { rank, bus, is_reported: AtomicBool::new(false) });
        debug_assert!(is_first, "a process opens one heap");
        process::at_exit(check_at_exit)?;
        Ok(watch)
    }

    /// Reports, once, that faults no longer arrive here, if the program has installed a handler.
    pub(crate) fn check(&self) {
        if access_fault::is_replaced(self.bus) && !self.is_reported.swap(true, Ordering::Relaxed) {
            let signal = if self.bus { "SIGBUS" } else { "SIGSEGV" };
            console::err(&format!(
                "clump: rank {}: the program has installed a handler of {signal} after it opened \
                 the shared heap, and takes the faults by which pages are fetched: install it \
                 before, and clump hands on to it what does not concern the heap",
                self.rank
            ));
            debug_assert!(self.is_reported.load(Ordering::Relaxed), "it is reported once");
        }
    }
}

/// Ends the watch over handlers that the program installs behind the heap's, if there is one: for a
/// program whose runtime restores handlers as it ends, as Python's does.
pub fn end_handler_watch() {
    debug_assert!(!forked::is_child(), "a child has no heap, and no watch");
    if let Some(watch) = WATCH.get() {
        watch.is_reported.store(true, Ordering::Relaxed);
        debug_assert!(watch.is_reported.load(Ordering::Relaxed), "nothing is reported any more");
    }
}

extern "C" fn check_at_exit() {
    if let Some(watch) = WATCH.get()
        && !forked::is_child()
    {
        watch.check();
    }
}
