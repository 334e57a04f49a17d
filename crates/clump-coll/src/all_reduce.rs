//! All-reduce: the values of all ranks combined, for all ranks.

use crate::arguments::check_bytes;
use crate::choice::{Algorithm, Operation};
use crate::fold::Fold;
use crate::stage::call::StagedCall;
use crate::stage::group::StageGroup;
use crate::staged_values::fold_rows;
use crate::{Number, Op, Team, step};
use clump_am::Result;
use zerocopy::IntoBytes;

impl Team {
    /// Combines all ranks' values with `op`; all ranks get the same bits.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn all_reduce<T: Number, O: Op<T>>(&self, value: T, op: O) -> Result<T> {
        let mut one = [value];
        self.all_reduce_slice(&mut one, op)?;
        Ok(one[0])
    }

    /// Combines all ranks' slices element by element.
    ///
    /// The operands form one tree for all node layouts, so that a job gives the same bits on one
    /// node and on several; only the ranks that combine differ.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values.
    pub fn all_reduce_slice<T: Number, O: Op<T>>(&self, values: &mut [T], _op: O) -> Result<()> {
        self.prepared(|| check_bytes(size_of_val(values) as u64))?;
        let algorithm = self.choose(Operation::AllReduce, Some(size_of_val(values)));
        let each = self.layout.local().len();
        self.together(Operation::AllReduce, Some(size_of_val(values)), |seq| {
            match (algorithm, self.stage()) {
                (Algorithm::Staged | Algorithm::Shares, Some(group)) => {
                    let mut call = StagedCall::new(self, group, seq)?;
                    self.all_reduce_staged::<T, O>(&mut call, seq, values, algorithm)
                }
                (Algorithm::Everything, Some(group)) => {
                    let mut all = self.everything(group, seq, values)?;
                    fold_rows::<T, O>(&mut all, self.nranks());
                    values.copy_from_slice(&all[..values.len()]);
                    Ok(())
                }
                (Algorithm::Leaders, _) => self.reduce_by_node::<T, O>(seq, values, each),
                _ => self.reduce_by_rank::<T, O>(seq, values),
            }
        })
    }

    /// Combines in the memory of each node, between the lowest ranks by doubling, and spreads the
    /// result in the memory of each node.
    fn all_reduce_staged<T: Number, O: Op<T>>(
        &self,
        call: &mut StagedCall<'_>,
        seq: u64,
        values: &mut [T],
        algorithm: Algorithm,
    ) -> Result<()> {
        let root = self.layout.is_spread().then_some(0);
        match algorithm {
            Algorithm::Shares => call.combine_shares::<T, O>(root, values)?,
            _ => call.combine::<T, O>(root, values)?,
        }
        if root.is_none() {
            return Ok(());
        }
        call.next_phase();
        if call.me() == 0 {
            let (me, each, n) = (self.rank(), self.layout.local().len(), self.nranks());
            self.double::<T, O>(seq, values, me, (each, n), |at| at)?;
        }
        call.spread(0, values.as_mut_bytes())
    }

    /// Returns the values of all ranks, in rank order.
    pub(crate) fn everything<T: Number>(
        &self,
        group: &StageGroup,
        seq: u64,
        values: &[T],
    ) -> Result<Vec<T>> {
        let bytes = size_of_val(values);
        let mut call = StagedCall::new(self, group, seq)?;
        let mut all = values.repeat(self.nranks());
        self.collect_node(&mut call, values.as_bytes(), all.as_mut_bytes())?;
        call.next_phase();
        if call.me() == 0 {
            let lengths = vec![bytes; self.nranks()];
            self.pass_nodes(seq, &lengths, all.as_mut_bytes())?;
        }
        call.spread(0, all.as_mut_bytes())?;
        Ok(all)
    }

    /// Runs recursive doubling over the positions of a [`Fold`], which is undone afterwards.
    fn reduce_by_rank<T: Number, O: Op<T>>(&self, seq: u64, values: &mut [T]) -> Result<()> {
        let (me, fold) = (self.rank(), Fold::of(self.nranks()));
        let Some(position) = fold.position(me) else {
            self.send(me - 1, (seq, step::UP), values.as_bytes())?;
            self.receive_into(me - 1, (seq, step::DOWN), values.as_mut_bytes())?;
            return Ok(());
        };
        if fold.is_paired(me) {
            self.receive_in(me + 1, (seq, step::UP), values, O::combine)?;
        }
        self.double::<T, O>(seq, values, position, (1, fold.power), |at| fold.rank_of(at))?;
        if fold.is_paired(me) {
            self.send(me + 1, (seq, step::DOWN), values.as_bytes())?;
        }
        Ok(())
    }

    /// Combines along the same tree where nodes are even: its lower levels within each node, up to
    /// the lowest rank; its upper levels between these, by doubling; then the result is handed
    /// down. Each node sends one message a level where every rank would send one.
    fn reduce_by_node<T: Number, O: Op<T>>(
        &self,
        seq: u64,
        values: &mut [T],
        each: usize,
    ) -> Result<()> {
        let (me, n) = (self.rank(), self.nranks());
        if self.combine_up::<T, O>(seq, values, me % each, each)? {
            self.double::<T, O>(seq, values, me, (each, n), |at| at)?;
        }
        let local: Vec<usize> = self.layout.local().collect();
        let leader = self.layout.leader();
        self.hand_down((seq, step::DOWN), &local, leader, values.as_mut_bytes())
    }

    /// Combines the values of the `each` ranks of a node at the lowest, pairs of neighbours first;
    /// this rank is at `place`. Returns true if this rank has the result.
    fn combine_up<T: Number, O: Op<T>>(
        &self,
        seq: u64,
        values: &mut [T],
        place: usize,
        each: usize,
    ) -> Result<bool> {
        let (me, bytes) = (self.rank(), size_of_val(values));
        if !self.layout.is_flat(bytes) {
            let mut bit = 1;
            while bit < each && place & bit == 0 {
                self.receive_in(me + bit, (seq, step::UP), values, O::combine)?;
                bit *= 2;
            }
            if place != 0 {
                self.send(me - bit, (seq, step::UP), values.as_bytes())?;
            }
            return Ok(place == 0);
        }
        if place != 0 {
            self.send(me - place, (seq, step::UP), values.as_bytes())?;
            return Ok(false);
        }
        let mut all = vec![values.to_vec()];
        for rank in me + 1..me + each {
            let mut row = values.to_vec();
            self.receive_into(rank, (seq, step::UP), row.as_mut_bytes())?;
            all.push(row);
        }
        let pair = |pair: &[Vec<T>]| {
            let operands = pair[0].iter().zip(&pair[1]);
            operands.map(|(&lower, &higher)| O::combine(lower, higher)).collect()
        };
        while all.len() > 1 {
            all = all.chunks_exact(2).map(pair).collect();
        }
        values.copy_from_slice(&all[0]);
        Ok(true)
    }

    /// Runs recursive doubling over the bits `from..below` (powers of two) of `position`.
    fn double<T: Number, O: Op<T>>(
        &self,
        seq: u64,
        values: &mut [T],
        position: usize,
        (from, below): (usize, usize),
        rank_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let mut bit = from;
        while bit < below {
            let partner = rank_of(position ^ bit);
            let key = (seq, step::BETWEEN + u64::from(bit.ilog2()));
            self.send(partner, key, values.as_bytes())?;
            if position & bit == 0 {
                self.receive_in(partner, key, values, O::combine)?;
            } else {
                self.receive_in(partner, key, values, |mine, lower| O::combine(lower, mine))?;
            }
            bit *= 2;
        }
        Ok(())
    }
}
