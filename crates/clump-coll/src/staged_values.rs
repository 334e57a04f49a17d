//! Values on a stage, combined in rank order along the tree that messages follow, too
//! ([`crate::fold::Fold`]), so that the bits are the same.

use crate::fold::Fold;
use crate::stage::area::CHUNK;
use crate::stage::call::StagedCall;
use crate::{Number, Op};
use clump_am::Result;
use std::ops::Range;
use zerocopy::IntoBytes;

impl StagedCall<'_> {
    /// Combines the values of all members, at `root`, or at all where there is none; elsewhere
    /// `values` stay as they are. Readers read all contributions.
    ///
    /// # Errors
    /// A rank died or left, or gave another number of values.
    pub(crate) fn combine<T: Number, O: Op<T>>(
        &mut self,
        root: Option<usize>,
        values: &mut [T],
    ) -> Result<()> {
        let (me, n, total) = (self.me(), self.len(), size_of_val(values));
        let (reads, writes) = (root.is_none_or(|root| root == me), root != Some(me));
        if !reads {
            self.read_nothing();
        }
        let mut rows = Vec::new();
        for (chunk, piece) in (0..).zip(pieces(values)) {
            if writes {
                self.publish_bytes(piece.as_bytes(), total)?;
            }
            if reads {
                self.read_rows(chunk, (0..n, 0..piece.len(), total), piece, &mut rows)?;
                fold_rows::<T, O>(&mut rows, n);
                piece.copy_from_slice(&rows[..piece.len()]);
                self.took(chunk);
            }
        }
        Ok(())
    }

    /// Does so in two turns for each chunk: each member combines its share of the values, and makes
    /// that known.
    ///
    /// # Errors
    /// As for [`StagedCall::combine`].
    pub(crate) fn combine_shares<T: Number, O: Op<T>>(
        &mut self,
        root: Option<usize>,
        values: &mut [T],
    ) -> Result<()> {
        let (me, n, total) = (self.me(), self.len(), size_of_val(values));
        let reads = root.is_none_or(|root| root == me);
        let mut rows = Vec::new();
        for (turn, piece) in (0..).zip(pieces(values)) {
            self.publish_bytes(piece.as_bytes(), total)?;
            let mine = share(piece.len(), n, me);
            self.read_rows(2 * turn, (0..n, mine.clone(), total), piece, &mut rows)?;
            fold_rows::<T, O>(&mut rows, n);
            let combined = rows.get(..mine.len()).unwrap_or_default();
            self.publish_bytes(combined.as_bytes(), total)?;
            if reads {
                self.await_all(2 * turn + 1, self.all_others())?;
                piece[mine].copy_from_slice(combined);
                for member in self.others() {
                    let of = share(piece.len(), n, member);
                    let theirs = &mut piece[of];
                    if !theirs.is_empty() {
                        self.await_chunk(member, 2 * turn + 1)?.read(0, theirs.as_mut_bytes())?;
                    }
                }
            }
            self.took(2 * turn + 1);
        }
        Ok(())
    }

    /// Combines the values of all members before this one, and its own if `inclusive`; where there
    /// are none `values` stay as they are.
    ///
    /// # Errors
    /// As for [`StagedCall::combine`].
    pub(crate) fn combine_before<T: Number, O: Op<T>>(
        &mut self,
        values: &mut [T],
        inclusive: bool,
    ) -> Result<()> {
        let (count, total) = (self.me() + usize::from(inclusive), size_of_val(values));
        let mut rows = Vec::new();
        for (chunk, piece) in (0..).zip(pieces(values)) {
            if self.me() + 1 < self.len() {
                self.publish_bytes(piece.as_bytes(), total)?;
            }
            if count > 0 {
                self.read_rows(chunk, (0..count, 0..piece.len(), total), piece, &mut rows)?;
                scan_rows::<T, O>(&mut rows, count);
                let last = (count - 1) * piece.len();
                piece.copy_from_slice(&rows[last..]);
            }
            self.took(chunk);
        }
        Ok(())
    }

    /// Reads values `of` of the chunks of some members, a row for each; `own` are this rank's.
    fn read_rows<T: Number>(
        &self,
        chunk: u64,
        (members, of, total): (Range<usize>, Range<usize>, usize),
        own: &[T],
        rows: &mut Vec<T>,
    ) -> Result<()> {
        let (me, width) = (self.me(), of.len());
        rows.clear();
        if let Some(&any) = own.first() {
            rows.resize(members.len() * width, any);
        }
        let others = || self.others().filter(|member| members.contains(member));
        self.await_all(chunk, others().fold(0, |all, member| all | 1 << member))?;
        for member in others() {
            let there = self.await_chunk(member, chunk)?;
            self.check_total(member, there.total(), total)?;
            let row = &mut rows[member * width..(member + 1) * width];
            there.read(of.start * size_of::<T>(), row.as_mut_bytes())?;
        }
        if members.contains(&me) {
            rows[me * width..(me + 1) * width].copy_from_slice(&own[of]);
        }
        Ok(())
    }
}

