//! The tree in global memory, and its sums.

use crate::barnes::body_store::{BodyStore, Leaf};
use crate::barnes::near_tree::NearTree;
use crate::recent_copies::RecentCopies;
use crate::traffic::Traffic;
use anyhow::{Result, ensure};
use clump::pgas::{
    CacheClass, CacheCounts, CacheRequests, Element, GlobalError, GlobalResult, Layout, LockArray,
    LockKind, ObjectCache, Pgas, Spread,
};
use clump_app_frame::barnes::body::PlacedMass;
use clump_app_frame::barnes::moments::{self, CellMoments};
use clump_app_frame::barnes::walk::{OctantChild, OctantWord, PartialOctree};
use std::cell::RefCell;

/// Most locks of a rank; cells that share one are inserted into one after the other.
const MAX_LOCKS: usize = 4096;
/// Places for copies of cells and bodies that were read last, of each kind: what a walk shares with
/// that of the next body, and a part of the processor's cache.
const RECENT: usize = 8192;
/// Cells that are summed up together.
const SUMMED: usize = 2048;

/// Parts of a cell, by octant.
pub type Octants = [OctantWord; 8];

/// The tree of all ranks. Each makes cells in a part of the arrays of its own.
#[derive(Debug)]
pub struct GlobalOctree {
    gas: Pgas,
    bodies: BodyStore,
    octants: Spread<Octants>,
    moments: Spread<CellMoments>,
    locks: LockArray,
    cache: ObjectCache,
    octant_class: CacheClass<Octants>,
    moment_class: CacheClass<CellMoments>,
    recent_octants: RecentCopies<Octants>,
    recent_moments: RecentCopies<CellMoments>,
    recent_bodies: RecentCopies<PlacedMass>,
    /// Copies of what this node's ranks have, for walks.
    near: NearTree,
    /// Cells that a rank can make.
    per_rank: usize,
    /// Cells that this rank has made, with their levels.
    made: RefCell<Vec<(usize, usize)>>,
    traffic: RefCell<Traffic>,
}

impl GlobalOctree {
    /// Allocates a tree of so many bodies, with a cache of so many bytes. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank is lost.
    pub fn allocate(
        gas: &Pgas,
        bodies: usize,
        kind: LockKind,
        (cache_bytes, traffic): (usize, Traffic),
    ) -> Result<Self> {
        let cache = ObjectCache::new(gas, cache_bytes);
        let bodies = BodyStore::allocate(gas, &cache, bodies)?;
        let per_rank = bodies.per_rank() + 1024;
        let cells = per_rank * gas.nranks();
        Ok(Self {
            gas: gas.clone(),
            octants: gas.spread(cells, Layout::Block)?,
            moments: gas.spread(cells, Layout::Block)?,
            locks: LockArray::create(gas, per_rank.min(MAX_LOCKS) * gas.nranks(), kind)?,
            octant_class: cache.class(),
            moment_class: cache.class(),
            recent_octants: RecentCopies::new(RECENT),
            recent_moments: RecentCopies::new(RECENT),
            recent_bodies: RecentCopies::new(RECENT),
            near: NearTree::default(),
            cache,
            bodies,
            per_rank,
            made: RefCell::default(),
            traffic: RefCell::new(traffic),
        })
    }

    /// Returns the bodies.
    pub fn bodies(&self) -> &BodyStore {
        &self.bodies
    }

    /// Returns the bodies, to change them.
    pub fn bodies_mut(&mut self) -> &mut BodyStore {
        &mut self.bodies
    }

    /// Returns the cache of cells and bodies.
    pub fn cache(&self) -> &ObjectCache {
        &self.cache
    }

    /// Returns the locks of cells.
    pub fn locks(&self) -> &LockArray {
        &self.locks
    }

