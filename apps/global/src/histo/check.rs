//! The serial oracle: draws all numbers again, and counts those of some bins.

/// Seed of the bins that are drawn.
pub const SEED: u64 = 0x1570;

/// Returns the number of wrong bins among those of `rank`, which are every `ranks`-th, and whose
/// counts are `counts`, after `samples` samples.
pub fn wrong_bins(counts: &[u64], (rank, ranks): (u64, u64), bins: u64, samples: u64) -> u64 {
    let mut expected = vec![0_u64; counts.len()];
    let mut state = SEED;
    for _ in 0..samples {
        // The generator of the application, written down once more.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let one = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let two = (one ^ (one >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let number = two ^ (two >> 31);
        let bin = ((u128::from(number) * u128::from(bins)) >> 64) as u64;
        if bin % ranks == rank {
            expected[(bin / ranks) as usize] += 1;
        }
    }
    counts.iter().zip(expected).filter(|(count, expected)| **count != *expected).count() as u64
}

#[cfg(test)]
mod tests {
    use super::{SEED, wrong_bins};
    use clump_app_frame::random::Random;

    #[test]
    fn the_oracle_finds_every_wrong_bin() {
        let (bins, samples) = (13, 400);
        let mut counts = vec![0; bins];
        let mut random = Random::from(SEED, 0);
        (0..samples).for_each(|_| counts[random.below(bins)] += 1);
        let of = |rank: usize| counts.iter().skip(rank).step_by(3).copied().collect::<Vec<_>>();
        for rank in 0..3 {
            let mut mine = of(rank as usize);
            assert_eq!(wrong_bins(&mine, (rank, 3), bins as u64, samples), 0, "rank {rank}");
            mine[2] += 1;
            mine[3] -= 1;
            assert_eq!(wrong_bins(&mine, (rank, 3), bins as u64, samples), 2, "rank {rank}");
        }
    }
}
