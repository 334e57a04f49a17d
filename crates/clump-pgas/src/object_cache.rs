//! A cache of objects of other nodes: copies in bounded memory, fetched many at a time.
//!
//! A program looks objects up, goes on elsewhere where one is missing, and fetches all that are
//! missing in one round: those of one rank's memory in one request.

use crate::aggregator::PeerSegment;
use crate::cache_table::{CacheCounts, CacheTable, ObjectKey};
use crate::element::Element;
use crate::error::{ErrorKind, Result};
use crate::global_ptr::GlobalPtr;
use crate::global_ref::{GlobalRef, read_from};
use crate::pgas::Pgas;
use crate::spread::Spread;
use clump_rma::{Range, SegmentName};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;

/// Copies of objects that do not change for a while, in the memory of one thread. Clones share all
/// state.
#[derive(Debug, Clone)]
pub struct ObjectCache {
    inner: Rc<CacheInner>,
}

#[derive(Debug)]
struct CacheInner {
    pgas: Pgas,
    table: RefCell<CacheTable>,
    missing: RefCell<MissingObjects>,
    requests: RefCell<CacheRequests>,
}

/// Requests of a cache for objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheRequests {
    /// Rounds in which objects were fetched.
    pub rounds: u64,
    /// Memories of ranks that objects were requested from, round by round.
    pub batches: u64,
    /// Objects that were requested.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
}

/// Objects that were looked up in vain, each once, with the number of its lookups.
#[derive(Debug, Default)]
struct MissingObjects {
    bytes: usize,
    lookups: FxHashMap<ObjectKey, u32>,
    by_segment: FxHashMap<SegmentName, MissingGroup>,
}

/// Missing objects in the memory of one rank.
#[derive(Debug)]
struct MissingGroup {
    peer: Rc<PeerSegment>,
    keys: Vec<ObjectKey>,
    ranges: Vec<Range>,
    bytes: usize,
}

/// Objects of one type, looked up in a cache, and their counts.
#[derive(Debug, Clone)]
pub struct CacheClass<T> {
    cache: ObjectCache,
    class: u32,
    /// Lookups in memory of this node.
    near: Rc<Cell<u64>>,
    of: PhantomData<T>,
}

/// Objects of one size that no type says, looked up in a cache by their bytes: for other languages.
#[derive(Debug, Clone)]
pub struct ByteClass {
    class: CacheClass<u8>,
    size: usize,
}

impl ObjectCache {
    /// Creates a cache of up to `capacity` bytes of objects, or of one, if that is larger.
    pub fn new(pgas: &Pgas, capacity: usize) -> Self {
        let (missing, requests) = Default::default();
        let table = RefCell::new(CacheTable::new(capacity));
        let pgas = pgas.clone();
        Self { inner: Rc::new(CacheInner { pgas, table, missing, requests }) }
    }

    /// Adds a class of objects: elements of any number of arrays, of one type.
    pub fn class<T: Element>(&self) -> CacheClass<T> {
        let class = self.inner.table.borrow_mut().add_class(size_of::<T>());
        debug_assert!(self.inner.table.borrow().capacity() >= size_of::<T>(), "an object fits");
        CacheClass { cache: self.clone(), class, near: Rc::default(), of: PhantomData }
    }

    /// Adds a class of objects of `size` bytes each, 1 or more.
    pub fn byte_class(&self, size: usize) -> ByteClass {
        let size = size.max(1);
        let class = self.inner.table.borrow_mut().add_class(size);
        debug_assert!(self.inner.table.borrow().capacity() >= size, "an object fits");
        let class = CacheClass { cache: self.clone(), class, near: Rc::default(), of: PhantomData };
        debug_assert_eq!(class.near.get(), 0, "nothing was looked up");
        ByteClass { class, size }
    }

    /// Returns the requests that it has made.
    pub fn requests(&self) -> CacheRequests {
        *self.inner.requests.borrow()
    }

    /// Forgets all copies: objects may have changed.
    pub fn invalidate(&self) {
        self.inner.table.borrow_mut().clear();
        self.inner.missing.take();
        debug_assert!(!self.has_missing(), "nothing is wanted of what has changed");
    }

    /// Returns true if objects are missing, to be fetched.
    pub fn has_missing(&self) -> bool {
        !self.inner.missing.borrow().lookups.is_empty()
    }

