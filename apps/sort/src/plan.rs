//! The division of one rank's memory for the two passes.

use crate::behind;
use crate::collect::Half;
use crate::lanes::Lanes;
use crate::record::RECORD;
use crate::sample::{MAX_BLOCKS, PER_BLOCK};
use anyhow::{Result, bail};
use clump_app_frame::size::show_bytes;
use clump_os::file::BLOCK;
use clump_os::memory::{HUGE, HUGE_FROM};

/// Reserve for a rank's memory beside buffers, in bytes: stacks and heaps of four threads,
/// channels, batches in flight (1.1 MB were measured for four ranks).
const OVERHEAD: usize = 288 << 10;
/// Copies of all ranks' samples that a rank holds while they are combined.
const SAMPLE_COPIES: usize = 3;
/// Largest transfer, in bytes: beyond this a disk gains nothing.
const MAX_CHUNK: usize = 4 << 20;
/// Shares may exceed the mean by this factor before a sort that was to fit in memory spills.
const MARGIN: f64 = 1.15;
/// Memory of a rank beyond the least, in bytes: shares and runs differ from what is expected.
const AMPLE: u64 = 1 << 20;
/// Chunks that are read ahead per lane.
pub const AHEAD: usize = 2;

/// Sizes for one rank, all in bytes unless they say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortPlan {
    /// Memory of all ranks.
    pub memory: u64,
    /// Memory of this rank.
    pub budget: u64,
    /// Chunk of reading the input and of writing runs and output.
    pub chunk: usize,
    /// Batch sent to a peer.
    pub batch: usize,
    /// Halves that collect.
    pub halves: usize,
    /// Records of a half.
    pub capacity: usize,
    /// Blocks of a rank's sample.
    pub sample_blocks: usize,
    /// True if runs are expected.
    pub two_pass: bool,
}

impl SortPlan {
    /// Divides `memory` bytes of `nranks` ranks for sorting `records`; batches have at most
    /// `max_batch` bytes, and the network keeps `network` bytes of each rank's. `two_pass` requests
    /// runs even if everything fits.
    ///
    /// # Errors
    /// Fails if the memory is too little; the message names an amount that suffices.
    pub fn new(
        memory: u64,
        records: u64,
        nranks: usize,
        (max_batch, network): (usize, usize),
        two_pass: bool,
    ) -> Result<Self> {
        let sizes = (max_batch, network);
        if let Some(plan) = Self::carve(memory, records, nranks, sizes, two_pass) {
            return Ok(plan);
        }
        let enough = Self::enough(memory, records, nranks, sizes, two_pass);
        bail!(
            "--memory {} is too little to sort {} on {nranks} ranks: give at least {} KiB, or run \
             fewer ranks",
            show_bytes(memory),
            show_bytes(records * RECORD as u64),
            (enough >> 10) + 1
        )
    }

    /// Returns `memory` if these ranks can sort in it, else an amount that is not the least.
    pub fn ample(
        memory: u64,
        records: u64,
        nranks: usize,
        sizes: (usize, usize),
        two_pass: bool,
    ) -> u64 {
        let enough = Self::enough(memory, records, nranks, sizes, two_pass);
        if enough == memory { memory } else { enough + AMPLE * nranks as u64 }
    }

    /// Returns an amount of memory, `memory` or more, in which these ranks can sort.
    fn enough(
        memory: u64,
        records: u64,
        nranks: usize,
        sizes: (usize, usize),
        two_pass: bool,
    ) -> u64 {
        let mut enough = memory.max(1 << 20);
        while enough < 1 << 60 && Self::carve(enough, records, nranks, sizes, two_pass).is_none() {
            enough += enough / 4;
        }
        enough
    }

