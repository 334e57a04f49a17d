//! Endpoint state for the inline functions of `clump/am_fast_inline.h`, so that polling and sending
//! a short message within the node take no call. docs/adr/0023.
//!
//! They run in the endpoint's thread, outside of its handlers, and touch nothing else:
//! `Inline::thread` is that thread then, and no thread otherwise.

use clump_am::{LocalRoute, View};
use clump_os::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use clump_os::thread;
use std::cell::RefCell;
use std::ptr::null_mut;

/// The part of each slot that inline functions read.
#[derive(Debug)]
#[repr(C)]
pub struct Inline {
    /// The thread that may use this now; 0: none.
    pub(crate) thread: AtomicUsize,
    pub(crate) view: AtomicPtr<View>,
    /// Routes to the destinations of the translation table, by index.
    pub(crate) ways: AtomicPtr<clump_layout_way>,
    pub(crate) count: AtomicU64,
    /// Bytes from one hot lane to the next.
    pub(crate) stride: AtomicU64,
    /// The value of `thread` while a handler of the endpoint runs; else 0. For the library alone.
    paused: AtomicUsize,
}

/// Memory layout of `LocalRoute` for C. All null where inline functions have to call.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct clump_layout_way {
    cursor: *const (),
    slots: *const (),
    len: u64,
    hot: *const (),
    state: *const (),
    state_wanted: u64,
    tag: *const (),
    tag_wanted: u64,
    unchecked: *const (),
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Inline, thread) == 0 && offset_of!(Inline, view) == 8);
    assert!(offset_of!(Inline, ways) == 16 && offset_of!(Inline, count) == 24);
    assert!(offset_of!(Inline, stride) == 32);
    assert!(offset_of!(View, bell) == 0 && offset_of!(View, hot) == 8);
    assert!(offset_of!(View, pending) == 16 && offset_of!(View, busy) == 24);
    assert!(offset_of!(View, schedule) == 32 && offset_of!(View, sent) == 40);
    assert!(offset_of!(clump_layout_way, state_wanted) == 40);
    assert!(size_of::<clump_layout_way>() == 72);
};

impl clump_layout_way {
    pub(crate) const NONE: Self = Self {
        cursor: null_mut(),
        slots: null_mut(),
        len: 0,
        hot: null_mut(),
        state: null_mut(),
        state_wanted: 0,
        tag: null_mut(),
        tag_wanted: 0,
        unchecked: null_mut(),
    };

    pub(crate) fn of(way: LocalRoute) -> Self {
        Self {
            cursor: way.door.cursor.cast_const().cast(),
            slots: way.door.slots.cast(),
            len: way.door.len as u64,
            hot: way.door.hot.cast(),
            state: way.state.0.cast(),
            state_wanted: way.state.1,
            tag: way.tag.0.cast(),
            tag_wanted: way.tag.1,
            unchecked: way.unchecked.cast_const().cast(),
        }
    }
}

impl Inline {
    /// Returns a state in which inline functions call the library.
    pub const fn none() -> Self {
        Self {
            thread: AtomicUsize::new(0),
            view: AtomicPtr::new(null_mut()),
            ways: AtomicPtr::new(null_mut()),
            count: AtomicU64::new(0),
            stride: AtomicU64::new(0),
            paused: AtomicUsize::new(0),
        }
    }

    /// Makes inline functions call the library from now on.
    pub fn clear(&self) {
        self.thread.store(0, Ordering::Relaxed);
        self.paused.store(0, Ordering::Relaxed);
    }

    /// Makes inline functions call the library while a handler runs.
    #[inline(always)]
    pub fn pause(&self) {
        self.paused.store(self.thread.load(Ordering::Relaxed), Ordering::Relaxed);
        self.thread.store(0, Ordering::Relaxed);
    }

    /// Undoes [`Inline::pause`] once the handler has returned.
    #[inline(always)]
    pub fn resume(&self) {
        self.thread.store(self.paused.load(Ordering::Relaxed), Ordering::Relaxed);
        self.paused.store(0, Ordering::Relaxed);
    }

    /// Returns true if this is an open endpoint of this thread alone, and no handler of it runs.
    /// False proves nothing.
    #[inline(always)]
    pub fn is_here(&self) -> bool {
        is_this_thread(&self.thread)
    }

    /// Returns true if a handler of this endpoint runs in this thread, to which alone it belongs.
    /// False proves nothing.
    #[inline(always)]
    pub fn is_handling_here(&self) -> bool {
        is_this_thread(&self.paused)
    }
}

/// Returns true if `pointer` is this thread's thread pointer. Without thread pointers on this
/// architecture all are 0, and it returns false.
#[inline(always)]
fn is_this_thread(pointer: &AtomicUsize) -> bool {
    cfg!(target_arch = "x86_64") && pointer.load(Ordering::Relaxed) == thread::pointer()
}

/// The part of an endpoint's inline state that lies outside of its slot.
#[derive(Debug)]
pub struct InlineTable {
    pub(crate) view: Box<View>,
    pub(crate) ways: RefCell<Vec<clump_layout_way>>,
    /// Address of the translation table when the routes were taken.
    pub(crate) at: RefCell<usize>,
}

impl InlineTable {
    /// Creates the table of an endpoint without destinations.
    pub fn new(view: View) -> Self {
        Self { view: Box::new(view), ways: RefCell::default(), at: RefCell::new(0) }
    }
}
