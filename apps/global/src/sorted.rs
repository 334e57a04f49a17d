//! The oracle of sorts: the keys, sorted by the standard library.

use clump::Result;
use clump::pgas::{Pgas, Spread};
use clump_app_frame::keys::Keys;

/// Keys that are read at a time.
const READ: usize = 1 << 18;

/// Compares sorted keys with the input, sorted here by the standard library. Of rank `r`, the
/// first `counts[r]` keys of `sorted` count. Returns the number of wrong ones; a missing one and
/// one too many are wrong.
///
/// # Errors
/// Fails if a part cannot be read.
pub fn wrong_keys(gas: &Pgas, keys: &Keys, sorted: &Spread<u32>, counts: &[u64]) -> Result<u64> {
    debug_assert_eq!(counts.len(), gas.nranks(), "a count for each rank");
    let mut expected: Vec<u32> = (0..keys.ranks).flat_map(|rank| keys.of(rank)).collect();
    expected.sort_unstable();
    let found: u64 = counts.iter().sum();
    let mut wrong = found.abs_diff(expected.len() as u64);
    let mut expected = expected.into_iter();
    for (rank, &count) in counts.iter().enumerate() {
        let mut left = count as usize;
        let mut from = sorted.on(rank);
        while let Some(at) = from.filter(|_| left > 0) {
            let mut part = vec![0; left.min(READ)];
            gas.bulk_get(at, &mut part)?;
            wrong += part.iter().zip(expected.by_ref()).filter(|(a, b)| **a != *b).count() as u64;
            left -= part.len();
            from = Some(at.offset_by(part.len() as isize));
        }
    }
    Ok(wrong)
}
