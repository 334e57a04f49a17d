//! A cache of objects of other nodes: copies in bounded memory, fetched many at a time.

use crate::pgas::{clump_gptr, clump_pgas, space};
use crate::rma::close;
use crate::send::room;
use clump::pgas::{ByteClass, CacheCounts, ObjectCache};
use clump_ffi::border::{guard, guard_pointer, to_int};
use clump_ffi::fault::{Result, null, range};
use clump_ffi::slot::{Object, Slot};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};

/// Copies of objects of other nodes that do not change for a while. Belongs to the thread that made
/// it.
#[derive(Debug)]
pub struct clump_cache(());

/// Lookups of the objects of a class.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct clump_cache_counts {
    /// Lookups of objects in memory of this node, of which there are no copies.
    pub near: u64,
    /// Lookups that found a copy.
    pub hits: u64,
    /// Lookups for which an object was fetched.
    pub misses: u64,
    /// Copies that gave way to others.
    pub evicted: u64,
}

/// The object behind a ::clump_cache.
#[derive(Debug)]
pub(crate) struct CacheHandle {
    cache: ObjectCache,
    classes: RefCell<Vec<ByteClass>>,
}

impl Object for CacheHandle {
    const KIND: u32 = 17;
    const NAME: &'static str = "cache of objects (clump_cache)";
}

fn with<R>(cache: *const clump_cache, run: impl FnOnce(&CacheHandle) -> Result<R>) -> Result<R> {
    Slot::enter::<CacheHandle, R>(cache.cast(), |held, _| run(held))
}

impl CacheHandle {
    fn class(&self, class: c_int) -> Result<ByteClass> {
        let classes = self.classes.borrow();
        let found = usize::try_from(class).ok().and_then(|class| classes.get(class).cloned());
        found.ok_or_else(|| range("a class", class, "one that clump_cache_class has returned"))
    }

    /// Returns a class, and the place for an object of it.
    ///
    /// # Safety
    /// `to` has space for one, as long as that is used.
    unsafe fn object<'a>(
        &self,
        class: c_int,
        to: *mut c_void,
    ) -> Result<(ByteClass, &'a mut [u8])> {
        let class = self.class(class)?;
        // SAFETY: the caller's contract.
        let to = unsafe { room(to, class.bytes()) }?;
        Ok((class, to))
    }
}

/// Creates a cache of up to `capacity` bytes of objects, or of one, if that is larger. Not a
/// collective.
///
/// Returns null on failure. Closed by ::clump_cache_free, at the end of the thread, or by
/// ::clump_finalize.
#[unsafe(no_mangle)]
pub extern "C" fn clump_cache_alloc(gas: *mut clump_pgas, capacity: usize) -> *mut clump_cache {
    guard_pointer(|| {
        space(gas, |space| {
            let cache = ObjectCache::new(&space.pgas, capacity);
            Ok(Slot::fill(CacheHandle { cache, classes: RefCell::default() })?.pointer())
        })
    })
}

/// Frees a cache. Null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn clump_cache_free(cache: *mut clump_cache) -> c_int {
    close::<CacheHandle>(cache.cast_const().cast())
}

/// Adds a class of objects of `bytes` bytes each, and returns its number: lookups are counted by
/// class.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (objects without bytes).
#[unsafe(no_mangle)]
pub extern "C" fn clump_cache_class(cache: *mut clump_cache, bytes: usize) -> c_int {
    guard(|| {
        with(cache, |held| {
            if bytes == 0 || isize::try_from(bytes).is_err() {
                return Err(range("bytes of an object", bytes, "1 or more that memory holds"));
            }
            let mut classes = held.classes.borrow_mut();
            classes.push(held.cache.byte_class(bytes));
            Ok(to_int(classes.len() - 1))
        })
    })
}

/// Copies an object to `to`, if it is in memory of this node or there is a copy, and returns 1.
/// Else returns 0: it is missing, and the next ::clump_cache_fetch requests it.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no such class, outside of the pointer's memory),
/// ::CLUMP_ERR_SEGMENT.
///
/// # Safety
/// `to` has space for an object of the class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_cache_find(
    cache: *mut clump_cache,
    class: c_int,
    from: clump_gptr,
    to: *mut c_void,
) -> c_int {
    guard(|| {
        with(cache, |held| {
            // SAFETY: the caller's.
            let (class, to) = unsafe { held.object(class, to) }?;
            Ok(c_int::from(class.find(from.pointer(), to)?))
        })
    })
}

/// Copies an object to `to`, and waits for it if it is missing.
///
/// Errors: as ::clump_cache_find and ::clump_cache_fetch.
///
/// # Safety
/// `to` has space for an object of the class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_cache_get(
    cache: *mut clump_cache,
    class: c_int,
    from: clump_gptr,
    to: *mut c_void,
) -> c_int {
    guard(|| {
        with(cache, |held| {
            // SAFETY: the caller's.
            let (class, to) = unsafe { held.object(class, to) }?;
            class.get(from.pointer(), to)?;
            Ok(0)
        })
    })
}

/// Fetches all missing objects, those of one rank's memory in one request. At least the last that
/// was missed is found afterwards, and all where the cache has room for them.
///
/// Errors: ::CLUMP_ERR_SEGMENT, ::CLUMP_ERR_NODE_LOST, ::CLUMP_ERR_RANK_DIED.
#[unsafe(no_mangle)]
pub extern "C" fn clump_cache_fetch(cache: *mut clump_cache) -> c_int {
    guard(|| {
        with(cache, |held| {
            held.cache.fetch()?;
            Ok(0)
        })
    })
}

/// Forgets all copies: objects may have changed.
#[unsafe(no_mangle)]
pub extern "C" fn clump_cache_invalidate(cache: *mut clump_cache) -> c_int {
    guard(|| {
        with(cache, |held| {
            held.cache.invalidate();
            Ok(0)
        })
    })
}

/// Writes the counts of a class to `counts`.
///
/// Errors: ::CLUMP_ERR_ARGUMENT (no such class; null).
///
/// # Safety
/// `counts` is null or a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clump_cache_count(
    cache: *mut clump_cache,
    class: c_int,
    counts: *mut clump_cache_counts,
) -> c_int {
    guard(|| {
        with(cache, |held| {
            let CacheCounts { near, hits, misses, evicted } = held.class(class)?.counts();
            if counts.is_null() {
                return Err(null("a place for counts"));
            }
            // SAFETY: the caller's; not null.
            unsafe { counts.write(clump_cache_counts { near, hits, misses, evicted }) };
            Ok(0)
        })
    })
}