/// Returns the values of each chunk: an empty one where there are none, so that ranks which expect
/// some are told.
fn pieces<T>(values: &mut [T]) -> impl Iterator<Item = &mut [T]> {
    let empty: Option<&mut [T]> = if values.is_empty() { Some(&mut []) } else { None };
    empty.into_iter().chain(values.chunks_mut(CHUNK / size_of::<T>()))
}

/// Returns a member's share of so many values.
fn share(values: usize, members: usize, member: usize) -> Range<usize> {
    values * member / members..values * (member + 1) / members
}

/// Combines `n` rows of equal length into the first, along the tree of a [`Fold`].
pub(crate) fn fold_rows<T: Number, O: Op<T>>(rows: &mut [T], n: usize) {
    debug_assert!(n > 0 && rows.len().is_multiple_of(n), "rows of equal length");
    let (fold, width) = (Fold::of(n), rows.len() / n);
    let mut into = |lower: usize, higher: usize| {
        debug_assert!(lower < higher && higher < n, "operands stay in rank order");
        let (low, high) = rows.split_at_mut(higher * width);
        let low = &mut low[lower * width..][..width];
        low.iter_mut().zip(high).for_each(|(a, b)| *a = O::combine(*a, *b));
    };
    (0..n).filter(|&rank| fold.is_paired(rank)).for_each(|rank| into(rank, rank + 1));
    let mut bit = 1;
    while bit < fold.power {
        for position in (0..fold.power).step_by(2 * bit) {
            into(fold.rank_of(position), fold.rank_of(position + bit));
        }
        bit *= 2;
    }
}

/// Combines `n` rows of equal length into the last, as Hillis and Steele's scan does.
pub(crate) fn scan_rows<T: Number, O: Op<T>>(rows: &mut [T], n: usize) {
    debug_assert!(n > 0 && rows.len().is_multiple_of(n), "rows of equal length");
    let width = rows.len() / n;
    let mut distance = 1;
    while distance < n {
        // Later rounds only use rows at multiples of twice the distance before the last.
        for row in (distance..n).rev().step_by(2 * distance) {
            let (low, high) = rows.split_at_mut(row * width);
            let low = &low[(row - distance) * width..][..width];
            high.iter_mut().zip(low).for_each(|(b, a)| *b = O::combine(*a, *b));
        }
        distance *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operation on strings of digits: it tells trees apart.
    struct Tree;

    impl Op<u64> for Tree {
        fn combine(lower: u64, higher: u64) -> u64 {
            lower.wrapping_mul(31).wrapping_add(higher).rotate_left(9) ^ 0x55
        }
    }

    /// Runs recursive doubling by the book.
    fn doubled(values: &[u64]) -> u64 {
        let fold = Fold::of(values.len());
        let mut at: Vec<u64> = (0..fold.power)
            .map(|position| {
                let rank = fold.rank_of(position);
                match fold.is_paired(rank) {
                    true => Tree::combine(values[rank], values[rank + 1]),
                    false => values[rank],
                }
            })
            .collect();
        while at.len() > 1 {
            at = at.chunks(2).map(|pair| Tree::combine(pair[0], pair[1])).collect();
        }
        at[0]
    }

    /// Runs Hillis and Steele's scan by the book.
    fn scanned(values: &[u64]) -> u64 {
        let (mut all, mut distance) = (values.to_vec(), 1);
        while distance < all.len() {
            let before = all.clone();
            for rank in distance..all.len() {
                all[rank] = Tree::combine(before[rank - distance], before[rank]);
            }
            distance *= 2;
        }
        all[all.len() - 1]
    }

    #[test]
    fn rows_are_combined_along_the_trees_of_messages() {
        for n in 1..40 {
            let columns: [Vec<u64>; 3] =
                std::array::from_fn(|c| (0..n as u64).map(|rank| rank * 7 + c as u64).collect());
            let rows: Vec<u64> =
                (0..n).flat_map(|rank| columns.each_ref().map(|column| column[rank])).collect();
            let (mut folded, mut scan) = (rows.clone(), rows);
            fold_rows::<u64, Tree>(&mut folded, n);
            scan_rows::<u64, Tree>(&mut scan, n);
            for (c, column) in columns.iter().enumerate() {
                assert_eq!(folded[c], doubled(column), "{n} ranks");
                assert_eq!(scan[(n - 1) * 3 + c], scanned(column), "{n} ranks");
            }
        }
        assert_eq!((0..3).map(|member| share(7, 3, member).len()).sum::<usize>(), 7);
    }
}
