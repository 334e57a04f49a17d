//! All-to-all: one value of each rank for each rank.

use crate::choice::{Algorithm, Operation};
use crate::parcel::{pack, unpack};
use crate::parts_memory::{EqualParts, equal_parts};
use crate::stage::call::StagedCall;
use crate::stage::group::StageGroup;
use crate::team::{check_bytes, copy_of, failed};
use crate::{Plain, Team, step};
use clump_am::Result;
use clump_trace::Counter;
use zerocopy::IntoBytes;

impl Team {
    /// Gives `values[i]` to rank `i`, and returns the values that the ranks give to this one, in
    /// rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave values of another size; not one value was given for
    /// each rank.
    pub fn all_to_all<T: Plain>(&self, values: &[T]) -> Result<Vec<T>> {
        self.check_one_each(values.len())?;
        let bytes = size_of_val(values);
        check_bytes(bytes as u64)?;
        let algorithm = self.choose(Operation::AllToAll, Some(bytes));
        self.together(Counter::AllToAlls, |seq| match (algorithm, self.stage()) {
            (Algorithm::Staged, Some(group)) => self.exchange_staged(group, seq, values),
            (Algorithm::Leaders, _) => self.exchange_by_node(seq, values),
            _ => self.exchange_by_rank(seq, values),
        })
    }

    /// Gives `parts[i]`, of any length, to rank `i`, and returns the byte strings that the ranks
    /// give to this one, in rank order.
    ///
    /// # Errors
    /// As for [`Team::all_to_all`]; no memory.
    pub fn all_to_all_bytes<B: AsRef<[u8]>>(&self, parts: &[B]) -> Result<Vec<Vec<u8>>> {
        self.check_one_each(parts.len())?;
        let lengths = parts.iter().map(|part| part.as_ref().len() as u64);
        check_bytes(lengths.fold(0, u64::saturating_add))?;
        let staged = self.stage_for(Operation::AllToAll, None);
        self.together(Counter::AllToAlls, |seq| {
            if let Some(group) = staged {
                let parts: Vec<&[u8]> = parts.iter().map(B::as_ref).collect();
                let mut got = vec![Vec::new(); parts.len()];
                StagedCall::new(self, group, seq)?.exchange(&parts, &mut got)?;
                return Ok(got);
            }
            for rank in self.others() {
                self.send(rank, (seq, step::WITHIN), &pack(&parts[rank..=rank])?)?;
            }
            (0..self.nranks())
                .map(|rank| {
                    if rank == self.rank() {
                        return copy_of(parts[rank].as_ref());
                    }
                    let parcel = self.receive_any(rank, (seq, step::WITHIN))?;
                    let got = unpack(&parcel, 1, (self.members()[rank], seq)).map_err(failed)?;
                    Ok(got.concat())
                })
                .collect()
        })
    }

    /// Gives the values of `given` that are for each rank, equally many, in rank order, and writes
    /// those that the ranks give to this one into `got`. On one node no other memory is needed.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values; `given` and `got` do not
    /// have equally many for each rank.
    pub fn all_to_all_slice<T: Plain>(&self, given: &[T], got: &mut [T]) -> Result<()> {
        let each = size_of_val(given) / self.nranks();
        self.check_room(size_of_val(given), each)?;
        self.check_room(size_of_val(got), each)?;
        check_bytes(size_of_val(given) as u64)?;
        let (parts, got) = (equal_parts(given.as_bytes(), self.nranks()), got.as_mut_bytes());
        let staged = self.stage_for(Operation::AllToAll, None).filter(|_| self.is_one_node());
        if let Some(group) = staged {
            return self.together(Counter::AllToAlls, |seq| {
                let mut call = StagedCall::new(self, group, seq)?;
                call.exchange(&parts, &mut EqualParts::of_all(got, self.nranks()))
            });
        }
        let theirs = self.all_to_all_bytes(&parts)?;
        self.copy_equal(&theirs, got)
    }

    /// Returns the other ranks, the next one first, so that not all send to the same one.
    fn others(&self) -> impl Iterator<Item = usize> {
        let (me, n) = (self.rank(), self.nranks());
        (1..n).map(move |distance| (me + distance) % n)
    }

    fn exchange_by_rank<T: Plain>(&self, seq: u64, values: &[T]) -> Result<Vec<T>> {
        for rank in self.others() {
            self.send(rank, (seq, step::WITHIN), values[rank].as_bytes())?;
        }
        let mut got = values.to_vec();
        for rank in self.others() {
            let value = self.receive(rank, (seq, step::WITHIN), size_of::<T>())?;
            read_into(&mut got[rank..=rank], &value);
        }
        Ok(got)
    }

