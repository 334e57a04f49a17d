//! References into memory that other processes write.

use clump_os::sync::AtomicU32;
use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// Owner that keeps the memory behind a reference mapped.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// Marks types that may live in memory shared with hostile writers: made of atomics only, valid for
/// every bit pattern.
///
/// # Safety
/// Every field is an atomic, or an array or struct of atomics; nothing has a niche or a destructor.
pub unsafe trait SharedLayout {}

// SAFETY: an atomic.
unsafe impl SharedLayout for AtomicU32 {}

/// A counted reference to one `T` in shared memory.
#[derive(Debug)]
pub struct Shared<T> {
    ptr: NonNull<T>,
    keep: Keep,
}

// SAFETY: invariant 1 of the crate: behind the pointer are atomics, which any thread may use, and
// `keep` holds them mapped.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { ptr: self.ptr, keep: self.keep.clone() }
    }
}

impl<T: SharedLayout> Shared<T> {
    /// # Safety
    /// `ptr` points to an aligned `T` inside memory that stays valid while `keep` lives.
    pub unsafe fn new(ptr: NonNull<T>, keep: Keep) -> Self {
        debug_assert!(ptr.is_aligned(), "an access that is not aligned may be torn");
        Self { ptr, keep }
    }

    /// Returns a reference to a part of the same memory.
    pub fn part<U: SharedLayout>(&self, part: impl FnOnce(&T) -> &U) -> Shared<U> {
        let ptr = NonNull::from(part(self));
        debug_assert!(
            self.holds(ptr.addr().get(), size_of::<U>()),
            "a part lies in the memory that `keep` keeps"
        );
        Shared { ptr, keep: self.keep.clone() }
    }

    /// Returns true if `bytes` bytes at `address` lie inside.
    fn holds(&self, address: usize, bytes: usize) -> bool {
        let start = self.ptr.addr().get();
        address >= start && address + bytes <= start + size_of::<T>()
    }
}

impl<T: SharedLayout + Send + Sync + 'static> Shared<T> {
    /// Creates a `T` of this process alone, for models and tests.
    pub fn private(value: T) -> Self {
        let owner = Arc::new(value);
        let ptr = NonNull::from(&*owner);
        Self { ptr, keep: owner }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `new` required a valid `T`, made of atomics, kept mapped by `keep`.
        unsafe { self.ptr.as_ref() }
    }
}

/// A counted reference to a slice of `T` in shared memory.
#[derive(Debug)]
#[repr(C)]
pub struct SharedSlice<T> {
    ptr: NonNull<T>,
    len: usize,
    keep: Keep,
}

// SAFETY: as for `Shared`.
unsafe impl<T> Send for SharedSlice<T> {}
// SAFETY: as for `Shared`.
unsafe impl<T> Sync for SharedSlice<T> {}

impl<T> Clone for SharedSlice<T> {
    fn clone(&self) -> Self {
        Self { ptr: self.ptr, len: self.len, keep: self.keep.clone() }
    }
}

impl<T: SharedLayout> SharedSlice<T> {
    /// # Safety
    /// `ptr` points to `len` aligned `T` inside memory that stays valid while `keep` lives.
    pub unsafe fn new(ptr: NonNull<T>, len: usize, keep: Keep) -> Self {
        debug_assert!(ptr.is_aligned(), "an access that is not aligned may be torn");
        debug_assert!(len.checked_mul(size_of::<T>()).is_some(), "a slice fits into memory");
        Self { ptr, len, keep }
    }
}

impl<T: SharedLayout + Send + Sync + 'static> SharedSlice<T> {
    /// Creates a slice of this process alone, for models and tests.
    pub fn private(values: Vec<T>) -> Self {
        let owner = Arc::new(values);
        let ptr = NonNull::from(owner.as_slice()).cast();
        Self { ptr, len: owner.len(), keep: owner }
    }
}

impl<T> Deref for SharedSlice<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` required `len` valid `T`, made of atomics, kept mapped by `keep`.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}
