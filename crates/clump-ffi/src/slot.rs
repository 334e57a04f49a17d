//! Slots that a program's pointers lead to. They are never deallocated, so that a pointer to
//! something that was closed, or that this library never made, is recognised instead of followed.

use crate::fault::{Fault, Result};
use crate::owned;
use crate::slot_entry::{CLOSED, FREE, TABLE, refuse, unknown};
pub use crate::slot_entry::{Close, Object, SLOTS, Slot};
use crate::status::clump_status as S;
use crate::thread;
use clump_os::sync::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of slots freed before the first of them is reused: until then a use of a closed object is
/// reported.
const REST: usize = 1024;

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
            owned::own(slot, close_quietly::<T>);
        } else if T::LISTED {
            books().shared.push((slot, close_quietly::<T>));
        }
        Ok(slot)
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
            owned::disown(slot);
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

#[cold]
fn busy<T: Object>() -> Fault {
    let what = format!(
        "this {} is in use: by a handler of its own, a call that has not returned, or another thread",
        T::NAME
    );
    Fault::new(S::CLUMP_ERR_BUSY, what)
}
