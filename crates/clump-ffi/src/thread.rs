//! Threads of the program: their numbers, and the objects that belong to each.

use crate::slot::{Close, Slot};
use clump_os::sync::{AtomicU32, Ordering};
use std::cell::{Cell, RefCell};

thread_local! {
    static ME: ThisThread = const { ThisThread { number: Cell::new(0), depth: Cell::new(0) } };
    static OWNED: RefCell<Owned> = const { RefCell::new(Owned(Vec::new())) };
}

static LAST: AtomicU32 = AtomicU32::new(0);

/// Per-thread state.
#[derive(Debug)]
struct ThisThread {
    number: Cell<u32>,
    /// Number of its handlers that run, one inside the other.
    depth: Cell<u32>,
}

/// Returns the number of this thread, from 1; no other thread ever has the same.
#[inline(always)]
pub fn number() -> u32 {
    ME.with(|me| match me.number.get() {
        0 => first(me),
        number => number,
    })
}

#[cold]
fn first(me: &ThisThread) -> u32 {
    // It wraps only after 2^32 threads have called this library.
    let number = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    me.number.set(number);
    number
}

/// Returns true if a handler runs in this thread.
pub fn is_handling() -> bool {
    ME.with(|me| me.depth.get() > 0) || crate::job::is_handling_above()
}

/// Pointer to this thread's state, kept because in a shared library finding it takes a call. Only
/// for this thread.
#[derive(Debug, Clone, Copy)]
pub struct ThreadState(*const ThisThread);

impl ThreadState {
    #[inline(always)]
    /// Finds the state of this thread.
    pub fn find() -> Self {
        ME.with(|me| Self(std::ptr::from_ref(me)))
    }
}

/// Marks that a handler runs in this thread, while this lives.
#[derive(Debug)]
pub struct Handling(*const ThisThread);

impl Handling {
    /// # Safety
    /// `here` was found in this thread.
    #[inline(always)]
    pub unsafe fn begin(here: ThreadState) -> Self {
        let this = Self(here.0);
        let depth = &this.me().depth;
        depth.set(depth.get() + 1);
        this
    }

    #[inline(always)]
    fn me(&self) -> &ThisThread {
        // SAFETY: what `begin` was given; it lies there until the thread ends, and belongs to this
        // thread alone.
        unsafe { &*self.0 }
    }

    /// Returns the number of this thread. A thread that runs a handler has called this library, and
    /// so has one.
    #[inline(always)]
    pub fn thread(&self) -> u32 {
        self.me().number.get()
    }
}

impl Drop for Handling {
    #[inline(always)]
    fn drop(&mut self) {
        let depth = &self.me().depth;
        depth.set(depth.get().wrapping_sub(1));
    }
}

/// Objects that belong to a thread, oldest first. They are closed when the thread ends, newest
/// first.
#[derive(Debug)]
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

/// Records an object of this thread. An object of a thread that is ending already is never closed.
pub fn own(slot: &'static Slot, close: Close) {
    let _ = OWNED.try_with(|owned| {
        if let Ok(mut owned) = owned.try_borrow_mut() {
            owned.0.push((slot, close));
        }
    });
}

/// Removes an object from this thread's list.
pub fn disown(slot: &'static Slot) {
    let _ = OWNED.try_with(|owned| {
        if let Ok(mut owned) = owned.try_borrow_mut()
            && let Some(at) = owned.0.iter().rposition(|(known, _)| std::ptr::eq(*known, slot))
        {
            owned.0.remove(at);
        }
    });
}

/// Returns the number of objects of this thread.
pub fn owned() -> usize {
    OWNED.try_with(|owned| owned.try_borrow().map_or(0, |owned| owned.0.len())).unwrap_or(0)
}

/// Closes all objects of this thread, newest first; false if one is in use.
pub fn close_all() -> bool {
    let taken = OWNED.try_with(|owned| owned.try_borrow().map(|owned| owned.0.clone()));
    let all = taken.ok().and_then(std::result::Result::ok).unwrap_or_default();
    all.into_iter().rev().all(|(slot, close)| close(slot))
}