    /// Fetches all missing objects. At least the last that was missed is found afterwards, and all
    /// where the cache has room for them.
    ///
    /// # Errors
    /// Fails if an object is refused, or if a node or a rank is lost.
    pub fn fetch(&self) -> Result<()> {
        let MissingObjects { lookups, by_segment, .. } = self.inner.missing.take();
        if lookups.is_empty() {
            return Ok(());
        }
        debug_assert!(!by_segment.is_empty(), "each object is somewhere");
        let groups: Vec<MissingGroup> = by_segment.into_values().collect();
        let mut answers: Vec<_> = groups.iter().map(|group| vec![0; group.bytes]).collect();
        let pgas = &self.inner.pgas.inner;
        let is_collected = pgas.aggregates();
        pgas.wait(|| {
            Ok(pgas.rma.phase(|phase| {
                for (group, answer) in groups.iter().zip(&mut answers) {
                    if is_collected {
                        phase.gather(&group.peer.target, &group.ranges, answer)?;
                        continue;
                    }
                    let mut rest = &mut answer[..];
                    for range in &group.ranges {
                        let (to, later) = rest.split_at_mut(range.bytes() as usize);
                        phase.get_bytes(&group.peer.target, range.offset(), to)?;
                        rest = later;
                    }
                }
                Ok(())
            })?)
        })?;
        let mut requests = self.inner.requests.borrow_mut();
        let mut table = self.inner.table.borrow_mut();
        debug_assert_eq!(groups.len(), answers.len(), "an answer for each");
        requests.rounds += 1;
        requests.batches += groups.len() as u64;
        for (group, answer) in groups.iter().zip(&answers) {
            let mut rest = &answer[..];
            for (key, range) in group.keys.iter().zip(&group.ranges) {
                let (object, later) = rest.split_at(range.bytes() as usize);
                table.insert(*key, object, lookups.get(key).copied().unwrap_or_default());
                rest = later;
            }
            debug_assert!(rest.is_empty(), "every byte belongs to an object");
            requests.objects += group.keys.len() as u64;
            requests.bytes += group.bytes as u64;
        }
        Ok(())
    }
}

impl MissingObjects {
    /// Adds an object. Returns false if there is no room for it in this round.
    fn add(&mut self, key: ObjectKey, (size, room): (usize, usize), peer: Rc<PeerSegment>) -> bool {
        debug_assert_eq!(key.1, peer.name().to_bits(), "the segment of the object");
        if let Some(lookups) = self.lookups.get_mut(&key) {
            *lookups += 1;
            return true;
        }
        if self.bytes + size > room && self.bytes > 0 {
            return false;
        }
        debug_assert!(size <= room, "one object has room");
        self.bytes += size;
        self.lookups.insert(key, 1);
        let group = self.by_segment.entry(peer.name()).or_insert_with(|| {
            let (keys, ranges) = Default::default();
            MissingGroup { peer, keys, ranges, bytes: 0 }
        });
        group.keys.push(key);
        group.ranges.push(Range::new(key.2, size as u64));
        group.bytes += size;
        debug_assert_eq!(group.keys.len(), group.ranges.len(), "a range for each");
        debug_assert!(group.bytes <= self.bytes, "a part of all");
        true
    }
}

impl<T: Element> CacheClass<T> {
    /// Returns the counts of lookups.
    pub fn counts(&self) -> CacheCounts {
        let mut table = self.cache.inner.table.borrow_mut();
        let counts = table.counts_mut(self.class).copied().unwrap_or_default();
        CacheCounts { near: self.near.get(), ..counts }
    }

    /// Returns an object, if it is in memory of this node or there is a copy. Else it is missing:
    /// the next [`ObjectCache::fetch`] requests it.
    ///
    /// # Errors
    /// Fails if it does not exist, or, in memory of this node, if that is not exported any more.
    #[inline]
    pub fn find(&self, at: GlobalRef<'_, T>) -> Result<Option<T>> {
        let peer = at.peer()?;
        if peer.target.is_near() {
            self.near.set(self.near.get() + 1);
            return read_from(&peer.target, at.offset).map(Some);
        }
        let read = |copy: &[u8]| T::read_from_bytes(copy).map_err(|_| ErrorKind::BadArguments);
        Ok(self.look_up(at, size_of::<T>(), read)?.transpose()?)
    }

