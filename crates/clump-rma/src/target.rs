//! Somebody's segment, to operate on: words and atomics. What is on this node is accessed at once.

mod bulk;
mod words;

use crate::error::{Result, Why, refused};
use crate::rma::Inner;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use std::cell::Cell;
use std::rc::Rc;

pub use bulk::{Signal, Strides};
pub use words::Pending;

/// See the module. Made by [`crate::Rma::target`]; belongs to the thread that made it.
#[derive(Debug)]
pub struct Target {
    pub(crate) inner: Rc<Inner>,
    pub(crate) name: SegmentName,
    pub(crate) node: u32,
    pub(crate) near: Option<Near>,
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
        let mut near = None;
        if memory.is_local(name.rank()) {
            let missing = || refused(name, 0, Why::NoSuchSegment);
            let (cells, extent) = memory.exported(name)?.ok_or_else(missing)?;
            let block = memory.rank(name.rank()).ok_or_else(missing)?;
            near = Some(Near { cells, bytes: Cell::new(extent.bytes), block });
        } else if node >= memory.nnodes() {
            return Err(refused(name, 0, Why::NoSuchSegment));
        }
        Ok(Self { inner: inner.clone(), name, node, near })
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
