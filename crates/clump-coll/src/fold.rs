//! The tree along which all-reduces and reduces combine: that of recursive doubling.

use crate::Number;

/// Fold of N ranks into the largest power of two p <= N positions: of the first 2 (N - p) ranks,
/// neighbours share one, so that operands stay in rank order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fold {
    /// The number of positions.
    pub(crate) power: usize,
    /// Ranks that share positions.
    paired: usize,
}

impl Fold {
    /// Returns the fold of `ranks` ranks.
    pub(crate) fn of(ranks: usize) -> Self {
        debug_assert!(ranks > 0, "a team has ranks");
        let power = if ranks.is_power_of_two() { ranks } else { ranks.next_power_of_two() / 2 };
        Self { power, paired: 2 * (ranks - power) }
    }

    /// Returns true if the rank shares its position with the next one.
    pub(crate) fn is_paired(self, rank: usize) -> bool {
        rank < self.paired && rank.is_multiple_of(2)
    }

    /// Returns the position of a rank; `None` if it shares that of the rank before it.
    pub(crate) fn position(self, rank: usize) -> Option<usize> {
        match rank < self.paired {
            true => rank.is_multiple_of(2).then_some(rank / 2),
            false => Some(rank - self.paired / 2),
        }
    }

    /// Returns the (lower) rank at a position.
    pub(crate) fn rank_of(self, position: usize) -> usize {
        debug_assert!(position < self.power, "there is such a position");
        let half = self.paired / 2;
        if position < half { position * 2 } else { position + half }
    }
}

/// Combines `values` with the values in `bytes`.
pub(crate) fn copy_in<T: Number>(values: &mut [T], bytes: &[u8], combine: impl Fn(T, T) -> T) {
    for (value, chunk) in values.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
        if let Ok(other) = T::read_from_bytes(chunk) {
            *value = combine(*value, other);
        }
    }
}