    /// Runs `read` on the copy of an object of another node, or has it fetched.
    #[inline]
    fn look_up<R>(
        &self,
        at: GlobalRef<'_, T>,
        size: usize,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let peer = at.peer()?;
        debug_assert!(size > 0, "an object has bytes");
        let inner = &self.cache.inner;
        let mut table = inner.table.borrow_mut();
        debug_assert!(!peer.target.is_near(), "there are no copies of memory of this node");
        let key = (self.class, peer.name().to_bits(), at.offset);
        if let Some(copy) = table.find(key) {
            debug_assert_eq!(copy.len(), size, "objects of a class have one size");
            return Ok(Some(read(copy)));
        }
        // Most lookups end before this: what follows is paid for by a fetch.
        let peer = at.into_peer()?;
        let room = (size, table.capacity());
        debug_assert!(room.0 <= room.1, "classes raise the capacity");
        let is_queued = inner.missing.borrow_mut().add(key, room, peer);
        if let Some(counts) = table.counts_mut(self.class).filter(|_| is_queued) {
            counts.misses += 1;
        }
        Ok(None)
    }

    /// Returns an object, and waits for it if it is missing.
    ///
    /// # Errors
    /// Fails as [`CacheClass::find`] and [`ObjectCache::fetch`] do.
    pub fn get(&self, array: &Spread<T>, index: usize) -> Result<T> {
        loop {
            if let Some(object) = self.find(array.at(index))? {
                return Ok(object);
            }
            debug_assert!(self.cache.has_missing(), "it is fetched");
            self.cache.fetch()?;
        }
    }

    /// Returns objects, and waits for those that are missing, all at once.
    ///
    /// # Errors
    /// Fails as [`CacheClass::get`] does.
    pub fn get_many(&self, array: &Spread<T>, indexes: &[usize]) -> Result<Vec<T>> {
        let mut found = vec![T::new_zeroed(); indexes.len()];
        let mut left: Vec<usize> = (0..indexes.len()).collect();
        while !left.is_empty() {
            let mut missing = Vec::new();
            for at in left {
                let (Some(&index), Some(to)) = (indexes.get(at), found.get_mut(at)) else {
                    continue;
                };
                match self.find(array.at(index))? {
                    Some(object) => *to = object,
                    None => missing.push(at),
                }
            }
            debug_assert!(missing.is_empty() || self.cache.has_missing(), "it will be there");
            left = missing;
            self.cache.fetch()?;
        }
        debug_assert_eq!(found.len(), indexes.len(), "an object for each");
        Ok(found)
    }
}

impl ByteClass {
    /// Returns the bytes of an object.
    pub fn bytes(&self) -> usize {
        self.size
    }

    /// Returns the counts of lookups.
    pub fn counts(&self) -> CacheCounts {
        self.class.counts()
    }

    /// Copies the object that begins where a pointer points, if it is in memory of this node or
    /// there is a copy, and returns true. Else it is missing, as in [`CacheClass::find`].
    ///
    /// # Errors
    /// Fails if it is not inside the pointer's memory, or if `to` has another size; or as
    /// [`CacheClass::find`] does.
    pub fn find(&self, pointer: GlobalPtr<u8>, to: &mut [u8]) -> Result<bool> {
        pointer.check(self.size)?;
        if to.len() != self.size {
            return Err(ErrorKind::BadArguments.into());
        }
        let at = self.class.cache.inner.pgas.at(pointer)?;
        debug_assert_eq!(at.offset, pointer.offset(), "the element that it points to");
        if at.is_near() {
            self.class.near.set(self.class.near.get() + 1);
            at.peer()?.target.get_bytes(at.offset, to)?;
            return Ok(true);
        }
        debug_assert_eq!(to.len(), self.size, "room for one object");
        let copied = self.class.look_up(at, self.size, |copy| to.copy_from_slice(copy))?;
        Ok(copied.is_some())
    }

    /// Copies the object that begins where a pointer points, and waits for it if it is missing.
    ///
    /// # Errors
    /// Fails as [`ByteClass::find`] and [`ObjectCache::fetch`] do.
    pub fn get(&self, pointer: GlobalPtr<u8>, to: &mut [u8]) -> Result<()> {
        while !self.find(pointer, to)? {
            debug_assert!(self.class.cache.has_missing(), "it is fetched");
            self.class.cache.fetch()?;
        }
        Ok(())
    }
}
