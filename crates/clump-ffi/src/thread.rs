//! Threads of the program: their numbers, and the handlers that run in them.

use clump_os::sync::{AtomicU32, Ordering};
use std::cell::Cell;

thread_local! {
    static ME: ThisThread = const { ThisThread { number: Cell::new(0), depth: Cell::new(0) } };
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
    ME.with(|me| me.depth.get() > 0) || crate::above::is_handling_above()
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