    /// Returns messages so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic.borrow().clone()
    }

    /// Returns lookups of the parts of cells, of their sums, and of bodies; and requests for them.
    pub fn lookups(&self) -> ([CacheCounts; 3], CacheRequests) {
        let with =
            |counts: CacheCounts, recent: u64| CacheCounts { hits: counts.hits + recent, ..counts };
        let counts = [
            with(self.octant_class.counts(), self.recent_octants.far_hits()),
            with(self.moment_class.counts(), self.recent_moments.far_hits()),
            with(self.bodies.leaf_class().counts(), self.recent_bodies.far_hits()),
        ];
        (counts, self.cache.requests())
    }

    /// Forgets all cells of this rank, and all copies of others.
    pub fn clear(&mut self) {
        self.made.borrow_mut().clear();
        self.cache.invalidate();
        self.recent_octants.clear();
        self.recent_moments.clear();
        self.recent_bodies.clear();
        self.near.clear();
    }

    /// Copies what this node's ranks have of the tree, for the walks that follow: until
    /// [`GlobalOctree::clear`] it does not change. A collective.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn copy_near(&mut self) -> Result<()> {
        let counts = [self.made() as u64, self.bodies.own().len() as u64];
        let counts = self.gas.team().all_gather(counts)?;
        let is_near = |rank: usize| self.octants.at(rank * self.per_rank).is_near();
        let me = self.gas.rank();
        let first = (0..me).rev().take_while(|rank| is_near(*rank)).last().unwrap_or(me);
        let near = counts.iter().enumerate().skip(first).take_while(|(rank, _)| is_near(*rank));
        let (cells, bodies): (Vec<usize>, Vec<usize>) =
            near.map(|(_, [cells, bodies])| (*cells as usize, *bodies as usize)).unzip();
        self.near.octants.copy(&self.gas, &self.octants, (first, &cells))?;
        self.near.moments.copy(&self.gas, &self.moments, (first, &cells))?;
        self.near.leaves.copy(&self.gas, self.bodies.leaves(), (first, &bodies))
    }

    /// Returns the number of cells that this rank has made.
    pub fn made(&self) -> usize {
        self.made.borrow().len()
    }

    /// Returns the largest level of a cell that this rank has made.
    pub fn deepest(&self) -> usize {
        self.made.borrow().iter().map(|(_, level)| *level).max().unwrap_or(0)
    }

    /// Makes a cell of this rank, at `level`, with the parts `octants`.
    ///
    /// # Errors
    /// Fails if this rank has made as many as it can.
    pub fn make(&self, level: usize, octants: &Octants) -> Result<usize> {
        let mut made = self.made.borrow_mut();
        ensure!(made.len() < self.per_rank, "a rank needs more than {} cells", self.per_rank);
        self.octants.local().set(made.len(), *octants)?;
        let cell = self.gas.rank() * self.per_rank + made.len();
        made.push((cell, level));
        Ok(cell)
    }

    fn owner(&self, cell: usize) -> usize {
        cell / self.per_rank
    }

    /// Returns the lock of a cell, at the rank that has made it. Counts its messages: to acquire
    /// it, and to give it back.
    pub fn lock_of(&self, cell: usize) -> usize {
        let (owner, each) = (self.owner(cell), self.per_rank.min(MAX_LOCKS));
        let mut traffic = self.traffic.borrow_mut();
        traffic.reads(owner, 1, 8);
        traffic.writes(owner, 1, 8);
        owner * each + cell % self.per_rank % each
    }

    /// Reads the parts of a cell from where it is, for a rank that holds its lock.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn locked_octants(&self, cell: usize) -> GlobalResult<Octants> {
        self.traffic.borrow_mut().reads(self.owner(cell), 1, size_of::<Octants>() as u64);
        self.octants.at(cell).read()
    }

    /// Begins to set one part of a cell, for a rank that holds its lock.
    ///
    /// # Errors
    /// Fails if there is no such cell.
    pub fn set_octant(&self, cell: usize, octant: usize, child: OctantChild) -> Result<()> {
        debug_assert!(octant < 8, "a cell has eight parts");
        self.traffic.borrow_mut().writes(self.owner(cell), 1, 8);
        let Some(begin) = self.octants.ptr(cell) else { return Ok(()) };
        let word = begin.cast::<OctantWord>().offset_by(octant as isize);
        Ok(self.gas.at(word)?.put(child.word())?)
    }

    /// Returns place, mass and cost of a body.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn leaf(&self, body: usize) -> Result<PlacedMass> {
        let [x, y, z, mass, _] = self.bodies.leaf_class().get(self.bodies.leaves(), body)?;
        Ok([x, y, z, mass])
    }

    /// Returns the parts of cells.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn octants_of(&self, cells: &[usize]) -> Result<Vec<Octants>> {
        Ok(self.octant_class.get_many(&self.octants, cells)?)
    }

    /// Returns the sums of parts of cells.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn moments_of(&self, children: &[OctantChild]) -> Result<Vec<CellMoments>> {
        let (mut bodies, mut cells) = (Vec::new(), Vec::new());
        for child in children {
            match *child {
                OctantChild::Body(body) => bodies.push(body),
                OctantChild::Cell(cell) => cells.push(cell),
            }
        }
        let leaves = self.bodies.leaf_class().get_many(self.bodies.leaves(), &bodies)?;
        let sums = self.moment_class.get_many(&self.moments, &cells)?;
        let (mut leaves, mut sums) = (leaves.into_iter(), sums.into_iter());
        let each = children.iter().filter_map(|child| match child {
            OctantChild::Body(_) => {
                leaves.next().map(|[x, y, z, mass, cost]| moments::of_body(&[x, y, z, mass], cost))
            }
            OctantChild::Cell(_) => sums.next(),
        });
        Ok(each.collect())
    }

    /// Sums the cells of this rank up, level by level, the deepest first; each level ends with a
    /// barrier. A collective: all ranks pass the deepest level of all.
    ///
    /// # Errors
    /// Fails if a rank is lost.
    pub fn sum_up(&self, deepest: usize) -> Result<()> {
        let first = self.gas.rank() * self.per_rank;
        for level in (0..=deepest).rev() {
            let made = self.made.borrow();
            let here = made.iter().filter(|(_, of)| *of == level);
            let here: Vec<usize> = here.map(|(cell, _)| *cell).collect();
            for cells in here.chunks(SUMMED) {
                let octants = self.octants_of(cells)?;
                let parts = |octants: &Octants| octants.map(OctantChild::of).into_iter().flatten();
                let children: Vec<OctantChild> = octants.iter().flat_map(parts).collect();
                let sums = self.moments_of(&children)?;
                let mut rest = &sums[..];
                for (cell, octants) in cells.iter().zip(&octants) {
                    let (these, behind) = rest.split_at(parts(octants).count());
                    self.moments.local().set(cell - first, moments::of_parts(these))?;
                    rest = behind;
                }
            }
            self.gas.barrier()?;
        }
        Ok(())
    }

    /// Counts an object that is fetched from a rank.
    fn fetched<T>(&self, owner: usize, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.traffic.borrow_mut().reads(owner, 1, size_of::<T>() as u64);
        }
        found
    }

    /// Finds an element that was not read lately, and keeps a copy: what `part` returns of it.
    #[inline(never)]
    fn find_again<T: Element, P: Element>(
        &self,
        (number, owner): (usize, usize),
        (class, array): (&CacheClass<T>, &Spread<T>),
        (recent, part): (&RecentCopies<P>, fn(T) -> P),
    ) -> GlobalResult<Option<P>> {
        let at = array.at(number);
        let is_far = !at.is_near();
        let found = self.fetched(owner, class.find(at)?).map(part);
        if let Some(found) = found {
            recent.keep(number, is_far, found);
        }
        Ok(found)
    }
}

