//! The table of a cache: copies of objects in bounded memory, and which of them goes when another
//! needs room. Pure.

use rustc_hash::FxHashMap;

/// Object in global memory: its class, its segment, and its offset there.
pub(crate) type ObjectKey = (u32, u64, u64);

/// Lookups of the objects of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Lookups of objects in memory of this node, of which there are no copies.
    pub near: u64,
    /// Lookups that found a copy.
    pub hits: u64,
    /// Lookups for which an object was fetched.
    pub misses: u64,
    /// Copies that gave way to others.
    pub evicted: u64,
}

/// Objects of one size, and the memory of their copies.
#[derive(Debug, Default)]
struct ObjectClass {
    size: usize,
    bytes: Vec<u8>,
    /// Copies that there is room for and that were evicted, by number.
    free: Vec<usize>,
    counts: CacheCounts,
}

/// A place in the ring of the clock.
#[derive(Debug, Clone, Copy)]
struct KeptObject {
    key: ObjectKey,
    /// Number of the copy in the memory of its class.
    copy: usize,
    is_live: bool,
    /// True if it was found since the hand passed.
    is_used: bool,
    /// Lookups that were misses and come again.
    repeated: u32,
}

/// Copies of objects, replaced by second chance: a hand goes round, and evicts the first that was
/// not found since it passed. An object is inserted behind the hand, so that the last ones inserted
/// are there when those that missed them look again.
#[derive(Debug)]
pub(crate) struct CacheTable {
    capacity: usize,
    taken: usize,
    classes: Vec<ObjectClass>,
    places: FxHashMap<ObjectKey, usize>,
    ring: Vec<KeptObject>,
    vacant: Vec<usize>,
    hand: usize,
}

impl CacheTable {
    /// Creates a table for `capacity` bytes of objects.
    pub(crate) fn new(capacity: usize) -> Self {
        let (classes, places, ring, vacant) = Default::default();
        Self { capacity, taken: 0, classes, places, ring, vacant, hand: 0 }
    }

    /// Adds a class of objects of `size` bytes. The capacity is that of one object at least.
    pub(crate) fn add_class(&mut self, size: usize) -> u32 {
        self.capacity = self.capacity.max(size);
        debug_assert!(size > 0, "an object has bytes");
        self.classes.push(ObjectClass { size, ..Default::default() });
        self.classes.len() as u32 - 1
    }

