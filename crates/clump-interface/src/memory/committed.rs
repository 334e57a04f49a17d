//! Memory of regions, committed before it is accessed.
//!
//! A store to a page that the machine does not have ends a process by a signal. So memory of a
//! region is allocated, chunk by chunk, by a call that can fail, before an interface touches it.
//! Memory that was committed once is recorded here: a check costs one bit test.

use clump_onesided::Refusal;
use clump_shm::export::SegmentName;
use clump_shm::geometry::NODE_REGIONS;
use clump_shm::node::NodeMemory;
use clump_shm::supply::{MemorySupply, STEP_MIN};

/// Bytes that are committed together.
pub(super) const CHUNK: u64 = 64 << 10;
// The supply grants a chunk or refuses it.
const _: () = assert!(CHUNK <= STEP_MIN);

/// Chunks of each region that are known to be committed.
#[derive(Debug)]
pub(super) struct Committed {
    supply: Box<dyn MemorySupply>,
    /// A bit for each chunk, by number of the region; as long as need be.
    chunks: [Vec<u64>; NODE_REGIONS],
}

impl Committed {
    pub(super) fn new(supply: Box<dyn MemorySupply>) -> Self {
        Self { supply, chunks: Default::default() }
    }

    /// Commits `[offset, end)` of a region that has address space for `reserved` bytes.
    #[inline]
    pub(super) fn ensure(
        &mut self,
        node: &NodeMemory,
        name: SegmentName,
        (offset, end): (u64, u64),
        reserved: u64,
    ) -> Result<(), Refusal> {
        debug_assert!(offset <= end && end <= reserved, "the caller has checked it");
        for chunk in offset / CHUNK..end.div_ceil(CHUNK) {
            if !self.is_committed(name, chunk) {
                self.commit(node, name, chunk, reserved)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn is_committed(&self, name: SegmentName, chunk: u64) -> bool {
        let chunks = self.chunks.get(usize::from(name.index()));
        let word = chunks.and_then(|chunks| chunks.get((chunk / 64) as usize));
        word.is_some_and(|word| word >> (chunk % 64) & 1 != 0)
    }

    #[cold]
    fn commit(
        &mut self,
        node: &NodeMemory,
        name: SegmentName,
        chunk: u64,
        reserved: u64,
    ) -> Result<(), Refusal> {
        let start = chunk * CHUNK;
        debug_assert!(start < reserved, "a chunk of the region");
        let bytes = CHUNK.min(reserved - start);
        if node.commit(name, (start, bytes), &mut *self.supply).is_err() {
            return Err(Refusal::NoMemory);
        }
        let Some(chunks) = self.chunks.get_mut(usize::from(name.index())) else {
            clump_bug::bug!("the region was found");
            return Err(Refusal::NoSuchSegment);
        };
        let word = (chunk / 64) as usize;
        if chunks.len() <= word {
            chunks.resize(word + 1, 0);
        }
        chunks[word] |= 1 << (chunk % 64);
        debug_assert!(self.is_committed(name, chunk), "it is known from now on");
        Ok(())
    }
}
