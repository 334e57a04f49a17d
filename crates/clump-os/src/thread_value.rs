//! Values of threads that are dropped when their thread ends, and stay when the process ends.
//!
//! `std::thread_local!` destroys its values also in the thread that calls `exit`, or returns from
//! `main`, before functions of `atexit`, destructors of static objects and of libraries run: calls
//! from there would find nothing. These values stay until the process has ended.
//!
//! They are dropped by the destructor of a key (pthread_key_create(3)), behind all destructors of
//! `thread_local` objects, those of C++ among them.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// A value of a thread, in a `thread_local!` static. [`crate::thread_value!`] declares one.
#[derive(Debug)]
pub struct ThreadValue<T: Default> {
    value: ManuallyDrop<T>,
    /// True once the end of the thread drops it.
    noted: Cell<bool>,
}

/// Declares a [`ThreadValue`]: `thread_value! { /// ... static NAME: Type = first; }`.
#[macro_export]
macro_rules! thread_value {
    ($(#[$about:meta])* $vis:vis static $name:ident: $type:ty = $first:expr;) => {
        std::thread_local! {
            $(#[$about])*
            $vis static $name: $crate::thread_value::ThreadValue<$type> =
                const { $crate::thread_value::ThreadValue::new($first) };
        }
    };
}

/// A value to be dropped, and the function that does it.
type Noted = (*const c_void, unsafe fn(*const c_void));

thread_local! {
    /// Values of this thread, oldest first; null while there are none. Owned by the thread.
    static NOTED: Cell<*mut Vec<Noted>> = const { Cell::new(null_mut()) };
}

/// The key whose destructor drops the values of a thread; `None` if the system has no more.
static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

impl<T: Default> ThreadValue<T> {
    /// Returns a value that is not used yet.
    pub const fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), noted: Cell::new(false) }
    }

    /// Returns the value.
    #[inline(always)]
    pub fn get(&self) -> &T {
        if !self.noted.get() {
            self.note();
        }
        &self.value
    }

    /// Returns the value if this thread has used it before. Allocates nothing, so that it may be
    /// called in a signal handler.
    pub fn used(&self) -> Option<&T> {
        self.noted.get().then_some(&*self.value)
    }

    #[cold]
    fn note(&self) {
        self.noted.set(true);
        let at = std::ptr::from_ref(self);
        let Some(key) = *KEY.get_or_init(new_key) else { return };
        let mut list = NOTED.get();
        if list.is_null() {
            list = Box::into_raw(Box::default());
            NOTED.set(list);
            // SAFETY: a key of this process. Fails without memory: then the thread's values stay.
            unsafe { libc::pthread_setspecific(key, list.cast()) };
        }
        // SAFETY: the list of this thread, which nothing else uses meanwhile.
        unsafe { (*list).push((at.cast(), drop_value::<T>)) };
    }
}

/// Drops a value, and leaves a new one in its place.
///
/// # Safety
/// It is a [`ThreadValue`] of this type, of this thread, which nothing else uses.
unsafe fn drop_value<T: Default>(at: *const c_void) {
    // SAFETY: by the function's own.
    unsafe {
        let this = at.cast::<ThreadValue<T>>().cast_mut();
        (*this).noted.set(false);
        let value = (&raw mut (*this).value).cast::<T>();
        // The old one may use the new one while it is dropped.
        drop(value.replace(T::default()));
    }
}

fn new_key() -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: a place for the key, and a function that lives as long as the process.
    (unsafe { libc::pthread_key_create(&raw mut key, Some(end_of_thread)) } == 0).then_some(key)
}

/// Drops the values of a thread that ends, newest first.
unsafe extern "C" fn end_of_thread(list: *mut c_void) {
    let list = list.cast::<Vec<Noted>>();
    // SAFETY: the list that `ThreadValue::note` has made for this thread.
    while let Some((at, drop_it)) = unsafe { (*list).pop() } {
        // SAFETY: a value of this thread, whose memory stays until the thread has ended; no code of
        // the thread but this runs any more.
        unsafe { drop_it(at) };
    }
    NOTED.set(null_mut());
    // SAFETY: made by `Box::into_raw`; no other pointer is left.
    drop(unsafe { Box::from_raw(list) });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::sync::{AtomicU32, Ordering};
    use std::cell::RefCell;

    static DROPPED: AtomicU32 = AtomicU32::new(0);

    #[derive(Default)]
    struct Counted(u32);

    impl Drop for Counted {
        fn drop(&mut self) {
            // Other values are there for those that are dropped.
            OTHER.with(|other| other.get().borrow_mut().push(self.0));
            DROPPED.fetch_add(self.0, Ordering::Relaxed);
        }
    }

    thread_value! {
        /// A value that is counted.
        static COUNTED: RefCell<Counted> = RefCell::new(Counted(0));
    }
    thread_value! {
        static OTHER: RefCell<Vec<u32>> = RefCell::new(Vec::new());
    }

    struct AtTheEnd;

    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            COUNTED.with(|counted| assert_eq!(counted.get().borrow().0, 5));
        }
    }

    thread_local! {
        static LATE: AtTheEnd = const { AtTheEnd };
    }

    #[test]
    fn values_outlive_thread_locals_and_end_with_the_thread() {
        let thread = crate::thread::spawn("values", || {
            LATE.with(|_| ());
            COUNTED.with(|counted| counted.get().borrow_mut().0 = 5);
        });
        thread.unwrap().join().unwrap();
        assert_eq!(DROPPED.load(Ordering::Relaxed), 5);
    }
}