    fn carve(
        memory: u64,
        records: u64,
        nranks: usize,
        (max_batch, network): (usize, usize),
        two_pass: bool,
    ) -> Option<Self> {
        let whole = usize::try_from(memory / nranks as u64).ok()?.checked_sub(network)?;
        let block_cost = SAMPLE_COPIES * nranks * PER_BLOCK * size_of::<u128>();
        let sample_blocks = (whole / 24 / block_cost).clamp(1, MAX_BLOCKS);
        // Samples are freed before the first pass, but the allocator may keep their memory.
        let rounding = if whole < HUGE_FROM { 0 } else { HUGE };
        let room = whole.checked_sub(OVERHEAD + rounding + sample_blocks * block_cost)?;
        let budget = room as u64;
        let chunk = (room / 16 / BLOCK * BLOCK).clamp(BLOCK, MAX_CHUNK);
        let largest_batch = max_batch / RECORD * RECORD;
        let batch = (room / 16 / nranks / RECORD * RECORD).clamp(RECORD, largest_batch.max(RECORD));
        // Buffers come in whole blocks.
        let gathered = (nranks * batch).next_multiple_of(BLOCK);
        let fixed = Lanes::cost(1, chunk, AHEAD) + behind::DEPTH * chunk + gathered;
        let rest = room.checked_sub(fixed)?;
        let share = records.div_ceil(nranks as u64) as usize;
        let expected = (share as f64 * MARGIN) as usize + 4 * largest_batch / RECORD + 64;
        let fits = !two_pass && Half::cost(expected) + BLOCK <= rest;
        let halves = if fits { 1 } else { 2 };
        let per_half = (rest / halves).checked_sub(BLOCK)?;
        let most = per_half / (RECORD + size_of::<u128>());
        // If two passes were requested where one would do, a few runs are made, so that there is a
        // merge.
        let capacity = if fits { expected } else { most.min((share / 3).max(4096)) };
        if capacity < 4 * (largest_batch.min(batch) / RECORD) {
            return None;
        }
        let runs = (share as f64 * MARGIN) as usize / capacity + 2;
        if !fits && Self::merge_chunk(budget, runs, chunk).is_none() {
            return None;
        }
        Some(Self {
            memory,
            budget,
            chunk,
            batch,
            halves,
            capacity,
            sample_blocks,
            two_pass: !fits,
        })
    }

    /// Returns the chunk in which `runs` runs can be read ahead in `budget` bytes, beside writing
    /// in `chunk`.
    pub fn merge_chunk(budget: u64, runs: usize, chunk: usize) -> Option<usize> {
        let room = usize::try_from(budget).ok()?.checked_sub(behind::DEPTH * chunk)?;
        let each = (room / (runs.max(1) * AHEAD)).checked_sub(BLOCK)? / BLOCK * BLOCK;
        (each >= BLOCK).then_some(each.min(MAX_CHUNK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_plan_fits_its_budget(
            memory in 1u64 << 18..1 << 34,
            records in 0u64..1 << 32,
            nranks in 1usize..65,
            max_batch in 1000usize..70_000,
            network in 0usize..8 << 20,
            two_pass in any::<bool>())
        {
            let Ok(plan) = SortPlan::new(memory, records, nranks, (max_batch, network), two_pass) else {
                return Ok(());
            };
            let pass_one = Lanes::cost(1, plan.chunk, AHEAD)
                + behind::DEPTH * plan.chunk
                + (nranks * plan.batch).next_multiple_of(BLOCK)
                + plan.halves * Half::cost(plan.capacity);
            prop_assert!(pass_one as u64 <= plan.budget, "{pass_one} of {}", plan.budget);
            prop_assert!((plan.budget + network as u64) * nranks as u64 <= memory);
            prop_assert!(!two_pass || plan.two_pass);
        }
    }

    #[test]
    fn too_little_memory_names_what_would_do() {
        let told =
            SortPlan::new(1 << 20, 1 << 30, 4, (16 << 10, 0), false).unwrap_err().to_string();
        assert!(told.contains("give at least"), "{told}");
        let small = SortPlan::new(4 << 20, 200_000, 4, (16 << 10, 0), false).unwrap();
        assert!(small.two_pass, "20 MB in 4 MB");
        let ample = SortPlan::ample(1 << 20, 1 << 30, 4, (16 << 10, 0), false);
        let grown = SortPlan::new(ample, 1 << 30, 4, (16 << 10, 0), false).unwrap();
        assert_eq!(grown.memory, ample);
        assert_eq!(SortPlan::ample(ample, 1 << 30, 4, (16 << 10, 0), false), ample);
        let large = SortPlan::new(256 << 20, 200_000, 4, (16 << 10, 0), false).unwrap();
        assert!(!large.two_pass && large.halves == 1);
        assert!(SortPlan::new(256 << 20, 200_000, 4, (16 << 10, 0), true).unwrap().two_pass);
    }
}
