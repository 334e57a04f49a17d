//! Objects by which threads of a program wait for each other, found by their addresses.
//!
//! What lies at the address is left alone. An object has a place in a table that all ranks share,
//! which its first use takes and nothing gives back; so an object that is initialised statically,
//! or again, is the same for all. Each rank remembers the places that it has found.

use crate::svm_sync::fault;
use crate::threads::with_heap;
use crate::threads_timed::LockAttempt;
use clump::svm::{Home, SharedArray, SharedCondvar, SharedLocks, Svm, SyncObject};
use clump_ffi::fault::{Fault, Result};
use clump_ffi::status::clump_status as S;
use clump_os::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Places of the table.
const PLACES: usize = 1 << 20;
/// Words of a place: address (0: free), lock, lock and flag of the condition variable, flag, two
/// counts of the condition variable, two words of the object. Others are not used.
const WORDS: usize = 16;
const COUNTS: usize = 5;
const OWN: usize = 7;
/// Bytes of the smallest object, so that neighbours have places beside each other.
const GRAIN: usize = 16;

/// The table, as one rank sees it.
#[derive(Debug)]
struct ObjectTable {
    words: SharedArray<u64>,
    locks: SharedLocks,
    found: RwLock<HashMap<usize, Arc<ThreadObject>>>,
}

static TABLE: RwLock<Option<Arc<ObjectTable>>> = RwLock::new(None);

/// Addresses that the program's threads share.
#[derive(Debug)]
pub(crate) struct SharedRange {
    first: AtomicUsize,
    last: AtomicUsize,
}

impl SharedRange {
    const fn new() -> Self {
        Self { first: AtomicUsize::new(0), last: AtomicUsize::new(0) }
    }

    fn contains(&self, address: usize) -> bool {
        let first = self.first.load(Ordering::Relaxed);
        (first..self.last.load(Ordering::Relaxed)).contains(&address)
    }

    fn become_range(&self, (first, last): (usize, usize)) {
        self.first.store(first, Ordering::Relaxed);
        self.last.store(last, Ordering::Relaxed);
    }

    /// Sets the range to the heap; `globals` are objects, too, but private ones.
    pub(crate) fn set(svm: &Svm, globals: (usize, usize), mallocs: bool) {
        GLOBALS.become_range(globals);
        let (first, last) = svm.addresses();
        HEAP.become_range((first, last));
        MALLOCS.store(mallocs, Ordering::Relaxed);
    }
}

static HEAP: SharedRange = SharedRange::new();
static GLOBALS: SharedRange = SharedRange::new();
static MALLOCS: AtomicBool = AtomicBool::new(false);

/// Returns true if an address lies in the shared heap.
pub(crate) fn is_shared<T>(address: *const T) -> bool {
    HEAP.contains(address.addr())
}

/// Returns true if the program allocates in the shared heap.
pub(crate) fn are_mallocs_shared() -> bool {
    MALLOCS.load(Ordering::Relaxed)
}

/// An object, as one rank knows it.
#[derive(Debug)]
pub(crate) struct ThreadObject {
    pub(crate) lock: SyncObject,
    /// Raised to the number of each round of a barrier.
    pub(crate) rounds: SyncObject,
    /// Words of its condition variable.
    cond: [u64; 3],
    /// Address of its two words, which are used under the lock.
    own: usize,
    /// Thread of this rank that has the lock as a mutex, one more than its number; and how often.
    pub(crate) owner: AtomicU64,
    pub(crate) depth: AtomicU64,
    pub(crate) attempt: LockAttempt,
}

impl ThreadObject {
    /// Returns its words, to be used under the lock.
    pub(crate) fn words(&self, svm: &Svm) -> Result<SharedArray<u64>> {
        svm.words_at(self.own, 2).map_err(fault)
    }

    /// Returns its condition variable.
    pub(crate) fn cond(&self, svm: &Svm) -> Result<SharedCondvar> {
        svm.condvar_of(self.cond).map_err(fault)
    }
}

/// Makes the table. A collective.
pub(crate) fn open(svm: &Svm) -> Result<()> {
    let words = svm.array(PLACES * WORDS, Home::Cyclic).map_err(fault)?;
    let locks = svm.locks(1).map_err(fault)?;
    let table = ObjectTable { words, locks, found: RwLock::default() };
    *TABLE.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(table));
    Ok(())
}

/// Returns the object at an address; `None` if threads of other ranks do not know it.
pub(crate) fn object<T>(at: *const T) -> Option<Arc<ThreadObject>> {
    let address = at.addr();
    if !HEAP.contains(address) && !GLOBALS.contains(address) {
        return None;
    }
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner).clone()?;
    if let Some(object) = table.found.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
        return Some(object.clone());
    }
    let object = with_heap("an object of threads", |svm| table.find(svm, address));
    let mut found = table.found.write().unwrap_or_else(PoisonError::into_inner);
    Some(found.entry(address).or_insert_with(|| Arc::new(object)).clone())
}

impl ObjectTable {
    /// Finds the place of an address, or takes one for it.
    fn find(&self, svm: &Svm, address: usize) -> Result<ThreadObject> {
        let first = address / GRAIN;
        let held = self.locks.lock(0).map_err(fault)?;
        let fits = |place: &usize| [0, address as u64].contains(&self.words.get(place * WORDS));
        let place = (0..PLACES).map(|step| (first + step) % PLACES).find(fits);
        let Some(place) = place else {
            let what = format!("a program has at most {PLACES} mutexes and other such objects");
            return Err(Fault::new(S::CLUMP_ERR_LIMIT, what));
        };
        let at = place * WORDS;
        if self.words.get(at) == 0 {
            for word in 1..COUNTS {
                self.words.set(at + word, svm.sync_object().map_err(fault)?.number());
            }
            self.words.set(at, address as u64);
        }
        let number = |word: usize| SyncObject::from_number(self.words.get(at + word));
        let base = self.words.address().addr().get();
        let counts = (base + (at + COUNTS) * size_of::<u64>()) as u64;
        let object = ThreadObject {
            lock: number(1).map_err(fault)?,
            rounds: number(4).map_err(fault)?,
            cond: [self.words.get(at + 2), self.words.get(at + 3), counts],
            own: base + (at + OWN) * size_of::<u64>(),
            owner: AtomicU64::new(0),
            depth: AtomicU64::new(0),
            attempt: LockAttempt::default(),
        };
        held.release().map_err(fault)?;
        Ok(object)
    }
}
