//! A segment of a rank or node, to operate on: words and atomics. Segments on this node are
//! accessed at once.

mod bulk;
mod many;
mod words;

use crate::error::{Refusal, Result, refused};
use crate::rma::{Inner, Rma};
use clump_onesided::{Word, note_store};
use clump_os::memory::{prefetch_at, prefetch_for_write};
use clump_os::sync::AtomicU64;
use clump_shm::cells::Cells;
use clump_shm::export::{SegmentName, SegmentOwner};
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

pub use bulk::{Signal, Strides};
pub use words::Pending;

/// A segment of any rank, or a region of any node, to operate on. Made by [`crate::Rma::target`];
/// belongs to the thread that made it.
#[derive(Debug)]
pub struct Target {
    pub(crate) inner: Rc<Inner>,
    pub(crate) name: SegmentName,
    pub(crate) node: u32,
    /// Behind a pointer, so that nothing of this itself ever changes: a loop keeps the fields that
    /// it needs in registers.
    pub(crate) near: Option<Box<Near>>,
    /// Beginning of a near segment, and the end of its whole words when this was made; 0 for
    /// others.
    base: NonNull<u8>,
    words_end: u64,
    /// End of the words whose atomic operations are executed at once.
    atomics_end: u64,
}

/// A segment of this node.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) cells: Cells,
    /// Bytes that may be accessed, as far as is known: their number only grows.
    bytes: Cell<u64>,
    /// The rank that exports it; `None` for a region of the node.
    owner: Option<Shared<RankBlock>>,
}

impl Near {
    /// Returns the cells, if `[offset, offset + bytes)` of them may be accessed.
    #[inline(always)]
    pub(crate) fn reach(&self, offset: u64, bytes: u64) -> Option<&Cells> {
        debug_assert!(self.bytes.get() <= self.cells.bytes(), "what may be accessed is mapped");
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes.get()).then_some(&self.cells)
    }
}

impl Rma {
    /// Returns the segment of that name, to operate on. On another node, only an operation shows
    /// whether it is still exported.
    ///
    /// # Errors
    /// Fails if it should be on this node and is not, or if address space has run out.
    pub fn target(&self, name: SegmentName) -> Result<Target> {
        Target::open(&self.inner, name)
    }
}

impl Target {
    pub(crate) fn open(inner: &Rc<Inner>, name: SegmentName) -> Result<Self> {
        let (memory, here) = (inner.context.node(), inner.context.node_number());
        let node = inner.context.home_of(name);
        let (mut near, mut base) = (None, NonNull::dangling());
        let mut words_end = 0;
        if node == here {
            let missing = || refused(name, 0, Refusal::NoSuchSegment);
            let (cells, extent) = memory.exported(name)?.ok_or_else(missing)?;
            let owner = memory.rank(name.rank());
            let of_node = matches!(name.owner(), SegmentOwner::Node(_));
            debug_assert_eq!(owner.is_none(), of_node, "a rank or its node");
            base = cells.base();
            words_end = extent.bytes & !7;
            debug_assert!(words_end <= cells.bytes(), "words at hand are mapped");
            debug_assert!(base.cast::<u64>().is_aligned(), "an aligned offset is an aligned word");
            near = Some(Box::new(Near { cells, bytes: Cell::new(extent.bytes), owner }));
        } else if node >= inner.context.nnodes() {
            return Err(refused(name, 0, Refusal::NoSuchSegment));
        }
        debug_assert_eq!(near.is_some(), node == here, "all of this node is mapped");
        // In virtual time each is ordered among those of other ranks.
        let atomics_end = if inner.context.actor().is_some() { 0 } else { words_end };
        Ok(Self { inner: inner.clone(), name, node, near, base, words_end, atomics_end })
    }

    /// Returns the whole words of a near segment, up to its known end, for loops that cannot afford
    /// a comparison for each: `None` if it is far. Remote operations on them continue.
    pub fn near_words(&self) -> Option<&[AtomicU64]> {
        debug_assert!(self.near.is_some() || self.near_end() == 0, "far words are not at hand");
        let words = usize::try_from(self.near_end() / 8).ok()?;
        self.near.as_ref()?.cells.words(0, words)
    }

    /// Returns the beginning of a near segment in this process, for callers that check bounds
    /// themselves: `[0, near_end)` may be accessed, by atomics only, while this lives.
    pub fn near_base(&self) -> Option<NonNull<u8>> {
        self.near.as_ref().map(|_| self.base)
    }

    /// Checks that `[offset, offset + bytes)` of a near segment may be accessed now.
    ///
    /// # Errors
    /// Fails if the segment is far, not exported any more, or shorter.
    pub fn check(&self, offset: u64, bytes: u64) -> Result<()> {
        self.reach_grown(offset, bytes).map(drop)
    }

