//! An entry of the table of objects, and its use by calls.

use crate::fault::{Fault, Result};
use crate::inline_state::Inline;
use crate::status::clump_status as S;
use crate::thread;
use clump_os::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Maximum number of objects of a process at one time, tokens of endpoints included.
pub const SLOTS: usize = 1 << 17;
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
    pub(crate) object: AtomicPtr<()>,
    pub(crate) kind: AtomicU32,
    /// The thread that it belongs to; 0 for shared objects.
    pub(crate) owner: AtomicU32,
    /// Calls that use it now, for a shared object: any thread adds.
    pub(crate) users: AtomicU32,
    /// Calls that use it now, for an object of one thread: only that thread writes.
    pub(crate) inside: AtomicU32,
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
pub(crate) const FREE: u32 = 0;
/// Added to `users` of a closed object.
pub(crate) const CLOSED: u32 = 1 << 31;

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

/// The entries of all objects.
pub(crate) static TABLE: [Slot; SLOTS] = [const { Slot::empty() }; SLOTS];

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
    pub(crate) unsafe fn object<T>(&self) -> &T {
        // SAFETY: by the function's own.
        unsafe { &*self.object.load(Ordering::Relaxed).cast::<T>() }
    }
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

/// The error of a pointer that leads to no slot.
#[cold]
pub(crate) fn unknown<T: Object>(pointer: *const ()) -> Fault {
    if pointer.is_null() {
        return crate::fault::null(T::NAME);
    }
    let what = format!("the program gave a pointer as {} that no function of clump gave", T::NAME);
    Fault::new(S::CLUMP_ERR_HANDLE, what)
}

/// The error of a pointer to a slot whose object may not be used here.
#[cold]
pub(crate) fn refuse<T: Object>(pointer: *const (), slot: &Slot) -> Fault {
    let name = T::NAME;
    if slot.is::<T>() {
        let what = format!("this {name} belongs to another thread, the one that opened it");
        return Fault::new(S::CLUMP_ERR_THREAD, what);
    }
    if let Some(over) = crate::job_state::not_running() {
        return over;
    }
    let what = match slot.kind.load(Ordering::Relaxed) {
        FREE => format!("this {name} ({pointer:p}) was closed before"),
        _ => format!("the program gave a pointer to something else as {name}"),
    };
    Fault::new(S::CLUMP_ERR_HANDLE, what)
}
