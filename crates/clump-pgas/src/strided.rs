//! Strided transfers: blocks of elements, the same distance apart.

use crate::element::Element;
use crate::error::{ErrorKind, Result};
use crate::global_ptr::GlobalPtr;
use crate::pgas::Pgas;
use clump_rma::Strides;
use zerocopy::IntoBytes;

/// Blocks of elements in one rank's memory: a column of a matrix, for example, is blocks of one
/// element, a row apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStride {
    /// Elements of a block.
    pub block: usize,
    /// Elements from the beginning of a block to that of the next.
    pub step: usize,
}

impl BlockStride {
    /// Checks that `count` elements in blocks from `pointer` on are inside, and returns the blocks.
    fn check<T>(self, pointer: GlobalPtr<T>, count: usize) -> Result<Strides> {
        let Self { block, step } = self;
        if block == 0 || !count.is_multiple_of(block) {
            return Err(ErrorKind::WrongLength { given: count, wanted: block }.into());
        }
        let reach = match count / block {
            0 => Some(0),
            blocks => step.checked_mul(blocks - 1).and_then(|before| before.checked_add(block)),
        };
        pointer.check(reach.unwrap_or(usize::MAX))?;
        let size = size_of::<T>();
        debug_assert!(count == 0 || size.checked_mul(step.max(block)).is_some(), "it is inside");
        let stride = (step as u64).wrapping_mul(size as u64);
        Ok(Strides { offset: pointer.offset(), stride, block: block * size })
    }
}

impl Pgas {
    /// Begins to write a slice to blocks from where a pointer points on.
    ///
    /// # Errors
    /// Fails if it is no whole number of blocks, or if they are not inside the pointer's memory. On
    /// another node, [`Pgas::sync`] reports a refusal.
    pub fn strided_put<T: Element>(
        &self,
        pointer: GlobalPtr<T>,
        blocks: BlockStride,
        from: &[T],
    ) -> Result<()> {
        let strides = blocks.check(pointer, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let peer = self.inner.peer(pointer.segment())?;
        Ok(peer.target.put_strided(strides, from.as_bytes())?)
    }

    /// Reads blocks from where a pointer points on, until `to` is full.
    ///
    /// # Errors
    /// Fails if that does not hold a whole number of blocks, if they are not inside the pointer's
    /// memory, or refused, or if their node or a rank is lost. Then the contents of `to` are
    /// unspecified.
    pub fn strided_get<T: Element>(
        &self,
        pointer: GlobalPtr<T>,
        blocks: BlockStride,
        to: &mut [T],
    ) -> Result<()> {
        let strides = blocks.check(pointer, to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        let peer = self.inner.peer(pointer.segment())?;
        self.inner.wait(|| Ok(peer.target.get_strided(strides, to.as_mut_bytes())?))
    }
}
