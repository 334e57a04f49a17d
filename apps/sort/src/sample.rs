//! Splitters by sampling: the keys at which each rank's share begins.
//!
//! Every rank reads a few blocks spread evenly over its part, so that sorted, bucketed and skewed
//! inputs are represented, and takes all whole records in them. Entries carry the record's global
//! position below its key: equal keys are split by position, and even an input of one key is
//! shared evenly.

use crate::input::Input;
use crate::record::{RECORD, order};
use anyhow::Result;
use clump_os::file::BLOCK;
use clump_os::memory::Aligned;

/// Most blocks a rank reads for its sample: the standard error of a share is then 2 %.
pub const MAX_BLOCKS: usize = 64;
/// Records taken from a block.
pub const PER_BLOCK: usize = BLOCK / RECORD;

/// Samples the `count` records from `first` on: at most `blocks` times [`PER_BLOCK`] of them.
///
/// # Errors
/// Fails if the input cannot be read.
pub fn sample(input: &Input, first: u64, count: u64, blocks: usize) -> Result<Vec<u128>> {
    let mut buffer = Aligned::new(3 * BLOCK)?;
    let per_block = PER_BLOCK as u64;
    let blocks = (blocks as u64).clamp(1, count.div_ceil(per_block).max(1));
    let mut entries = Vec::with_capacity((blocks * per_block) as usize);
    for block in 0..blocks {
        let begin = (u128::from(count) * u128::from(block) / u128::from(blocks)) as u64;
        let end = (u128::from(count) * u128::from(block + 1) / u128::from(blocks)) as u64;
        // The middle of a stratum, so that a sorted part gives unbiased quantiles.
        let take = per_block.min(end - begin);
        let mut number = first + begin + (end - begin - take) / 2;
        for piece in input.pieces(number, take) {
            let skip = (piece.offset % BLOCK as u64) as usize;
            let blocks = (skip + piece.bytes as usize).next_multiple_of(BLOCK);
            piece.file.read_at(&mut buffer[..blocks], piece.offset - skip as u64)?;
            for record in buffer[skip..skip + piece.bytes as usize].chunks_exact(RECORD) {
                entries.push(order(record, number));
                number += 1;
            }
        }
    }
    Ok(entries)
}

/// Returns the `ranks - 1` entries at which the ranks' shares begin, from the samples of all ranks
/// (in any order).
pub fn splitters(mut samples: Vec<u128>, ranks: usize) -> Vec<u128> {
    samples.sort_unstable();
    (1..ranks)
        .map(|rank| samples.get(samples.len() * rank / ranks).copied().unwrap_or(u128::MAX))
        .collect()
}

/// Returns the rank that owns `entry`.
#[inline(always)]
pub fn owner(splitters: &[u128], entry: u128) -> usize {
    if splitters.len() < 8 {
        // Short lists: adding up comparisons has no branch to mispredict.
        splitters.iter().map(|&s| usize::from(s <= entry)).sum()
    } else {
        splitters.partition_point(|&s| s <= entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Generator, Keys};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn owners_are_in_order_and_exist(
            samples in prop::collection::vec(any::<u128>(), 0..200),
            ranks in 1usize..20,
            mut entries in prop::collection::vec(any::<u128>(), 0..100))
        {
            let splitters = splitters(samples, ranks);
            entries.sort_unstable();
            let owners: Vec<usize> = entries.iter().map(|&e| owner(&splitters, e)).collect();
            prop_assert!(owners.is_sorted());
            prop_assert!(owners.iter().all(|&o| o < ranks));
            for (&e, &o) in entries.iter().zip(&owners) {
                prop_assert_eq!(o, splitters.partition_point(|&s| s <= e));
            }
        }
    }

    /// Returns the largest share over the mean share when `ranks` ranks split records of `keys`,
    /// perhaps presorted.
    fn imbalance(keys: Keys, presorted: bool, ranks: usize) -> f64 {
        let records = 40_000u64;
        let mut generator = Generator::new(keys, 0);
        let mut bytes = vec![0; records as usize * RECORD];
        bytes.chunks_exact_mut(RECORD).for_each(|r| generator.next_record(r));
        if presorted {
            let mut all: Vec<&[u8]> = bytes.chunks_exact(RECORD).collect();
            all.sort_unstable();
            bytes = all.concat();
        }
        let dir = crate::test_dir("sample");
        std::fs::write(dir.join("in"), &bytes).unwrap();
        let input = Input::open(&[dir.join("in")], true).unwrap();
        let mut samples = Vec::new();
        for rank in 0..ranks {
            let (first, count) = input.part(rank, ranks);
            samples.extend(sample(&input, first, count, 50).unwrap());
        }
        let splitters = splitters(samples, ranks);
        let mut shares = vec![0u64; ranks];
        for (number, record) in bytes.chunks_exact(RECORD).enumerate() {
            shares[owner(&splitters, order(record, number as u64))] += 1;
        }
        std::fs::remove_dir_all(dir).unwrap();
        *shares.iter().max().unwrap() as f64 * ranks as f64 / records as f64
    }

    #[test]
    fn shares_are_even_for_every_kind_of_key() {
        for keys in [Keys::Uniform, Keys::Skewed, Keys::Distinct(1), Keys::Distinct(5)] {
            for presorted in [false, true] {
                for ranks in [2, 4, 7] {
                    let most = imbalance(keys, presorted, ranks);
                    assert!(most < 1.25, "{keys:?} presorted {presorted} on {ranks}: {most}");
                }
            }
        }
    }
}
