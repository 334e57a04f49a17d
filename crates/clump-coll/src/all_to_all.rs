//! All-to-all: one value of each rank for each rank.

use crate::arguments::check_bytes;
use crate::choice::{Algorithm, Operation};
use crate::mailbox::failed;
use crate::parcel::{pack, unpack};
use crate::parts_memory::{EqualParts, equal_parts};
use crate::stage::call::StagedCall;
use crate::stage::group::StageGroup;
use crate::team::copy_of;
use crate::{Plain, Team, step};
use clump_am::Result;
use std::ops::Range;
use zerocopy::IntoBytes;

impl Team {
    /// Gives `values[i]` to rank `i`, and returns the values that the ranks give to this one, in
    /// rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave values of another size; not one value was given for
    /// each rank.
    pub fn all_to_all<T: Plain>(&self, values: &[T]) -> Result<Vec<T>> {
        self.prepared(|| self.check_one_each(values.len()))?;
        let mut got = values.to_vec();
        self.all_to_all_slice(values, &mut got)?;
        Ok(got)
    }

    /// Gives `parts[i]`, of any length, to rank `i`, and returns the byte strings that the ranks
    /// give to this one, in rank order.
    ///
    /// # Errors
    /// As for [`Team::all_to_all`]; no memory.
    pub fn all_to_all_bytes<B: AsRef<[u8]>>(&self, parts: &[B]) -> Result<Vec<Vec<u8>>> {
        self.prepared(|| self.check_one_each(parts.len()))?;
        let lengths = parts.iter().map(|part| part.as_ref().len() as u64);
        self.prepared(|| check_bytes(lengths.fold(0, u64::saturating_add)))?;
        let staged = self.stage_for(Operation::AllToAll, None);
        self.together(Operation::AllToAll, None, |seq| {
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
                    let got = unpack(&parcel, 1, (self.member(rank), seq)).map_err(failed)?;
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
        self.prepared(|| {
            self.check_room(size_of_val(given), each)
                .and_then(|()| self.check_room(size_of_val(got), each))
                .and_then(|()| check_bytes(size_of_val(given) as u64))
        })?;
        let (given, got) = (given.as_bytes(), got.as_mut_bytes());
        let algorithm = self.choose(Operation::AllToAll, Some(given.len()));
        self.together(Operation::AllToAll, Some(given.len()), |seq| {
            match (algorithm, self.stage()) {
                (Algorithm::Staged, Some(group)) => self.exchange_staged(group, seq, given, got),
                (Algorithm::Leaders, _) if each > 0 => self.exchange_by_node(seq, given, got),
                _ => self.exchange_by_rank(seq, given, got),
            }
        })
    }

    /// Returns the other ranks, the next one first, so that not all send to the same one.
    fn others(&self) -> impl Iterator<Item = usize> {
        let (me, n) = (self.rank(), self.nranks());
        (1..n).map(move |distance| (me + distance) % n)
    }

    /// Exchanges parts between every two ranks.
    fn exchange_by_rank(&self, seq: u64, given: &[u8], got: &mut [u8]) -> Result<()> {
        let key = (seq, step::WITHIN);
        let row = PartRow { each: given.len() / self.nranks() };
        self.others().try_for_each(|rank| self.send(rank, key, &given[row.of(rank)]))?;
        got[row.of(self.rank())].copy_from_slice(&given[row.of(self.rank())]);
        for rank in self.others() {
            self.receive_into(rank, key, &mut got[row.of(rank)])?;
        }
        Ok(())
    }

    /// Exchanges parts within the node as equals, and those of other nodes by way of the lowest
    /// ranks: one message for each pair of nodes.
    fn exchange_by_node(&self, seq: u64, given: &[u8], got: &mut [u8]) -> Result<()> {
        let row = PartRow { each: given.len() / self.nranks() };
        let (me, local, leader) = (self.rank(), self.layout.local(), self.layout.leader());
        let key = (seq, step::WITHIN);
        for rank in local.clone().filter(|&rank| rank != me) {
            self.send(rank, key, &given[row.of(rank)])?;
        }
        if me != leader {
            self.send(leader, (seq, step::UP), given)?;
            self.receive_into(leader, (seq, step::DOWN), got)?;
        } else {
            let mut of_node = given.to_vec();
            for rank in local.clone().skip(1) {
                of_node.extend(self.receive(rank, (seq, step::UP), given.len())?);
            }
            let rows = self.exchange_nodes(seq, &of_node)?;
            for (rank, row) in local.clone().zip(rows.chunks_exact(given.len())) {
                if rank == leader {
                    got.copy_from_slice(row);
                } else {
                    self.send(rank, (seq, step::DOWN), row)?;
                }
            }
        }
        got[row.of(me)].copy_from_slice(&given[row.of(me)]);
        for rank in local.filter(|&rank| rank != me) {
            self.receive_into(rank, key, &mut got[row.of(rank)])?;
        }
        Ok(())
    }

    /// Exchanges parts in the memory of the node; where there are several nodes, its lowest rank
    /// has all parts that its ranks give there, and exchanges them with other nodes.
    fn exchange_staged(
        &self,
        group: &StageGroup,
        seq: u64,
        given: &[u8],
        got: &mut [u8],
    ) -> Result<()> {
        let mut call = StagedCall::new(self, group, seq)?;
        if self.is_one_node() {
            let parts = equal_parts(given, self.nranks());
            return call.exchange(&parts, &mut EqualParts::of_all(got, self.nranks()));
        }
        let (me, members, bytes) = (call.me(), call.len(), given.len());
        let mut of_node = vec![0; if me == 0 { members * bytes } else { 0 }];
        call.collect(Some(0), given, &mut EqualParts::of_all(&mut of_node, members))?;
        call.next_phase();
        let mut own = EqualParts::of_one(got, me);
        if me != 0 {
            return call.scatter(0, None, &mut own);
        }
        let row = PartRow { each: bytes / self.nranks() };
        let local = self.layout.local();
        let mut rows = self.exchange_nodes(seq, &of_node)?;
        for (to, row_of) in local.clone().zip(rows.chunks_exact_mut(bytes.max(1))) {
            for (from, theirs) in local.clone().zip(of_node.chunks_exact(bytes.max(1))) {
                row_of[row.of(from)].copy_from_slice(&theirs[row.of(to)]);
            }
        }
        call.scatter(0, Some(&equal_parts(&rows, members)), &mut own)
    }

    /// For the lowest rank of a node: exchanges what its ranks give, a row for each, with other
    /// nodes. Returns a row of what each of its ranks gets; the parts of the node's own ranks are
    /// zero.
    fn exchange_nodes(&self, seq: u64, given: &[u8]) -> Result<Vec<u8>> {
        let (me, local, key) = (self.rank(), self.layout.local(), (seq, step::BETWEEN));
        let bytes = given.len() / local.len();
        let row = PartRow { each: bytes / self.nranks() };
        debug_assert_eq!(row.each * self.nranks() * local.len(), given.len(), "rows of all");
        let mut rows = vec![0; given.len()];
        let others = self.layout.nodes().iter().filter(|ranks| ranks.start != me);
        for ranks in others.clone() {
            let to_node = given.chunks_exact(bytes.max(1)).map(|from| &from[row.of_all(ranks)]);
            self.send(ranks.start, key, &to_node.collect::<Vec<_>>().concat())?;
        }
        let for_node = local.len() * row.each;
        for ranks in others {
            let block = self.receive(ranks.start, key, ranks.len() * for_node)?;
            for (from, theirs) in ranks.clone().zip(block.chunks_exact(for_node.max(1))) {
                let parts = theirs.chunks_exact(row.each);
                for (to, part) in rows.chunks_exact_mut(bytes.max(1)).zip(parts) {
                    to[row.of(from)].copy_from_slice(part);
                }
            }
        }
        Ok(rows)
    }
}

/// Layout of parts of equal lengths, one for each rank, in rank order.
#[derive(Debug, Clone, Copy)]
struct PartRow {
    /// Bytes of a part.
    each: usize,
}

impl PartRow {
    /// Returns the place of the part of a rank.
    fn of(self, rank: usize) -> Range<usize> {
        self.of_all(&(rank..rank + 1))
    }

    /// Returns the place of the parts of some ranks.
    fn of_all(self, ranks: &Range<usize>) -> Range<usize> {
        debug_assert!(ranks.start < ranks.end, "of at least one rank");
        ranks.start * self.each..ranks.end * self.each
    }
}
