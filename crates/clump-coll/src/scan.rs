//! Scan: the values of all ranks up to each, combined.

use crate::arguments::check_bytes;
use crate::choice::{Algorithm, Operation};
use crate::stage::call::StagedCall;
use crate::stage::group::StageGroup;
use crate::staged_values::scan_rows;
use crate::{Number, Op, Team, step};
use clump_am::Result;
use zerocopy::IntoBytes;

impl Team {
    /// Combines the values of all ranks up to this one, this one's included, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn scan<T: Number, O: Op<T>>(&self, value: T, op: O) -> Result<T> {
        let mut one = [value];
        self.scan_slice(&mut one, op)?;
        Ok(one[0])
    }

    /// Combines the slices of all ranks up to this one, element by element. A number of ranks gives
    /// the same bits on any nodes.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values.
    pub fn scan_slice<T: Number, O: Op<T>>(&self, values: &mut [T], _op: O) -> Result<()> {
        self.prepared(|| check_bytes(size_of_val(values) as u64))?;
        let bytes = Some(size_of_val(values));
        self.together(Operation::Scan, bytes, |seq| match self.scan_memory(bytes) {
            Some((group, algorithm)) => {
                self.scan_staged::<T, O>((group, algorithm), seq, values, true)
            }
            None => self.scan_up::<T, O>(seq, values),
        })
    }

    /// Combines the values of all ranks before this one, in rank order; `None` at the first.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn exclusive_scan<T: Number, O: Op<T>>(&self, value: T, op: O) -> Result<Option<T>> {
        let mut one = [value];
        self.exclusive_scan_slice(&mut one, op)?;
        Ok((self.rank() != 0).then_some(one[0]))
    }

    /// Combines the slices of all ranks before this one, element by element; that of the first rank
    /// stays as it is.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values.
    pub fn exclusive_scan_slice<T: Number, O: Op<T>>(
        &self,
        values: &mut [T],
        _op: O,
    ) -> Result<()> {
        self.prepared(|| check_bytes(size_of_val(values) as u64))?;
        let (me, n) = (self.rank(), self.nranks());
        let bytes = Some(size_of_val(values));
        self.together(Operation::Scan, bytes, |seq| {
            if let Some(of) = self.scan_memory(bytes) {
                return self.scan_staged::<T, O>(of, seq, values, false);
            }
            let mut through = values.to_vec();
            self.scan_up::<T, O>(seq, &mut through)?;
            if me + 1 < n {
                self.send(me + 1, (seq, step::DOWN), through.as_bytes())?;
            }
            if me > 0 {
                self.receive_into(me - 1, (seq, step::DOWN), values.as_mut_bytes())?;
            }
            Ok(())
        })
    }

    /// Returns the ranks of this node and the algorithm, if a scan uses the memory of nodes.
    fn scan_memory(&self, bytes: Option<usize>) -> Option<(&StageGroup, Algorithm)> {
        let algorithm = self.choose(Operation::Scan, bytes);
        let is_staged = matches!(algorithm, Algorithm::Staged | Algorithm::Everything);
        self.stage().filter(|_| is_staged).map(|group| (group, algorithm))
    }

    /// Combines what ranks before this one have given in the memory of the node, or what all have
    /// given on all nodes.
    fn scan_staged<T: Number, O: Op<T>>(
        &self,
        (group, algorithm): (&StageGroup, Algorithm),
        seq: u64,
        values: &mut [T],
        inclusive: bool,
    ) -> Result<()> {
        if algorithm == Algorithm::Staged {
            return StagedCall::new(self, group, seq)?.combine_before::<T, O>(values, inclusive);
        }
        let mut all = self.everything(group, seq, values)?;
        let count = self.rank() + usize::from(inclusive);
        if count > 0 {
            let rows = &mut all[..count * values.len()];
            scan_rows::<T, O>(rows, count);
            values.copy_from_slice(&rows[(count - 1) * values.len()..]);
        }
        Ok(())
    }

    /// Runs Hillis and Steele's scan: in round k every rank combines with what the one 2^k before
    /// it has, so it takes ceil(log2 N) rounds at any N.
    fn scan_up<T: Number, O: Op<T>>(&self, seq: u64, values: &mut [T]) -> Result<()> {
        let (me, n) = (self.rank(), self.nranks());
        let (mut distance, mut round) = (1, step::BETWEEN);
        while distance < n {
            if me + distance < n {
                self.send(me + distance, (seq, round), values.as_bytes())?;
            }
            if me >= distance {
                self.receive_in(me - distance, (seq, round), values, |mine, lower| {
                    O::combine(lower, mine)
                })?;
            }
            distance *= 2;
            round += 1;
        }
        debug_assert!(distance >= n && distance < 2 * n.max(2), "every rank before was combined");
        Ok(())
    }
}
