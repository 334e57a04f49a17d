//! A scene whose objects and octree nodes are spread over all ranks, one by one.

use crate::pray::held_elements::HeldElements;
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

/// An array over all ranks, and copies of some of its elements.
#[derive(Debug)]
struct CachedArray<T> {
    array: Spread<T>,
    class: CacheClass<T>,
    held: HeldElements<T>,
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
        let most = (count as f64 * share) as usize;
        let own = array.local().to_vec()?;
        let held = HeldElements::new(&own, (gas.rank(), gas.nranks(), count), most);
        Ok(Self { array, class: cache.class(), held, missing: RefCell::default() })
    }

    /// Runs `run` on an element; true: it is another rank's. Where it is missing, calls `fetched`
    /// if the next fetch did not bring it before.
    #[inline]
    fn with<R>(
        &self,
        number: usize,
        run: impl FnOnce(&T) -> R,
        fetched: impl FnOnce(),
    ) -> GlobalResult<Option<(R, bool)>> {
        match self.held.with(number, run) {
            Ok(found) => Ok(Some(found)),
            Err(run) => {
                let found = self.find_in_cache(number, fetched)?;
                Ok(found.as_ref().map(|value| (run(value), true)))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn find_in_cache(&self, number: usize, fetched: impl FnOnce()) -> GlobalResult<Option<T>> {
        let element = self.array.at(number);
        let is_far = !element.is_near();
        let found = self.class.find(element)?;
        match found {
            Some(value) => self.held.keep(number, is_far, value),
            None if self.missing.borrow_mut().insert(number) => fetched(),
            None => {}
        }
        Ok(found)
    }

    /// Returns lookups, those of recent copies among them.
    fn counts(&self) -> CacheCounts {
        let counts = self.class.counts();
        CacheCounts { hits: counts.hits + self.held.far_hits(), ..counts }
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
        Ok(self.nodes.with(number, |node| *node, fetched)?.map(|(node, _)| node))
    }

    #[inline]
    fn with_shape<R>(
        &self,
        number: usize,
        run: impl FnOnce(&ObjectShape) -> R,
    ) -> GlobalResult<Option<R>> {
        let fetched = || self.fetched(number, size_of::<ObjectShape>());
        let Some((result, is_others)) = self.shapes.with(number, run, fetched)? else {
            return Ok(None);
        };
        // Without a branch: whose it is cannot be foretold.
        if let Some(reads) = self.reads.get(number) {
            reads.set(reads.get().saturating_add(is_others.into()));
        }
        Ok(Some(result))
    }

    #[inline]
    fn finish(&self, number: usize) -> GlobalResult<Option<ObjectFinish>> {
        let fetched = || self.fetched(number, size_of::<ObjectFinish>());
        Ok(self.finishes.with(number, |finish| *finish, fetched)?.map(|(finish, _)| finish))
    }
}
