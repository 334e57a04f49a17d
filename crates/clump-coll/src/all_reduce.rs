//! All-reduce: the values of all ranks combined, for all ranks.

use crate::team::check_bytes;
use crate::{Number, Op, Team, step};
use clump_am::Result;
use clump_trace::Counter;
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
        check_bytes(size_of_val(values) as u64)?;
        let even = self.layout.even().filter(|_| self.layout.is_spread());
        self.together(Counter::AllReduces, |seq| match even {
            Some(each) => self.reduce_by_node::<T, O>(seq, values, each),
            None => self.reduce_by_rank::<T, O>(seq, values),
        })
    }

    /// Runs recursive doubling over the positions of a [`Fold`], which is undone afterwards.
    fn reduce_by_rank<T: Number, O: Op<T>>(&self, seq: u64, values: &mut [T]) -> Result<()> {
        let (me, fold) = (self.rank(), Fold::of(self.nranks()));
        let Some(position) = fold.position(me) else {
            self.send(me - 1, (seq, step::UP), values.as_bytes())?;
            let result = self.receive(me - 1, (seq, step::DOWN), size_of_val(values))?;
            copy_in(values, &result, |_, new| new);
            return Ok(());
        };
        if fold.is_paired(me) {
            let higher = self.receive(me + 1, (seq, step::UP), size_of_val(values))?;
            copy_in(values, &higher, O::combine);
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
        let (me, n, bytes) = (self.rank(), self.nranks(), size_of_val(values));
        let mut result = None;
        if self.combine_up::<T, O>(seq, values, me % each, each)? {
            self.double::<T, O>(seq, values, me, (each, n), |at| at)?;
            result = Some(values.as_bytes().to_vec());
        }
        let local: Vec<usize> = self.layout.local().collect();
        let leader = self.layout.leader();
        let result = self.hand_down((seq, step::DOWN), &local, leader, result, bytes)?;
        copy_in(values, &result, |_, new| new);
        Ok(())
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
                let higher = self.receive(me + bit, (seq, step::UP), bytes)?;
                copy_in(values, &higher, O::combine);
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
            let theirs = self.receive(rank, (seq, step::UP), bytes)?;
            let mut row = values.to_vec();
            copy_in(&mut row, &theirs, |_, new| new);
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
            let other = self.receive(partner, key, size_of_val(values))?;
            if position & bit == 0 {
                copy_in(values, &other, O::combine);
            } else {
                copy_in(values, &other, |mine, lower| O::combine(lower, mine));
            }
            bit *= 2;
        }
        Ok(())
    }
}

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
