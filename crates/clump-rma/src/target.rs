//! Somebody's segment, to operate on: words and atomics. What is on this node is accessed at once.

mod bulk;
mod words;

use crate::atomic::Word;
use crate::error::{Result, Why, refused};
use crate::rma::Inner;
use clump_os::sync::AtomicU64;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

pub use bulk::{Signal, Strides};
pub use words::Pending;

/// See the module. Made by [`crate::Rma::target`]; belongs to the thread that made it.
#[derive(Debug)]
pub struct Target {
    pub(crate) inner: Rc<Inner>,
    pub(crate) name: SegmentName,
    pub(crate) node: u32,
    /// Behind a pointer, so that nothing of this itself ever changes: a loop keeps what it needs of it in
    /// registers.
    pub(crate) near: Option<Box<Near>>,
    /// Where a near segment begins, and how far whole words of it reached when this was made; of others
    /// none do.
    base: NonNull<u8>,
    words_end: u64,
}

/// A segment of this node.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) cells: Cells,
    /// Bytes that may be accessed, as far as is known: they only become more.
    bytes: Cell<u64>,
    block: Shared<RankBlock>,
}

impl Near {
    /// The cells, if `[offset, offset + bytes)` of them may be accessed.
    #[inline(always)]
    pub(crate) fn reach(&self, offset: u64, bytes: u64) -> Option<&Cells> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes.get()).then_some(&self.cells)
    }
}

impl Target {
    pub(crate) fn open(inner: &Rc<Inner>, name: SegmentName) -> Result<Self> {
        let memory = inner.context.node();
        let node = memory.node_of(name.rank());
        let (mut near, mut base) = (None, NonNull::dangling());
        let mut words_end = 0;
        if memory.is_local(name.rank()) {
            let missing = || refused(name, 0, Why::NoSuchSegment);
            let (cells, extent) = memory.exported(name)?.ok_or_else(missing)?;
            let block = memory.rank(name.rank()).ok_or_else(missing)?;
            base = cells.base();
            words_end = extent.bytes & !7;
            near = Some(Box::new(Near { cells, bytes: Cell::new(extent.bytes), block }));
        } else if node >= memory.nnodes() {
            return Err(refused(name, 0, Why::NoSuchSegment));
        }
        Ok(Self { inner: inner.clone(), name, node, near, base, words_end })
    }

    /// The whole words of a near segment, as far as it is known to reach, for loops that cannot afford a
    /// comparison for each: `None` if it is far. Remote operations on them go on.
    pub fn near_words(&self) -> Option<&[AtomicU64]> {
        let words = usize::try_from(self.near_end() / 8).ok()?;
        self.near.as_ref()?.cells.words(0, words)
    }

    /// Where a near segment begins in this process, for who checks by himself: `[0, near_end)` may be
    /// accessed, by atomics only, while this lives.
    pub fn near_base(&self) -> Option<NonNull<u8>> {
        self.near.as_ref().map(|_| self.base)
    }

    /// Whether `[offset, offset + bytes)` of a near segment may be accessed now.
    ///
    /// # Errors
    /// It is far, not exported any more, or not as long.
    pub fn check(&self, offset: u64, bytes: u64) -> Result<()> {
        self.reach_again(offset, bytes).map(drop)
    }

    /// How far whole words of a near segment are known to reach, in bytes; 0 if it is far.
    pub fn near_end(&self) -> u64 {
        self.near.as_ref().map_or(0, |near| near.bytes.get() & !7)
    }

    /// A word of a near segment; `None` if it is far, not aligned, or was not inside when this was made.
    #[inline(always)]
    fn cell<T: Word>(&self, offset: u64) -> Option<&T::Cell> {
        let aligned = offset.is_multiple_of(size_of::<T>() as u64);
        if offset >= self.words_end || !aligned {
            return None;
        }
        // SAFETY: the end is that of whole words of eight bytes in the mapping that `near` keeps, so an
        // aligned word that begins before it is inside; a `Cell` is the atomic of its size.
        Some(unsafe { self.base.add(offset as usize).cast::<T::Cell>().as_ref() })
    }

    /// The name of the segment.
    pub fn name(&self) -> SegmentName {
        self.name
    }

    /// Whether it is on this node, so that operations are executed at once.
    pub fn is_near(&self) -> bool {
        self.near.is_some()
    }

    /// A place of a near segment that is not known to be inside: looks whether it has grown.
    #[cold]
    pub(crate) fn reach_again(&self, offset: u64, bytes: u64) -> Result<&Cells> {
        let no = |why| Err(refused(self.name, offset, why));
        let Some(near) = &self.near else { return no(Why::NoSuchSegment) };
        match near.block.exports().look_up(self.name.index()) {
            Some((generation, extent)) if generation == self.name.generation() => {
                near.bytes.set(extent.bytes.min(near.cells.bytes()));
            }
            _ => return no(Why::NoSuchSegment),
        }
        near.reach(offset, bytes).map_or_else(|| no(Why::OutOfBounds), Ok)
    }

    /// Whether the rank that exported it has died, as far as this node knows.
    pub(crate) fn is_owner_dead(&self) -> bool {
        self.inner.context.node().death_of(self.name.rank()).is_some()
    }

    /// Wakes the rank of a near segment, if it waits for a signal.
    #[inline]
    pub(crate) fn wake(&self) {
        let memory = self.inner.context.node();
        if let Some(near) = &self.near {
            let alarm = memory.alarm(self.name.rank()).map(|alarm| &**alarm);
            near.block.park().wake_if_asleep(memory.fence(), alarm);
        }
    }
}
