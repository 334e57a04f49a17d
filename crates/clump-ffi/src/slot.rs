//! Slots that a program's pointers lead to. They are never deallocated, so that a pointer to
//! something that was closed, or that this library never made, is recognised instead of followed.

use crate::endpoint_handle::ThreadEndpoint;
use crate::fault::{Fault, Result};
use crate::inline::Inline;
use crate::status::clump_status as S;
use crate::thread;
use clump_os::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of objects of a process at one time, tokens of endpoints included.
pub const SLOTS: usize = 1 << 17;
/// Number of slots freed before the first of them is reused: until then a use of a closed object is
/// reported.
const REST: usize = 1024;

/// The place of one object. The layout that C's inline functions read is asserted here and in their
/// headers.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    /// For memory of this node: words of 8 bytes that begin before this offset may be accessed.
    pub near_end: AtomicU64,
    /// The beginning of that memory.
    pub near_base: AtomicPtr<u8>,
    /// For endpoints: the context that the program registered with the handler that runs.
    pub context: AtomicPtr<()>,
    /// For endpoints: the state of the handler that runs.
    pub live: AtomicPtr<()>,
    object: AtomicPtr<()>,
    kind: AtomicU32,
    /// The thread that it belongs to; 0 for shared objects.
    owner: AtomicU32,
    /// Calls that use it now, for a shared object: any thread adds.
    users: AtomicU32,
    /// Calls that use it now, for an object of one thread: only that thread writes.
    inside: AtomicU32,
    /// The thread that runs a handler of it now; 0 if none does.
    pub handling: AtomicU32,
    /// For endpoints: data for inline functions.
    pub inline: Inline,
}

const _: () = {
    assert!(std::mem::offset_of!(Slot, near_end) == 0);
    assert!(std::mem::offset_of!(Slot, near_base) == 8);
    assert!(std::mem::offset_of!(Slot, context) == 16);
    assert!(std::mem::offset_of!(Slot, inline) == 64);
    assert!(size_of::<Slot>() == 128);
};

/// Kind of a free slot.
const FREE: u32 = 0;
/// Added to `users` of a closed object.
const CLOSED: u32 = 1 << 31;

/// An object that C has a pointer to.
pub trait Object: Sized + 'static {
    /// Its kind, unlike all others; not 0.
    const KIND: u32;
    /// Its name in error texts.
    const NAME: &'static str;
    /// True if only the thread that made it may use it.
    const BOUND: bool = true;
    /// True if the end of the job closes it, if it is not bound to a thread.
    const LISTED: bool = true;
}