    /// Returns the known end of the whole words of a near segment, in bytes; 0 if it is far.
    pub fn near_end(&self) -> u64 {
        self.near.as_ref().map_or(0, |near| near.bytes.get() & !7)
    }

    /// Returns a word of a near segment; `None` if it is far, not aligned, or was not inside when
    /// this was made.
    #[inline(always)]
    fn cell<T: Word>(&self, offset: u64) -> Option<&T::Cell> {
        self.cell_before::<T>(self.words_end, offset)
    }

    /// Returns a word as [`Target::cell`] does, for an atomic operation that nothing orders.
    #[inline(always)]
    fn atomic_cell<T: Word>(&self, offset: u64) -> Option<&T::Cell> {
        self.cell_before::<T>(self.atomics_end, offset)
    }

    /// Orders an access to a word of this node that other ranks may access, and charges it, where
    /// time is virtual.
    pub(crate) fn access_word(&self) {
        debug_assert!(self.near.is_some(), "executors order all others");
        if let Some(actor) = self.inner.context.actor() {
            actor.access_word();
        }
    }

    #[inline(always)]
    fn cell_before<T: Word>(&self, end: u64, offset: u64) -> Option<&T::Cell> {
        debug_assert!(end <= self.words_end, "words at hand");
        debug_assert!(self.near.is_some() || self.words_end == 0, "far words are not at hand");
        let mapped = |near: &Near| self.words_end <= near.cells.bytes();
        debug_assert!(self.near.as_deref().is_none_or(mapped), "words at hand are mapped");
        let aligned = offset.is_multiple_of(size_of::<T>() as u64);
        if offset >= end || !aligned {
            return None;
        }
        // SAFETY: the end is that of whole words of eight bytes in the mapping that `near` keeps,
        // so an aligned word that begins before it is inside; a `Cell` is the atomic of its size.
        Some(unsafe { self.base.add(offset as usize).cast::<T::Cell>().as_ref() })
    }

    /// Prefetches a word of a near segment before it is needed: for writing, or for reading only.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64, for_write: bool) {
        if offset < self.words_end {
            let at = self.base.as_ptr().wrapping_add(offset as usize);
            if for_write { prefetch_for_write(at) } else { prefetch_at(at) }
        }
    }

    /// Returns the name of the segment.
    pub fn name(&self) -> SegmentName {
        self.name
    }

    /// Returns true if it is on this node, so that operations are executed at once.
    pub fn is_near(&self) -> bool {
        self.near.is_some()
    }

    /// Returns the cells of a place of a near segment that is not known to be inside; checks
    /// whether the segment has grown.
    #[cold]
    pub(crate) fn reach_grown(&self, offset: u64, bytes: u64) -> Result<&Cells> {
        let no = |why| Err(refused(self.name, offset, why));
        let Some(near) = &self.near else { return no(Refusal::NoSuchSegment) };
        match self.inner.context.node().extent_of(self.name) {
            Some(extent) => near.bytes.set(extent.bytes.min(near.cells.bytes())),
            None => return no(Refusal::NoSuchSegment),
        }
        debug_assert!(near.cells.base() == self.base, "a segment grows in place");
        near.reach(offset, bytes).map_or_else(|| no(Refusal::OutOfBounds), Ok)
    }

    /// Returns true if the rank that exported it has died, according to this node's records.
    pub(crate) fn is_owner_dead(&self) -> bool {
        self.inner.context.node().death_of(self.name.rank()).is_some()
    }

    /// Reports that a plain store has changed the word at `offset`, so that waits for it on other
    /// nodes ([`Target::when`]) are answered. Signals, flags and applies do so by themselves; an
    /// unreported change is seen after 100 ms.
    pub fn notify(&self, offset: u64) {
        let memory = self.inner.context.node();
        if self.near.is_some()
            && let Some(actor) = self.inner.context.actor()
        {
            return actor.notify_executor();
        }
        if self.near.is_none() || memory.nnodes() == 1 {
            return;
        }
        let interface = memory.interface_id(memory.node());
        debug_assert!(!memory.is_local(interface), "interfaces are no ranks");
        if let Some(block) = memory.rank(interface)
            && note_store(&block, self.name, offset)
        {
            block.park().wake(memory.alarm(interface).map(|alarm| &**alarm));
        }
    }

    /// Wakes the rank of a near segment, if it waits for a signal; all ranks of this node, if the
    /// segment is the node's.
    #[inline]
    pub(crate) fn wake(&self) {
        let memory = self.inner.context.node();
        debug_assert!(self.near.is_some(), "a rank of another node is woken by its interface");
        match self.near.as_deref() {
            Some(Near { owner: Some(block), .. }) => {
                let alarm = memory.alarm(self.name.rank()).map(|alarm| &**alarm);
                block.park().wake_if_asleep(memory.fence(), alarm);
            }
            Some(Near { owner: None, .. }) => memory.wake_sleepers(),
            None => {}
        }
    }
}
