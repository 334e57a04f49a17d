//! Reduce: the values of all ranks combined, for one rank.

use crate::all_reduce::{Fold, copy_in};
use crate::team::check_bytes;
use crate::{Number, Op, Team, step};
use clump_am::Result;
use clump_trace::Counter;
use zerocopy::IntoBytes;

impl Team {
    /// Combines all ranks' values with `op` at `root`: the bits that [`Team::all_reduce`] gives.
    /// `None` elsewhere.
    ///
    /// # Errors
    /// Fails if a rank died or left; there is no such root.
    pub fn reduce<T: Number, O: Op<T>>(&self, root: usize, value: T, op: O) -> Result<Option<T>> {
        let mut one = [value];
        self.reduce_slice(root, &mut one, op)?;
        Ok((self.rank() == root).then_some(one[0]))
    }

    /// Combines all ranks' slices element by element at `root`; slices of other ranks stay as they
    /// are.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values; there is no such root.
    pub fn reduce_slice<T: Number, O: Op<T>>(
        &self,
        root: usize,
        values: &mut [T],
        _op: O,
    ) -> Result<()> {
        self.check_rank(root)?;
        check_bytes(size_of_val(values) as u64)?;
        self.together(Counter::Reduces, |seq| {
            let result = self.combine_at_first::<T, O>(seq, values)?;
            let bytes = size_of_val(values);
            match (result, self.rank() == root) {
                (Some(result), true) => values.copy_from_slice(&result),
                (Some(result), false) => {
                    self.send(root, (seq, step::DOWN), result.as_bytes())?;
                }
                (None, true) => {
                    let result = self.receive(0, (seq, step::DOWN), bytes)?;
                    copy_in(values, &result, |_, new| new);
                }
                (None, false) => {}
            }
            Ok(())
        })
    }

    /// Combines along the tree of the all-reduce, up to rank 0, which gets the result.
    fn combine_at_first<T: Number, O: Op<T>>(
        &self,
        seq: u64,
        values: &[T],
    ) -> Result<Option<Vec<T>>> {
        let (fold, me, bytes) = (Fold::of(self.nranks()), self.rank(), size_of_val(values));
        let mut mine = values.to_vec();
        let Some(position) = fold.position(me) else {
            self.send(me - 1, (seq, step::UP), values.as_bytes())?;
            return Ok(None);
        };
        if fold.is_paired(me) {
            let higher = self.receive(me + 1, (seq, step::UP), bytes)?;
            copy_in(&mut mine, &higher, O::combine);
        }
        let mut bit = 1;
        while bit < fold.power {
            let key = (seq, step::BETWEEN + u64::from(bit.ilog2()));
            let partner = fold.rank_of(position ^ bit);
            if position & bit != 0 {
                self.send(partner, key, mine.as_bytes())?;
                return Ok(None);
            }
            let higher = self.receive(partner, key, bytes)?;
            copy_in(&mut mine, &higher, O::combine);
            bit *= 2;
        }
        debug_assert_eq!(me, 0, "the lowest rank has the result");
        Ok(Some(mine))
    }
}
