//! Threads of the program: their numbers, and the objects that belong to each.

use crate::slot::{Close, Slot};
use clump_os::sync::{AtomicU32, Ordering};
use std::cell::{Cell, RefCell};

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static OWNED: RefCell<Owned> = const { RefCell::new(Owned(Vec::new())) };
}

static LAST: AtomicU32 = AtomicU32::new(0);

/// The number of this thread, from 1; no other thread has had it or will.
#[inline(always)]
pub(crate) fn number() -> u32 {
    let number = NUMBER.get();
    if number == 0 { first() } else { number }
}

#[cold]
fn first() -> u32 {
    // Four thousand million threads would have to have called this library.
    let number = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    NUMBER.set(number);
    number
}

/// What belongs to a thread, oldest first. When the thread ends it is closed, newest first.
#[derive(Debug)]
struct Owned(Vec<(&'static Slot, Close)>);

impl Drop for Owned {
    fn drop(&mut self) {
        // Newest first: a lock goes before what it is reached through. What is in use, because the thread
        // ends inside of a handler, stays for ever.
        for (slot, close) in std::mem::take(&mut self.0).into_iter().rev() {
            let _ = close(slot);
        }
    }
}

/// Notes an object of this thread. One that ends already leaves it for ever.
pub(crate) fn own(slot: &'static Slot, close: Close) {
    let _ = OWNED.try_with(|owned| {
        if let Ok(mut owned) = owned.try_borrow_mut() {
            owned.0.push((slot, close));
        }
    });
}

/// Forgets it.
pub(crate) fn disown(slot: &'static Slot) {
    let _ = OWNED.try_with(|owned| {
        if let Ok(mut owned) = owned.try_borrow_mut()
            && let Some(at) = owned.0.iter().rposition(|(known, _)| std::ptr::eq(*known, slot))
        {
            owned.0.remove(at);
        }
    });
}

/// Objects of this thread.
pub(crate) fn owned() -> usize {
    OWNED.try_with(|owned| owned.try_borrow().map_or(0, |owned| owned.0.len())).unwrap_or(0)
}

/// Whether a handler of one of this thread's objects runs.
pub(crate) fn is_handling() -> bool {
    let busy = |owned: &RefCell<Owned>| {
        owned
            .try_borrow()
            .is_ok_and(|owned| owned.0.iter().any(|(slot, _)| slot.is_handling_here()))
    };
    OWNED.try_with(busy).unwrap_or(false)
}

/// Closes everything of this thread, newest first; false if something is in use.
pub(crate) fn close_all() -> bool {
    let taken = OWNED.try_with(|owned| owned.try_borrow().map(|owned| owned.0.clone()));
    let all = taken.ok().and_then(std::result::Result::ok).unwrap_or_default();
    all.into_iter().rev().all(|(slot, close)| close(slot))
}