impl PartialOctree for GlobalOctree {
    type Error = GlobalError;

    #[inline]
    fn try_octants(&self, cell: usize) -> GlobalResult<Option<Octants>> {
        if let Some(octants) = self.near.octants.get(cell) {
            return Ok(Some(*octants));
        }
        self.recent_octants.with(cell, |octants| Some(*octants)).or_else(|_| {
            let (at, of) = ((cell, self.owner(cell)), (&self.octant_class, &self.octants));
            self.find_again(at, of, (&self.recent_octants, |octants| octants))
        })
    }

    #[inline]
    fn with_moments<R>(
        &self,
        cell: usize,
        run: impl FnOnce(&CellMoments) -> R,
    ) -> GlobalResult<Option<R>> {
        if let Some(moments) = self.near.moments.get(cell) {
            return Ok(Some(run(moments)));
        }
        self.recent_moments.with(cell, run).map_or_else(
            |run| {
                let (at, of) = ((cell, self.owner(cell)), (&self.moment_class, &self.moments));
                let found = self.find_again(at, of, (&self.recent_moments, |moments| moments))?;
                Ok(found.as_ref().map(run))
            },
            |done| Ok(Some(done)),
        )
    }

    #[inline]
    fn try_placed(&self, body: usize) -> GlobalResult<Option<PlacedMass>> {
        if let Some([x, y, z, mass, _]) = self.near.leaves.get(body) {
            return Ok(Some([*x, *y, *z, *mass]));
        }
        self.recent_bodies.with(body, |placed| Some(*placed)).or_else(|_| {
            let of = (self.bodies.leaf_class(), self.bodies.leaves());
            let placed: fn(Leaf) -> PlacedMass = |[x, y, z, mass, _]| [x, y, z, mass];
            let at = (body, body / self.bodies.per_rank());
            self.find_again(at, of, (&self.recent_bodies, placed))
        })
    }
}