    /// Returns the most bytes of copies.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn counts_mut(&mut self, class: u32) -> Option<&mut CacheCounts> {
        Some(&mut self.classes.get_mut(class as usize)?.counts)
    }

    /// Looks an object up. Counts a hit if it is there, unless it was fetched for this lookup.
    pub(crate) fn find(&mut self, key: ObjectKey) -> Option<&[u8]> {
        let place = self.places.get(&key)?;
        let kept = self.ring.get_mut(*place)?;
        debug_assert!(kept.is_live && kept.key == key, "the map has what is in the ring");
        let class = self.classes.get_mut(key.0 as usize)?;
        debug_assert!(class.size <= self.taken, "its copy is counted");
        if kept.repeated > 0 {
            kept.repeated -= 1;
        } else {
            class.counts.hits += 1;
        }
        kept.is_used = true;
        let begin = kept.copy * class.size;
        class.bytes.get(begin..begin + class.size)
    }

    /// Inserts an object that `misses` lookups have missed, and evicts others for it.
    pub(crate) fn insert(&mut self, key: ObjectKey, object: &[u8], misses: u32) {
        let size = object.len();
        debug_assert!(size <= self.capacity, "classes raise the capacity");
        if self.places.contains_key(&key) {
            return;
        }
        while self.taken + size > self.capacity && self.taken > 0 {
            self.evict_one();
        }
        debug_assert!(self.taken + size <= self.capacity, "an object fits alone");
        let Some(class) = self.classes.get_mut(key.0 as usize) else { return };
        debug_assert_eq!(class.size, size, "objects of a class have one size");
        let copy = class.free.pop().unwrap_or_else(|| {
            class.bytes.resize(class.bytes.len() + size, 0);
            class.bytes.len() / size.max(1) - 1
        });
        if let Some(to) = class.bytes.get_mut(copy * size..(copy + 1) * size) {
            to.copy_from_slice(object);
        }
        debug_assert!((copy + 1) * size <= class.bytes.len(), "a copy has its bytes");
        self.taken += size;
        let kept = KeptObject { key, copy, is_live: true, is_used: false, repeated: misses };
        let place = self.vacant.pop().unwrap_or(self.ring.len());
        match self.ring.get_mut(place) {
            Some(vacant) => *vacant = kept,
            None => self.ring.push(kept),
        }
        self.places.insert(key, place);
        debug_assert_eq!(self.places.len() + self.vacant.len(), self.ring.len(), "a place each");
    }

    /// Turns the hand to the first copy that was not used, and evicts it.
    fn evict_one(&mut self) {
        debug_assert!(self.hand <= self.ring.len(), "the hand is in the ring");
        // The second turn finds no copy used.
        for _ in 0..=2 * self.ring.len() {
            let place = self.hand;
            self.hand = if place + 1 < self.ring.len() { place + 1 } else { 0 };
            let Some(kept) = self.ring.get_mut(place).filter(|kept| kept.is_live) else { continue };
            if std::mem::take(&mut kept.is_used) {
                continue;
            }
            kept.is_live = false;
            let (key, copy) = (kept.key, kept.copy);
            self.vacant.push(place);
            self.places.remove(&key);
            if let Some(class) = self.classes.get_mut(key.0 as usize) {
                class.free.push(copy);
                class.counts.evicted += 1;
                debug_assert!(self.taken >= class.size, "it was counted when it was inserted");
                self.taken -= class.size;
            }
            return;
        }
        debug_assert!(self.places.is_empty(), "a turn finds a copy to evict");
    }

    /// Forgets all objects. Counts and classes stay.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.ring.clear();
        self.vacant.clear();
        (self.taken, self.hand) = (0, 0);
        for class in &mut self.classes {
            class.bytes.clear();
            class.free.clear();
        }
        debug_assert_eq!(self.taken, 0, "nothing is kept");
        debug_assert!(self.ring.is_empty() && self.places.is_empty(), "nothing is found");
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheCounts, CacheTable};
    use proptest::prelude::{prop, proptest};
    use std::collections::HashMap;

    fn has(table: &mut CacheTable, at: u64) -> bool {
        table.find((0, 0, at)).is_some()
    }

    #[test]
    fn the_first_that_was_not_found_gives_way() {
        let mut table = CacheTable::new(32);
        assert_eq!(table.add_class(8), 0);
        for at in 0..4 {
            table.insert((0, 0, at), &[at as u8; 8], 0);
        }
        assert!(has(&mut table, 0) && has(&mut table, 2));
        table.insert((0, 0, 9), &[9; 8], 0);
        table.insert((0, 0, 10), &[10; 8], 0);
        let there: Vec<u64> = (0..12).filter(|&at| has(&mut table, at)).collect();
        assert_eq!(there, [0, 2, 9, 10]);
        assert_eq!(table.counts_mut(0).unwrap().evicted, 2);
    }

    #[test]
    fn lookups_that_an_object_was_fetched_for_are_no_hits() {
        let mut table = CacheTable::new(8);
        let class = table.add_class(16);
        assert_eq!(table.capacity(), 16, "an object fits");
        table.insert((class, 1, 2), &[7; 16], 2);
        for _ in 0..5 {
            assert_eq!(table.find((class, 1, 2)), Some(&[7; 16][..]));
        }
        let expected = CacheCounts { hits: 3, ..Default::default() };
        assert_eq!(*table.counts_mut(class).unwrap(), expected);
        table.clear();
        assert_eq!(table.find((class, 1, 2)), None);
    }

    proptest! {
        #[test]
        fn copies_are_right_fit_and_the_last_is_there(
            capacity in 0..400_usize,
            objects in prop::collection::vec((0..3_u32, 0..40_u64), 1..300),
        ) {
            let sizes = [8, 24, 64];
            let mut table = CacheTable::new(capacity);
            let classes = sizes.map(|size| table.add_class(size));
            assert_eq!(classes, [0, 1, 2]);
            let mut inserted: HashMap<_, u8> = HashMap::new();
            for (turn, (class, at)) in objects.into_iter().enumerate() {
                let key = (class, 5, at);
                let size = sizes[class as usize];
                if table.find(key).is_none() {
                    table.insert(key, &vec![turn as u8; size], 0);
                    inserted.insert(key, turn as u8);
                }
                assert_eq!(table.find(key), Some(&vec![inserted[&key]; size][..]));
                let kept = inserted.iter().filter(|(key, _)| table.places.contains_key(*key));
                let bytes: usize = kept.map(|(key, _)| sizes[key.0 as usize]).sum();
                assert!(bytes == table.taken && bytes <= table.capacity());
                let memory: usize = table.classes.iter().map(|class| class.bytes.len()).sum();
                assert!(memory <= 3 * table.capacity());
            }
        }
    }
}
