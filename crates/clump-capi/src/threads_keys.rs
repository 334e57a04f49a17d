//! Keys of values that each thread has for itself, known to all ranks of a program.

use crate::svm_sync::fault;
use crate::threads_heap::with_heap;
use clump::svm::{Home, SharedArray, SharedLocks, Svm};
use clump_ffi::fault::Result;
use clump_os::c_library as c;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, PoisonError, RwLock};

type Destructor = unsafe extern "C" fn(*mut c_void);

/// Keys that a program makes from its beginning to its end.
const MAX_KEYS: usize = 1024;
/// First number of a key of all ranks; those of the C library are smaller.
const FIRST: c::pthread_key_t = 1 << 16;

/// Keys of all ranks.
#[derive(Debug)]
struct KeyTable {
    /// The number of keys; behind it the function of each for values that remain, 0 for none.
    words: SharedArray<u64>,
    locks: SharedLocks,
    /// This rank's keys, by number.
    own: RwLock<HashMap<c::pthread_key_t, c::pthread_key_t>>,
}

static TABLE: RwLock<Option<Arc<KeyTable>>> = RwLock::new(None);

/// Makes the table. A collective.
pub(crate) fn open(svm: &Svm) -> Result<()> {
    let words = svm.array(1 + MAX_KEYS, Home::Node(0)).map_err(fault)?;
    let locks = svm.locks(1).map_err(fault)?;
    let table = KeyTable { words, locks, own: RwLock::default() };
    *TABLE.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(table));
    Ok(())
}

fn table() -> Option<Arc<KeyTable>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Makes a key of the C library; returns its status.
fn make(key: &mut c::pthread_key_t, destructor: u64) -> c_int {
    let destructor = std::ptr::with_exposed_provenance::<()>(destructor as usize);
    // SAFETY: a function of the program, which has the same addresses at all ranks, or none.
    let destructor = unsafe { std::mem::transmute::<*const (), Option<Destructor>>(destructor) };
    // SAFETY: a place of the caller.
    unsafe { c::pthread_key_create(key, destructor) }
}

impl KeyTable {
    /// Returns this rank's key for one of all ranks, made at its first use.
    fn own_key(&self, key: c::pthread_key_t) -> Option<c::pthread_key_t> {
        let at = key.checked_sub(FIRST)? as usize;
        if let Some(own) = self.own.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(*own);
        }
        if at as u64 >= self.words.get(0) {
            return None;
        }
        let mut all = self.own.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get(&key) {
            return Some(*own);
        }
        let mut own = 0;
        if make(&mut own, self.words.get(1 + at)) != 0 {
            return None;
        }
        all.insert(key, own);
        Some(own)
    }
}

/// Returns this rank's key for one of the program's.
fn own_key(key: c::pthread_key_t) -> Option<c::pthread_key_t> {
    if key < FIRST {
        // Made before `main`.
        return Some(key);
    }
    table()?.own_key(key)
}

/// Stands in for `pthread_key_create`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_key_create(
    key: *mut c::pthread_key_t,
    destructor: Option<Destructor>,
) -> c_int {
    let Some(table) = table() else {
        // SAFETY: the program upholds the contract of the C function.
        return unsafe { c::pthread_key_create(key, destructor) };
    };
    let number = with_heap("pthread_key_create", |_| {
        let held = table.locks.lock(0).map_err(fault)?;
        let number = table.words.get(0) as usize;
        if number < MAX_KEYS {
            let function = destructor.map_or(0, |function| function as usize);
            table.words.set(1 + number, function as u64);
            table.words.set(0, number as u64 + 1);
        }
        held.release().map_err(fault)?;
        Ok(number)
    });
    if number == MAX_KEYS {
        return c::EAGAIN;
    }
    // SAFETY: a place that the program has given.
    unsafe { key.write(FIRST + number as c::pthread_key_t) };
    0
}

/// Stands in for `pthread_key_delete`. The number is not used again.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_key_delete(key: c::pthread_key_t) -> c_int {
    // SAFETY: takes any number.
    own_key(key).map_or(c::EINVAL, |own| unsafe { c::pthread_key_delete(own) })
}

/// Stands in for `pthread_setspecific`.
///
/// # Safety
/// As for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_pthread_setspecific(
    key: c::pthread_key_t,
    value: *const c_void,
) -> c_int {
    // SAFETY: the program upholds the contract of the C function.
    own_key(key).map_or(c::EINVAL, |own| unsafe { c::pthread_setspecific(own, value) })
}

/// Stands in for `pthread_getspecific`.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_pthread_getspecific(key: c::pthread_key_t) -> *mut c_void {
    // SAFETY: takes any number.
    own_key(key).map_or(std::ptr::null_mut(), |own| unsafe { c::pthread_getspecific(own) })
}