    /// Exchanges values within the node as equals, and those of other nodes by way of the lowest
    /// ranks: one message for each pair of nodes.
    fn exchange_by_node<T: Plain>(&self, seq: u64, values: &[T]) -> Result<Vec<T>> {
        let (local, leader) = (self.layout.local(), self.layout.leader());
        let mut got = values.to_vec();
        for rank in local.clone().filter(|&rank| rank != self.rank()) {
            self.send(rank, (seq, step::WITHIN), values[rank].as_bytes())?;
        }
        if self.rank() != leader {
            self.send(leader, (seq, step::UP), values.as_bytes())?;
            let all = self.receive(leader, (seq, step::DOWN), size_of_val(values))?;
            read_into(&mut got, &all);
        } else {
            let rows = self.exchange_nodes(seq, &self.take_rows(seq, values)?)?;
            for (rank, row) in local.clone().zip(&rows) {
                if rank == leader {
                    got.copy_from_slice(row);
                } else {
                    self.send(rank, (seq, step::DOWN), row.as_bytes())?;
                }
            }
        }
        for rank in local {
            if rank == self.rank() {
                got[rank] = values[rank];
            } else {
                let value = self.receive(rank, (seq, step::WITHIN), size_of::<T>())?;
                read_into(&mut got[rank..=rank], &value);
            }
        }
        Ok(got)
    }

    /// Exchanges values in the memory of the node; where there are several, its lowest rank has all
    /// its values for others there, and exchanges them with other nodes.
    fn exchange_staged<T: Plain>(
        &self,
        group: &StageGroup,
        seq: u64,
        values: &[T],
    ) -> Result<Vec<T>> {
        let mut call = StagedCall::new(self, group, seq)?;
        let mut got = values.to_vec();
        if self.is_one_node() {
            let parts: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
            let bytes = got.as_mut_bytes();
            call.exchange(&parts, &mut EqualParts::of_all(bytes, self.nranks()))?;
            return Ok(got);
        }
        let mut given = vec![Vec::new(); call.len()];
        call.collect(Some(0), values.as_bytes(), &mut given)?;
        call.next_phase();
        let me = call.me();
        let mut own = EqualParts::of_one(got.as_mut_bytes(), me);
        if me != 0 {
            call.scatter(0, None, &mut own)?;
            return Ok(got);
        }
        let to_row = |bytes: &Vec<u8>| {
            let mut row = values.to_vec();
            read_into(&mut row, bytes);
            row
        };
        let given: Vec<Vec<T>> = given.iter().map(to_row).collect();
        let local = self.layout.local();
        let mut rows = self.exchange_nodes(seq, &given)?;
        for (to, row) in local.clone().zip(&mut rows) {
            for (from, theirs) in local.clone().zip(&given) {
                row[from] = theirs[to];
            }
        }
        let parts: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        call.scatter(0, Some(&parts), &mut own)?;
        Ok(got)
    }

    /// For the lowest rank of a node: takes the values of its ranks.
    fn take_rows<T: Plain>(&self, seq: u64, values: &[T]) -> Result<Vec<Vec<T>>> {
        let (me, local) = (self.rank(), self.layout.local());
        let mut given = Vec::with_capacity(local.len());
        for rank in local.clone() {
            let mut row = values.to_vec();
            if rank != me {
                let theirs = self.receive(rank, (seq, step::UP), size_of_val(values))?;
                read_into(&mut row, &theirs);
            }
            given.push(row);
        }
        Ok(given)
    }

    /// For the lowest rank of a node: exchanges the values that its ranks give with other nodes.
    /// Returns what each of its ranks gets of those; the places of this node's own ranks keep what
    /// this rank gives.
    fn exchange_nodes<T: Plain>(&self, seq: u64, given: &[Vec<T>]) -> Result<Vec<Vec<T>>> {
        let (me, local) = (self.rank(), self.layout.local());
        let values = given.first().cloned().unwrap_or_default();
        let others = self.layout.nodes().iter().filter(|ranks| ranks.start != me);
        for ranks in others.clone() {
            let block: Vec<T> = given.iter().flat_map(|row| &row[ranks.clone()]).copied().collect();
            self.send(ranks.start, (seq, step::BETWEEN), block.as_bytes())?;
        }
        let mut rows = vec![values.to_vec(); local.len()];
        for ranks in others {
            let mut block = vec![values[0]; ranks.len() * local.len()];
            let bytes = self.receive(ranks.start, (seq, step::BETWEEN), size_of_val(&block[..]))?;
            read_into(&mut block, &bytes);
            for (from, theirs) in ranks.clone().zip(block.chunks_exact(local.len())) {
                rows.iter_mut().zip(theirs).for_each(|(row, value)| row[from] = *value);
            }
        }
        debug_assert_eq!(rows.len(), local.len(), "a row for each rank of this node");
        Ok(rows)
    }
}

/// Reads `values` from bytes.
fn read_into<T: Plain>(values: &mut [T], bytes: &[u8]) {
    debug_assert_eq!(size_of_val(values), bytes.len(), "as many as were asked for");
    if size_of_val(values) == bytes.len() {
        values.as_mut_bytes().copy_from_slice(bytes);
    }
}
