//! A scene whose objects and octree nodes are spread over all ranks, one by one.

use crate::recent_copies::RecentCopies;
use crate::traffic::Traffic;
use anyhow::{Context, Result};
use clump::pgas::{
    CacheClass, CacheCounts, CacheRequests, Element, GlobalError, GlobalResult, Layout,
    ObjectCache, Pgas, Spread,
};
use clump_app_frame::rays::object::{ObjectFinish, ObjectShape};
use clump_app_frame::rays::octree::OctreeNode;
use clump_app_frame::rays::scene_world::{SceneHeader, WholeScene};
use clump_app_frame::rays::search::SceneParts;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// A scene in global memory, as one rank reads it.
#[derive(Debug)]
pub struct SpreadScene {
    gas: Pgas,
    header: SceneHeader,
    nodes: CachedArray<OctreeNode>,
    shapes: CachedArray<ObjectShape>,
    finishes: CachedArray<ObjectFinish>,
    cache: ObjectCache,
    cache_bytes: usize,
    /// Reads of the shape of each object of other ranks.
    reads: Vec<Cell<u32>>,
    traffic: RefCell<Traffic>,
}

/// Division by the number of ranks as a multiplication: it is part of every lookup, and takes a
/// third of the time of one.
#[derive(Debug, Clone, Copy)]
struct RankDivisor {
    ranks: u64,
    reciprocal: u64,
}

impl RankDivisor {
    /// Bits behind the point of the reciprocal. It is rounded up by less than 1, so quotients of
    /// numbers below 2^26 by up to 2^10 ranks are exact.
    const BITS: u32 = 36;
    const MAX_NUMBER: u64 = 1 << 26;

    fn new(ranks: usize) -> Self {
        let ranks = ranks.max(1) as u64;
        Self { ranks, reciprocal: (1_u64 << Self::BITS).div_ceil(ranks) }
    }

    /// Returns the rank of an element, and its place among those there.
    #[inline]
    fn place(self, number: usize) -> (usize, usize) {
        let number = number as u64;
        let place = if number < Self::MAX_NUMBER && self.ranks <= 1024 {
            (number * self.reciprocal) >> Self::BITS
        } else {
            number / self.ranks
        };
        ((number - place * self.ranks) as usize, place as usize)
    }
}

/// An array over all ranks, and copies of some of its elements.
#[derive(Debug)]
struct CachedArray<T> {
    array: Spread<T>,
    class: CacheClass<T>,
    /// Elements of this rank.
    own: Vec<T>,
    rank: usize,
    ranks: RankDivisor,
    recent: RecentCopies<T>,
    /// Elements that the next fetch brings.
    missing: RefCell<HashSet<usize>>,
}

/// Memory for copies: the cache, and for how many of an array's elements there is room in front
/// of it, as a share.
type CopyRoom<'a> = (&'a ObjectCache, f64);

impl<T: Element> CachedArray<T> {
    /// Allocates an array, and has rank 0 fill it. A collective.
    fn spread(gas: &Pgas, (cache, share): CopyRoom<'_>, count: usize, whole: &[T]) -> Result<Self> {
        let array = gas.spread(count, Layout::Cyclic)?;
        if gas.rank() == 0 {
            let ranks = gas.nranks();
            for rank in 0..ranks {
                let part: Vec<T> = whole.iter().skip(rank).step_by(ranks).copied().collect();
                if let Some(begin) = array.on(rank).filter(|_| !part.is_empty()) {
                    gas.bulk_put(begin, &part)?;
                }
            }
            gas.sync()?;
        }
        gas.barrier()?;
        let recent = RecentCopies::new((count as f64 * share) as usize);
        let (class, own, missing) = (cache.class(), array.local().to_vec()?, RefCell::default());
        Ok(Self {
            array,
            class,
            own,
            rank: gas.rank(),
            ranks: RankDivisor::new(gas.nranks()),
            recent,
            missing,
        })
    }

