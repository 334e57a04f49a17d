//! The memory of a node: created by the agent, attached by ranks, watched by observers.

use crate::block::EndpointBlock;
use crate::geometry::{ENDPOINT_HEADER, ENDPOINTS, Geometry, MAX_RANKS};
use crate::job::{Death, JobBlock};
use crate::rank::{ArrivalLine, RankBlock, RankState};
use crate::shared::{Shared, SharedLayout, SharedSlice};
use crate::{Error, Result};
use clump_os::fence::{self, FenceKind};
use clump_os::map::{self, Mapping, PAGE};
use clump_os::sync::Ordering;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

const MAGIC: u64 = u64::from_le_bytes(*b"clumpnod");
/// Layout version; processes of different builds refuse each other.
const VERSION: u64 = 1;
const _: () = assert!(size_of::<JobBlock>() <= PAGE && size_of::<RankBlock>() <= PAGE);

/// What the creator of a node's memory decides for everybody.
#[derive(Debug, Clone, Copy)]
pub struct NodeConfig {
    /// Ranks on the node.
    pub ranks: usize,
    /// Random identity of the job.
    pub job_id: u64,
    /// Survivors go on after a death, and get their messages to the dead returned.
    pub survive: bool,
    /// How long a waiting rank spins before it yields, in ns.
    pub spin_ns: u64,
    /// How long it yields before it sleeps, in ns.
    pub yield_ns: u64,
}

/// The shared memory of one node.
#[derive(Debug, Clone)]
pub struct NodeMemory {
    fd: Arc<OwnedFd>,
    geometry: Geometry,
    front: Mapping,
    job: Shared<JobBlock>,
    fence: FenceKind,
    read_only: bool,
}

impl NodeMemory {
    /// Creates the memory of a node: a sealed, nameless, sparse file.
    pub fn create(config: &NodeConfig) -> Result<Self> {
        let geometry = Geometry::for_ranks(config.ranks)
            .ok_or(Error::RankCount { asked: config.ranks, most: MAX_RANKS })?;
        let fd = map::sealed_memory("clump-node", geometry.total_bytes())?;
        let fence = fence::register();
        let node = Self::over(fd, geometry, fence, false)?;
        let job = &node.job;
        job.version.store(VERSION, Ordering::Relaxed);
        job.ranks.store(config.ranks as u64, Ordering::Relaxed);
        job.job_id.store(config.job_id, Ordering::Relaxed);
        job.survive.store(u32::from(config.survive), Ordering::Relaxed);
        job.spin_ns.store(config.spin_ns, Ordering::Relaxed);
        job.yield_ns.store(config.yield_ns, Ordering::Relaxed);
        job.symmetric_fence.store(u32::from(fence == FenceKind::Symmetric), Ordering::Relaxed);
        job.magic.store(MAGIC, Ordering::Release);
        Ok(node)
    }

    /// Attaches to memory that another process created. Refuses files that could shrink, that are
    /// not a clump node, or that another build laid out differently.
    pub fn attach(fd: OwnedFd) -> Result<Self> {
        let node = Self::open(fd, false)?;
        if node.fence == FenceKind::Asymmetric && fence::register() == FenceKind::Symmetric {
            return Err(Error::NotANode("this process may not use membarrier, but its job does"));
        }
        Ok(node)
    }

    /// Attaches to watch only.
    pub fn observe(fd: OwnedFd) -> Result<Self> {
        Self::open(fd, true)
    }

    fn open(fd: OwnedFd, read_only: bool) -> Result<Self> {
        let bytes =
            map::sealed_size(fd.as_fd())?.ok_or(Error::NotANode("it is not a sealed memfd"))?;
        if bytes < PAGE as u64 {
            return Err(Error::NotANode("it is too short"));
        }
        let page = Mapping::read_only(&fd, 0, PAGE)?;
        let job: Shared<JobBlock> = place(&page, 0)?;
        if job.magic.load(Ordering::Acquire) != MAGIC {
            return Err(Error::NotANode("it does not begin with clump's mark"));
        }
        let found = job.version.load(Ordering::Relaxed);
        if found != VERSION {
            return Err(Error::OtherVersion { found, ours: VERSION });
        }
        let ranks = usize::try_from(job.ranks.load(Ordering::Relaxed)).unwrap_or(0);
        let geometry = Geometry::for_ranks(ranks)
            .filter(|g| g.total_bytes() == bytes)
            .ok_or(Error::NotANode("its size does not fit its number of ranks"))?;
        let symmetric = job.symmetric_fence.load(Ordering::Relaxed) != 0;
        let fence = if symmetric { FenceKind::Symmetric } else { FenceKind::Asymmetric };
        Self::over(fd, geometry, fence, read_only)
    }

    fn over(fd: OwnedFd, geometry: Geometry, fence: FenceKind, read_only: bool) -> Result<Self> {
        let map = if read_only { Mapping::read_only } else { Mapping::shared };
        let front = map(fd.as_fd(), 0, geometry.front_bytes())?;
        let job = place(&front, 0)?;
        Ok(Self { fd: Arc::new(fd), geometry, front, job, fence, read_only })
    }

    /// The memory file, to be passed on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where things lie.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Ranks on the node.
    pub fn ranks(&self) -> usize {
        self.geometry.ranks()
    }

    /// How this job orders "publish, then look for sleepers".
    pub fn fence(&self) -> FenceKind {
        self.fence
    }

    /// The job block.
    pub fn job(&self) -> &Shared<JobBlock> {
        &self.job
    }

    /// How long to spin and how long to yield before sleeping, in ns.
    pub fn patience_ns(&self) -> (u64, u64) {
        let spin = self.job.spin_ns.load(Ordering::Relaxed);
        (spin, self.job.yield_ns.load(Ordering::Relaxed))
    }

