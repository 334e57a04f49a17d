//! Objects by which threads of a program wait for each other, found by their addresses.
//!
//! The memory at the address is left alone. An object has a place in a table that all ranks share,
//! which its first use takes and nothing gives back; so an object that is initialised statically,
//! or again, is the same for all. Each rank remembers the places that it has found.

use crate::svm_sync::fault;
use crate::threads_heap::{is_known, with_heap};
use crate::threads_timed::LockAttempt;
use clump::svm::{Home, SharedArray, SharedCondvar, SharedLocks, Svm, SyncObject};
use clump_ffi::fault::{Fault, Result};
use clump_ffi::status::clump_status as S;
use clump_os::sync::AtomicU64;
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

/// One rank's view of an object.
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
    pub(crate) attempt: Arc<LockAttempt>,
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

/// Returns the object at an address; `None` if it is not shared with threads of other ranks.
pub(crate) fn object<T>(at: *const T) -> Option<Arc<ThreadObject>> {
    let address = at.addr();
    if !is_known(address) {
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
            attempt: Arc::new(LockAttempt::of(number(1).map_err(fault)?)),
        };
        held.release().map_err(fault)?;
        Ok(object)
    }
}