    /// Returns an element of this rank.
    #[inline]
    fn own(&self, number: usize) -> Option<&T> {
        let (rank, place) = self.ranks.place(number);
        if rank == self.rank { self.own.get(place) } else { None }
    }

    /// Runs `run` on an element. Where it is missing, calls `fetched` if the next fetch did not
    /// bring it before.
    #[inline]
    fn with<R>(
        &self,
        number: usize,
        run: impl FnOnce(&T) -> R,
        fetched: impl FnOnce(),
    ) -> GlobalResult<Option<R>> {
        match self.own(number) {
            Some(own) => Ok(Some(run(own))),
            None => self.of_others(number, run, fetched),
        }
    }

    /// Runs `run` on an element of another rank.
    #[inline]
    fn of_others<R>(
        &self,
        number: usize,
        run: impl FnOnce(&T) -> R,
        fetched: impl FnOnce(),
    ) -> GlobalResult<Option<R>> {
        match self.recent.with(number, run) {
            Ok(result) => Ok(Some(result)),
            Err(run) => Ok(self.find_in_cache(number, fetched)?.as_ref().map(run)),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_in_cache(&self, number: usize, fetched: impl FnOnce()) -> GlobalResult<Option<T>> {
        let element = self.array.at(number);
        let is_far = !element.is_near();
        let found = self.class.find(element)?;
        match found {
            Some(value) => self.recent.keep(number, is_far, value),
            None if self.missing.borrow_mut().insert(number) => fetched(),
            None => {}
        }
        Ok(found)
    }

    /// Returns lookups, those of recent copies among them.
    fn counts(&self) -> CacheCounts {
        let counts = self.class.counts();
        CacheCounts { hits: counts.hits + self.recent.far_hits(), ..counts }
    }
}

impl SpreadScene {
    /// Spreads a scene that rank 0 has, if it has one, with a cache of `cache` bytes at each rank,
    /// or of half the scene. Returns `None` if rank 0 has none. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank is lost.
    pub fn distribute(
        gas: &Pgas,
        whole: Option<&WholeScene>,
        cache: Option<usize>,
        traffic: Traffic,
    ) -> Result<Option<Self>> {
        let mut numbers = whole.map(|whole| whole.header.to_numbers()).unwrap_or_default();
        let mut counts = [0_u64; 3];
        if let Some(whole) = whole {
            counts = [numbers.len(), whole.nodes.len(), whole.shapes.len()].map(|it| it as u64);
        }
        gas.team().broadcast(0, &mut counts)?;
        let [head, nodes, objects] = counts.map(|count| count as usize);
        if objects == 0 {
            return Ok(None);
        }
        numbers.resize(head, 0.0);
        gas.team().broadcast(0, &mut numbers)?;
        let header = SceneHeader::from_numbers(&numbers).context("a scene without a head")?;
        let object_bytes = size_of::<ObjectShape>() + size_of::<ObjectFinish>();
        let bytes = nodes * size_of::<OctreeNode>() + objects * object_bytes;
        let cache_bytes = cache.unwrap_or(bytes / 2);
        // Most of the memory is that of recent copies.
        let recent_bytes = cache_bytes / 4 * 3;
        let objects_cache = ObjectCache::new(gas, cache_bytes - recent_bytes);
        let cache = (&objects_cache, recent_bytes as f64 / bytes.max(1) as f64);
        let shapes = whole.map(|whole| &whole.shapes[..]).unwrap_or_default();
        let shapes = CachedArray::spread(gas, cache, objects, shapes)?;
        let finishes = whole.map(|whole| &whole.finishes[..]).unwrap_or_default();
        let finishes = CachedArray::spread(gas, cache, objects, finishes)?;
        let octree = whole.map(|whole| &whole.nodes[..]).unwrap_or_default();
        let nodes = CachedArray::spread(gas, cache, nodes, octree)?;
        let (gas, traffic) = (gas.clone(), RefCell::new(traffic));
        let reads = vec![Cell::new(0); objects];
        let cache = objects_cache;
        Ok(Some(Self { gas, header, nodes, shapes, finishes, cache, cache_bytes, reads, traffic }))
    }

    /// Returns what all ranks have of the scene.
    pub fn header(&self) -> &SceneHeader {
        &self.header
    }

    /// Fetches all that is missing.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn fetch(&self) -> GlobalResult<()> {
        self.nodes.missing.borrow_mut().clear();
        self.shapes.missing.borrow_mut().clear();
        self.finishes.missing.borrow_mut().clear();
        self.cache.fetch()
    }

    /// Returns the bytes of copies that a rank has room for.
    pub fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }

