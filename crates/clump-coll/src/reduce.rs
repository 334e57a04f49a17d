//! Reduce: the values of all ranks combined, for one rank.

use crate::arguments::check_bytes;
use crate::choice::{Algorithm, Operation};
use crate::fold::Fold;
use crate::stage::call::StagedCall;
use crate::staged_values::fold_rows;
use crate::{Number, Op, Team, step};
use clump_am::Result;
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
        self.prepared(|| {
            self.check_rank(root).and_then(|()| check_bytes(size_of_val(values) as u64))
        })?;
        let algorithm = self.choose(Operation::Reduce, Some(size_of_val(values)));
        self.together(Operation::Reduce, Some(size_of_val(values)), |seq| {
            match (algorithm, self.stage()) {
                (Algorithm::Staged | Algorithm::Shares, Some(group)) => {
                    let mut call = StagedCall::new(self, group, seq)?;
                    self.reduce_staged::<T, O>(&mut call, (seq, root), values, algorithm)
                }
                (Algorithm::Everything, Some(group)) => {
                    let mut all = self.everything(group, seq, values)?;
                    if self.rank() == root {
                        fold_rows::<T, O>(&mut all, self.nranks());
                        values.copy_from_slice(&all[..values.len()]);
                    }
                    Ok(())
                }
                _ => {
                    let result = self.combine_at_first::<T, O>(seq, values)?;
                    self.pass_result((seq, root), result, values)
                }
            }
        })
    }

    /// Combines in the memory of each node, and along a tree over the lowest ranks.
    fn reduce_staged<T: Number, O: Op<T>>(
        &self,
        call: &mut StagedCall<'_>,
        (seq, root): (u64, usize),
        values: &mut [T],
        algorithm: Algorithm,
    ) -> Result<()> {
        let spread = self.layout.is_spread();
        let place = if spread { Some(0) } else { Some(root) };
        // Values of ranks other than the root stay as they are.
        let mut mine = if spread { values.to_vec() } else { Vec::new() };
        let into = if spread { &mut mine[..] } else { &mut *values };
        match algorithm {
            Algorithm::Shares => call.combine_shares::<T, O>(place, into)?,
            _ => call.combine::<T, O>(place, into)?,
        }
        if !spread {
            return Ok(());
        }
        let each = self.layout.local().len();
        let result = match call.me() {
            0 => self.combine_lower::<T, O>(seq, (self.rank(), each, self.nranks()), mine)?,
            _ => None,
        };
        self.pass_result((seq, root), result, values)
    }

    /// Passes the result on from the first rank, which has it, to the root.
    fn pass_result<T: Number>(
        &self,
        (seq, root): (u64, usize),
        result: Option<Vec<T>>,
        values: &mut [T],
    ) -> Result<()> {
        match (result, self.rank() == root) {
            (Some(result), true) => values.copy_from_slice(&result),
            (Some(result), false) => {
                self.send(root, (seq, step::DOWN), result.as_bytes())?;
            }
            (None, true) => {
                self.receive_into(0, (seq, step::DOWN), values.as_mut_bytes())?;
            }
            (None, false) => {}
        }
        Ok(())
    }

    /// Combines along the tree of the all-reduce, up to rank 0, which gets the result.
    fn combine_at_first<T: Number, O: Op<T>>(
        &self,
        seq: u64,
        values: &[T],
    ) -> Result<Option<Vec<T>>> {
        let (fold, me) = (Fold::of(self.nranks()), self.rank());
        let mut mine = values.to_vec();
        let Some(position) = fold.position(me) else {
            self.send(me - 1, (seq, step::UP), values.as_bytes())?;
            return Ok(None);
        };
        if fold.is_paired(me) {
            self.receive_in(me + 1, (seq, step::UP), &mut mine, O::combine)?;
        }
        self.combine_lower::<T, O>(seq, (position, 1, fold.power), mine)
    }

    /// Combines over the bits `from..below` (powers of two) of `position`, up to position 0, which
    /// gets the result. Positions are those of a fold of all ranks.
    fn combine_lower<T: Number, O: Op<T>>(
        &self,
        seq: u64,
        (position, from, below): (usize, usize, usize),
        mut mine: Vec<T>,
    ) -> Result<Option<Vec<T>>> {
        let fold = Fold::of(self.nranks());
        let mut bit = from;
        while bit < below {
            let key = (seq, step::BETWEEN + u64::from(bit.ilog2()));
            let partner = fold.rank_of(position ^ bit);
            if position & bit != 0 {
                self.send(partner, key, mine.as_bytes())?;
                return Ok(None);
            }
            self.receive_in(partner, key, &mut mine, O::combine)?;
            bit *= 2;
        }
        debug_assert_eq!(position, 0, "the lowest rank has the result");
        Ok(Some(mine))
    }
}