    /// The block of `rank`; `None` beyond the last.
    pub fn rank(&self, rank: u32) -> Option<Shared<RankBlock>> {
        let index = usize::try_from(rank).ok().filter(|&r| r < self.ranks())?;
        place(&self.front, self.geometry.rank_block(index)).ok()
    }

    /// The barrier lines of all ranks.
    pub(crate) fn arrivals(&self) -> Result<SharedSlice<ArrivalLine>> {
        place_slice(&self.front, self.geometry.arrivals(), self.ranks())
    }

    /// All rank blocks, in order.
    pub fn rank_blocks(&self) -> impl Iterator<Item = Shared<RankBlock>> + '_ {
        (0..self.ranks()).filter_map(|r| self.rank(u32::try_from(r).ok()?))
    }

    /// The blocks of all endpoints that `rank` ever opened, closed ones included, for observers.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn endpoint_blocks(&self, rank: u32) -> Result<Vec<Shared<EndpointBlock>>> {
        let mut blocks = Vec::new();
        for index in 0..ENDPOINTS {
            let offset = self.geometry.endpoint(rank as usize, index);
            let block: Shared<EndpointBlock> = place(&self.map(offset, ENDPOINT_HEADER)?, 0)?;
            // Indices are taken from the lowest, so the first that was never used ends the list.
            if rank as usize >= self.ranks() || block.generation() == 0 {
                break;
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Declares a rank dead, and wakes everybody so that they notice. For the agent only; the first
    /// death is kept as the job's.
    pub fn declare_dead(&self, death: Death) {
        let Some(block) = self.rank(death.rank) else { return };
        if block.state() == RankState::Dead {
            return;
        }
        block.mark_dead(death);
        let fate = &self.job.fate;
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = fate.first_death.compare_exchange(0, death.pack(), new, old);
        fate.deaths.fetch_add(1, Ordering::AcqRel);
        self.wake_all();
    }

    /// Wakes every sleeping rank.
    pub fn wake_all(&self) {
        for block in self.rank_blocks() {
            block.park().wake();
        }
    }

    /// How a rank died, if it did.
    #[inline]
    pub fn death_of(&self, rank: u32) -> Option<Death> {
        if self.job.deaths() == 0 {
            return None;
        }
        self.rank(rank).and_then(|block| block.death())
    }

    /// Maps `[offset, offset + bytes)` of the node's memory.
    pub(crate) fn map(&self, offset: u64, bytes: usize) -> Result<Mapping> {
        let map = if self.read_only { Mapping::read_only } else { Mapping::shared };
        Ok(map(self.fd.as_fd(), offset, bytes)?)
    }
}

/// A `T` at `offset` of a mapping.
pub(crate) fn place<T: SharedLayout>(map: &Mapping, offset: usize) -> Result<Shared<T>> {
    let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= map.bytes());
    if !fits || !offset.is_multiple_of(align_of::<T>()) {
        return Err(Error::NotANode("a part lies outside of it"));
    }
    // SAFETY: in bounds and aligned (just checked; mappings are page aligned), kept by the mapping.
    Ok(unsafe { Shared::new(at(map, offset).cast(), Arc::new(map.clone())) })
}

/// `len` times `T` at `offset` of a mapping.
pub(crate) fn place_slice<T: SharedLayout>(
    map: &Mapping,
    offset: usize,
    len: usize,
) -> Result<SharedSlice<T>> {
    let end = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
    if end.is_none_or(|end| end > map.bytes()) || !offset.is_multiple_of(align_of::<T>()) {
        return Err(Error::NotANode("a part lies outside of it"));
    }
    // SAFETY: in bounds and aligned (just checked), kept by the mapping.
    Ok(unsafe { SharedSlice::new(at(map, offset).cast(), len, Arc::new(map.clone())) })
}

/// The address of `offset`, which the caller has checked to lie inside `map`.
fn at(map: &Mapping, offset: usize) -> NonNull<u8> {
    debug_assert!(offset <= map.bytes());
    // SAFETY: callers checked that offset lies inside the mapping.
    unsafe { map.base().add(offset) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::How;

    fn node(ranks: usize) -> NodeMemory {
        let config = NodeConfig { ranks, job_id: 7, survive: false, spin_ns: 1, yield_ns: 1 };
        NodeMemory::create(&config).unwrap()
    }

    #[test]
    fn an_attached_node_sees_what_its_creator_wrote() {
        let made = node(3);
        let seen = NodeMemory::attach(made.fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(seen.ranks(), 3);
        assert_eq!(seen.job().id(), 7);
        seen.rank(2).unwrap().join(42).unwrap();
        assert_eq!(made.rank(2).unwrap().state(), RankState::Joined);
        assert_eq!(made.rank(2).unwrap().join(43), Err(42));
        assert!(seen.rank(3).is_none());
    }

    #[test]
    fn the_first_death_is_kept() {
        let node = node(4);
        node.declare_dead(Death { rank: 2, how: How::Signal(9) });
        node.declare_dead(Death { rank: 1, how: How::Exit(3) });
        node.declare_dead(Death { rank: 1, how: How::Exit(4) });
        assert_eq!(node.job().first_death(), Some(Death { rank: 2, how: How::Signal(9) }));
        assert_eq!(node.death_of(1), Some(Death { rank: 1, how: How::Exit(3) }));
        assert_eq!(node.job().deaths(), 2);
        assert_eq!(node.death_of(0), None);
    }

    #[test]
    fn foreign_files_are_refused() {
        let short = map::sealed_memory("x", 100).unwrap();
        assert!(NodeMemory::attach(short).is_err());
        let blank = map::sealed_memory("x", 1 << 20).unwrap();
        assert!(NodeMemory::attach(blank).is_err());
    }
}