    /// Returns the numbers of objects and nodes, and the bytes of both.
    pub fn sizes(&self) -> [usize; 3] {
        let (objects, nodes) = (self.shapes.array.len(), self.nodes.array.len());
        let object_bytes = size_of::<ObjectShape>() + size_of::<ObjectFinish>();
        [objects, nodes, objects * object_bytes + nodes * size_of::<OctreeNode>()]
    }

    /// Returns lookups of nodes, shapes and finishes; and requests for them.
    pub fn lookups(&self) -> ([CacheCounts; 3], CacheRequests) {
        let counts = [self.nodes.counts(), self.shapes.counts(), self.finishes.counts()];
        (counts, self.cache.requests())
    }

    /// Returns the reads of each object by this rank, but of its own.
    pub fn reads(&self) -> Vec<u64> {
        self.reads.iter().map(|reads| u64::from(reads.get())).collect()
    }

    /// Returns messages so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic.borrow().clone()
    }

    /// Returns the rank of an element.
    #[inline]
    fn owner(&self, number: usize) -> usize {
        number % self.gas.nranks()
    }

    /// Counts an object that is fetched from its rank.
    fn fetched(&self, number: usize, bytes: usize) {
        self.traffic.borrow_mut().bulk_read(self.owner(number), bytes as u64);
    }
}

impl SceneParts for SpreadScene {
    type Error = GlobalError;

    #[inline]
    fn node(&self, number: usize) -> GlobalResult<Option<OctreeNode>> {
        let fetched = || {
            let bytes = size_of::<OctreeNode>() as u64;
            self.traffic.borrow_mut().reads(self.owner(number), 1, bytes);
        };
        self.nodes.with(number, |node| *node, fetched)
    }

    #[inline]
    fn with_shape<R>(
        &self,
        number: usize,
        run: impl FnOnce(&ObjectShape) -> R,
    ) -> GlobalResult<Option<R>> {
        if let Some(own) = self.shapes.own(number) {
            return Ok(Some(run(own)));
        }
        let fetched = || self.fetched(number, size_of::<ObjectShape>());
        let result = self.shapes.of_others(number, run, fetched)?;
        if let Some(reads) = self.reads.get(number).filter(|_| result.is_some()) {
            reads.set(reads.get().saturating_add(1));
        }
        Ok(result)
    }

    #[inline]
    fn finish(&self, number: usize) -> GlobalResult<Option<ObjectFinish>> {
        let fetched = || self.fetched(number, size_of::<ObjectFinish>());
        self.finishes.with(number, |finish| *finish, fetched)
    }
}

#[cfg(test)]
mod tests {
    use super::RankDivisor;

    #[test]
    fn elements_go_round_all_ranks() {
        for ranks in [1, 2, 3, 7, 60, 1023, 1024, 1025, 5000] {
            let divisor = RankDivisor::new(ranks);
            let far = (0..27).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
            for number in (0..3000).chain(far) {
                let expected = (number % ranks, number / ranks);
                assert_eq!(divisor.place(number), expected, "{number} of {ranks}");
            }
        }
    }
}