/// Closes an object; false if it is in use.
pub type Close = fn(&'static Slot) -> bool;

static TABLE: [Slot; SLOTS] = [const { Slot::empty() }; SLOTS];
/// Copy of `SlotBookkeeping::used`, for code that may take no lock.
static USED: AtomicUsize = AtomicUsize::new(0);
static BOOKS: Mutex<SlotBookkeeping> =
    Mutex::new(SlotBookkeeping { used: 0, free: VecDeque::new(), bound: 0, shared: Vec::new() });

/// Free slots, and the objects to close at the end of the job.
#[derive(Debug)]
struct SlotBookkeeping {
    /// Slots before this one have been used.
    used: usize,
    free: VecDeque<usize>,
    /// Number of objects that belong to one thread each.
    bound: usize,
    /// Shared objects, except the job.
    shared: Vec<(&'static Slot, Close)>,
}

fn books() -> MutexGuard<'static, SlotBookkeeping> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    const fn empty() -> Self {
        Self {
            near_end: AtomicU64::new(0),
            near_base: AtomicPtr::new(std::ptr::null_mut()),
            context: AtomicPtr::new(std::ptr::null_mut()),
            live: AtomicPtr::new(std::ptr::null_mut()),
            object: AtomicPtr::new(std::ptr::null_mut()),
            kind: AtomicU32::new(FREE),
            owner: AtomicU32::new(0),
            users: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            handling: AtomicU32::new(0),
            inline: Inline::none(),
        }
    }

    fn take_one(bound: bool) -> Result<&'static Self> {
        let mut books = books();
        let fresh = books.used < SLOTS && books.free.len() < REST;
        let at = if fresh { books.used } else { books.free.pop_front().unwrap_or(SLOTS) };
        let Some(slot) = TABLE.get(at) else {
            let what = format!("this process has {SLOTS} objects of clump open; close some");
            return Err(Fault::new(S::CLUMP_ERR_LIMIT, what));
        };
        books.used += usize::from(fresh);
        USED.store(books.used, Ordering::Relaxed);
        books.bound += usize::from(bound);
        Ok(slot)
    }

    /// Puts `object` into a slot, whose address is the pointer for C.
    ///
    /// # Errors
    /// The process has as many objects as it may.
    pub fn fill<T: Object>(object: T) -> Result<&'static Self> {
        let slot = Self::take_one(T::BOUND)?;
        let object = Box::into_raw(Box::new(object)).cast();
        slot.object.store(object, Ordering::Relaxed);
        slot.users.fetch_and(!CLOSED, Ordering::SeqCst);
        slot.owner.store(if T::BOUND { thread::number() } else { 0 }, Ordering::Relaxed);
        // SYNC 15: pairs with is
        slot.kind.store(T::KIND, Ordering::SeqCst);
        if T::BOUND {
            thread::own(slot, close_quietly::<T>);
        } else if T::LISTED {
            books().shared.push((slot, close_quietly::<T>));
        }
        Ok(slot)
    }

    /// Returns the pointer for C.
    pub fn pointer<T>(&'static self) -> *mut T {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns the slot that a pointer leads to, if there is one.
    #[inline(always)]
    pub fn at(pointer: *const ()) -> Option<&'static Self> {
        let offset = pointer.addr().wrapping_sub(TABLE.as_ptr().addr());
        if !offset.is_multiple_of(size_of::<Self>()) {
            return None;
        }
        TABLE.get(offset / size_of::<Self>())
    }

    /// Returns true if the slot holds an object of kind `T`.
    #[inline(always)]
    pub fn is<T: Object>(&self) -> bool {
        // SYNC 15: pairs with fill
        self.kind.load(Ordering::SeqCst) == T::KIND
    }

    /// Returns true if a handler of it runs now in this thread.
    #[inline(always)]
    pub fn is_handling_here(&self) -> bool {
        self.handling.load(Ordering::Relaxed) == thread::number()
    }

    /// Uses the object of a slot for as long as `run` takes.
    ///
    /// # Errors
    /// The pointer leads to no such object, or to another thread's; errors of `run`.
    #[inline(always)]
    pub fn enter<T: Object, R>(
        pointer: *const (),
        run: impl FnOnce(&T, &'static Self) -> Result<R>,
    ) -> Result<R> {
        let Some(slot) = Self::at(pointer) else { return Err(unknown::<T>(pointer)) };
        if T::BOUND {
            if !slot.is::<T>() || slot.owner.load(Ordering::Relaxed) != thread::number() {
                return Err(refuse::<T>(pointer, slot));
            }
            let _use = Alone::of(slot);
            // SAFETY: invariant 2: the object is this thread's, and is not closed while it is used.
            return run(unsafe { slot.object::<T>() }, slot);
        }
        // Checked before it is counted, so that an object of another kind is left alone; and after,
        // because it may have been closed meanwhile.
        let found = slot.is::<T>().then(|| Shared::of(slot)).flatten();
        let Some(_use) = found.filter(|_| slot.is::<T>()) else {
            return Err(refuse::<T>(pointer, slot));
        };
        // SAFETY: invariant 2: counted as used before it was seen to be there.
        run(unsafe { slot.object::<T>() }, slot)
    }

    /// Returns the object of a slot that is an endpoint of this thread with no handler running, by
    /// a single comparison. For calls that run no code of the program except its handlers, in which
    /// the endpoint cannot be closed.
    #[inline(always)]
    pub fn here<'a>(pointer: *const ()) -> Option<&'a ThreadEndpoint> {
        let slot = Self::at(pointer).filter(|slot| slot.inline.is_here())?;
        // SAFETY: invariant 2, and see above: what inline functions may use is an open endpoint of
        // this thread.
        Some(unsafe { slot.object::<ThreadEndpoint>() })
    }

    /// Uses the object of a slot if it belongs to this thread: the fast path.
    #[inline(always)]
    pub fn enter_mine<T: Object, R>(
        pointer: *const (),
        run: impl FnOnce(&T, &'static Self) -> Result<R>,
    ) -> Option<Result<R>> {
        let slot = Self::at(pointer)?;
        if !slot.is::<T>() || slot.owner.load(Ordering::Relaxed) != thread::number() {
            return None;
        }
        let _use = Alone::of(slot);
        // SAFETY: invariant 2: the object is this thread's, and is not closed while it is used.
        Some(run(unsafe { slot.object::<T>() }, slot))
    }

    /// Returns the reason why an object may not be used here.
    #[cold]
    pub fn foreign<T: Object>(pointer: *const (), slot: &Self) -> Fault {
        refuse::<T>(pointer, slot)
    }

    /// # Safety
    /// A `T` is in the slot, and stays there while the reference is used.
    #[inline(always)]
    unsafe fn object<T>(&self) -> &T {
        // SAFETY: by the function's own.
        unsafe { &*self.object.load(Ordering::Relaxed).cast::<T>() }
    }

    /// Takes the object out of its slot, unless it is in use.
    ///
    /// # Errors
    /// The pointer leads to no such object, or to another thread's; it is in use.
    pub fn empty_of<T: Object>(pointer: *const ()) -> Result<Box<T>> {
        let Some(slot) = Self::at(pointer) else { return Err(unknown::<T>(pointer)) };
        let foreign = T::BOUND && slot.owner.load(Ordering::Relaxed) != thread::number();
        if foreign || !slot.is::<T>() {
            return Err(refuse::<T>(pointer, slot));
        }
        slot.shut::<T>(pointer)?;
        slot.kind.store(FREE, Ordering::SeqCst);
        slot.near_end.store(0, Ordering::Relaxed);
        slot.inline.clear();
        let object = slot.object.swap(std::ptr::null_mut(), Ordering::Relaxed);
        let mut books = books();
        books.free.push_back((slot.pointer_addr() - TABLE.as_ptr().addr()) / size_of::<Self>());
        books.bound -= usize::from(T::BOUND);
        books.shared.retain(|(known, _)| !std::ptr::eq(*known, slot));
        drop(books);
        if T::BOUND {
            thread::disown(slot);
        }
        // SAFETY: it was boxed by `fill`, and the slot does not lead to it any more.
        Ok(unsafe { Box::from_raw(object.cast()) })
    }

    /// Lets no call begin any more, if none is in progress.
    fn shut<T: Object>(&self, pointer: *const ()) -> Result<()> {
        if T::BOUND {
            // A handler may run because another object's call waits.
            let used = self.inside.load(Ordering::Relaxed) | self.handling.load(Ordering::Relaxed);
            return if used == 0 { Ok(()) } else { Err(busy::<T>()) };
        }
        // SYNC 16: pairs with of
        match self.users.compare_exchange(0, CLOSED, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) if self.handling.load(Ordering::SeqCst) == 0 => Ok(()),
            Ok(_) => {
                self.users.fetch_sub(CLOSED, Ordering::SeqCst);
                Err(busy::<T>())
            }
            Err(users) if users & CLOSED == 0 => Err(busy::<T>()),
            Err(_) => Err(refuse::<T>(pointer, self)),
        }
    }

    fn pointer_addr(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// Runs in a child by `fork`: no pointer of the program leads to an object any more, and inline
/// functions call the library. Memory that the objects held stays allocated.
pub fn abandon_all() {
    for slot in TABLE.iter().take(USED.load(Ordering::Relaxed)) {
        slot.near_end.store(0, Ordering::Relaxed);
        slot.inline.clear();
        slot.kind.store(FREE, Ordering::SeqCst);
    }
}

/// Returns the number of objects that belong to threads.
pub fn bound() -> usize {
    books().bound
}

/// Closes all shared objects except the job; false if one is in use.
pub fn close_shared() -> bool {
    let all = books().shared.clone();
    all.into_iter().rev().all(|(slot, close)| close(slot))
}

/// Closes an object when its thread or the job ends; false if it is in use.
fn close_quietly<T: Object>(slot: &'static Slot) -> bool {
    Slot::empty_of::<T>(slot.pointer()).map(drop).is_ok()
}

/// A use by the owning thread.
struct Alone(&'static Slot);

impl Alone {
    #[inline(always)]
    fn of(slot: &'static Slot) -> Self {
        slot.inside.store(slot.inside.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Self(slot)
    }
}

impl Drop for Alone {
    #[inline(always)]
    fn drop(&mut self) {
        let inside = &self.0.inside;
        inside.store(inside.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }
}

/// A use by any thread.
struct Shared(&'static Slot);

impl Shared {
    /// Returns `None` if the object is closed or being closed.
    #[inline(always)]
    fn of(slot: &'static Slot) -> Option<Self> {
        // SYNC 16: pairs with shut
        let before = slot.users.fetch_add(1, Ordering::SeqCst);
        let used = Self(slot);
        (before & CLOSED == 0).then_some(used)
    }
}

impl Drop for Shared {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cold]
fn busy<T: Object>() -> Fault {
    let what = format!(
        "this {} is in use: by a handler of its own, a call that has not returned, or another thread",
        T::NAME
    );
    Fault::new(S::CLUMP_ERR_BUSY, what)
}

#[cold]
fn unknown<T: Object>(pointer: *const ()) -> Fault {
    if pointer.is_null() {
        return crate::fault::null(T::NAME);
    }
    let what = format!("the program gave a pointer as {} that no function of clump gave", T::NAME);
    Fault::new(S::CLUMP_ERR_HANDLE, what)
}

#[cold]
fn refuse<T: Object>(pointer: *const (), slot: &Slot) -> Fault {
    let name = T::NAME;
    if slot.is::<T>() {
        let what = format!("this {name} belongs to another thread, the one that opened it");
        return Fault::new(S::CLUMP_ERR_THREAD, what);
    }
    if let Some(over) = crate::job::not_running() {
        return over;
    }
    let what = match slot.kind.load(Ordering::Relaxed) {
        FREE => format!("this {name} ({pointer:p}) was closed before"),
        _ => format!("the program gave a pointer to something else as {name}"),
    };
    Fault::new(S::CLUMP_ERR_HANDLE, what)
}
