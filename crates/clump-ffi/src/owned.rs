//! Objects that belong to the threads of the program.

use crate::slot_entry::{Close, Slot};
use clump_os::thread_value;
use std::cell::RefCell;

thread_value! {
    static OWNED: RefCell<Owned> = RefCell::new(Owned(Vec::new()));
}

/// Objects that belong to a thread, oldest first. They are closed when the thread ends, newest
/// first. They stay open when the process ends: functions of `atexit` and destructors of static
/// objects may use them.
#[derive(Debug, Default)]
struct Owned(Vec<(&'static Slot, Close)>);

impl Drop for Owned {
    fn drop(&mut self) {
        // A child by `fork` has a copy of these, but they belong to its parent.
        if clump_os::forked::is_child() {
            return;
        }
        // Newest first: a lock is closed before the object it is reached through. An object in use,
        // because the thread ends inside a handler, stays for ever.
        for (slot, close) in std::mem::take(&mut self.0).into_iter().rev() {
            let closed = close(slot);
            // Another thread may get the same thread pointer.
            slot.inline.clear();
            let _ = closed;
        }
    }
}

/// Records an object of this thread.
pub(crate) fn own(slot: &'static Slot, close: Close) {
    OWNED.with(|owned| {
        if let Ok(mut owned) = owned.get().try_borrow_mut() {
            owned.0.push((slot, close));
        }
    });
}

/// Removes an object from this thread's list.
pub(crate) fn disown(slot: &'static Slot) {
    OWNED.with(|owned| {
        if let Ok(mut owned) = owned.get().try_borrow_mut()
            && let Some(at) = owned.0.iter().rposition(|(known, _)| std::ptr::eq(*known, slot))
        {
            owned.0.remove(at);
        }
    });
}

/// Returns the number of objects of this thread.
pub(crate) fn count() -> usize {
    OWNED.with(|owned| owned.get().try_borrow().map_or(0, |owned| owned.0.len()))
}

/// Closes all objects of this thread, newest first; false if one is in use.
pub(crate) fn close_all() -> bool {
    let taken = OWNED.with(|owned| owned.get().try_borrow().map(|owned| owned.0.clone()));
    let all = taken.unwrap_or_default();
    all.into_iter().rev().all(|(slot, close)| close(slot))
}
