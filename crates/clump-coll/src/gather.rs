//! Gather: the values of all ranks, for one rank.

use crate::arguments::check_bytes;
use crate::choice::Operation;
use crate::mailbox::failed;
use crate::parcel::{pack, unpack};
use crate::parts_memory::EqualParts;
use crate::stage::call::StagedCall;
use crate::team::copy_of;
use crate::{Plain, Team, step};
use clump_am::Result;
use zerocopy::IntoBytes;

impl Team {
    /// Returns all ranks' values, in rank order, at `root`; `None` elsewhere.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave a value of another size.
    pub fn gather<T: Plain>(&self, root: usize, value: T) -> Result<Option<Vec<T>>> {
        let here = self.rank() == root;
        let mut all = vec![value; if here { self.nranks() } else { 0 }];
        self.gather_slice(root, &[value], &mut all)?;
        Ok(here.then_some(all))
    }

    /// Returns all ranks' byte strings, of any lengths, in rank order, at `root`; `None` elsewhere.
    /// Each node's cross to the root's in one message.
    ///
    /// # Errors
    /// Fails if a rank died or left; there is no such root; no memory.
    pub fn gather_bytes(&self, root: usize, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        self.prepared(|| self.check_rank(root).and_then(|()| check_bytes(mine.len() as u64)))?;
        self.together(Operation::Gather, None, |seq| self.gather_up(seq, root, mine))
    }

    /// Writes all ranks' values, of equal numbers, into `all`, in rank order, at `root`; `all` of
    /// other ranks is not used. On one node no other memory is needed.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values; `all` has not room for as
    /// many of each rank; there is no such root.
    pub fn gather_slice<T: Plain>(&self, root: usize, mine: &[T], all: &mut [T]) -> Result<()> {
        self.prepared(|| self.check_rank(root))?;
        let here = self.rank() == root;
        if here {
            self.prepared(|| self.check_room(size_of_val(all), size_of_val(mine)))?;
        }
        self.prepared(|| check_bytes(size_of_val(mine).saturating_mul(self.nranks()) as u64))?;
        let all = if here { all.as_mut_bytes() } else { &mut [] };
        let bytes = Some(size_of_val(mine));
        self.together(Operation::Gather, bytes, |seq| {
            self.gather_equal(seq, root, mine.as_bytes(), all)
        })
    }

    /// Gathers contributions of equal lengths: those of a node at one of its ranks, and those of
    /// nodes at the root.
    fn gather_equal(&self, seq: u64, root: usize, mine: &[u8], all: &mut [u8]) -> Result<()> {
        let (me, each, local) = (self.rank(), mine.len(), self.layout.local());
        let speaker = self.layout.speaker(root);
        let (is_speaker, is_root) = (me == speaker, me == root);
        let mut of_node = vec![0; if is_speaker && !is_root { local.len() * each } else { 0 }];
        let own = match is_root {
            true => &mut all[local.start * each..local.end * each],
            false => &mut of_node[..],
        };
        if let Some(group) = self.stage_for(Operation::Gather, None) {
            let mut call = StagedCall::new(self, group, seq)?;
            let mut parts = EqualParts::of_all(own, call.len());
            call.collect(Some(speaker - local.start), mine, &mut parts)?;
        } else if is_speaker {
            for rank in local.clone() {
                let at = (rank - local.start) * each;
                let part = &mut own[at..at + each];
                if rank == me {
                    part.copy_from_slice(mine);
                } else {
                    self.receive_into(rank, (seq, step::UP), part)?;
                }
            }
        } else {
            self.send(speaker, (seq, step::UP), mine)?;
        }
        if is_root {
            for (ranks, speaker) in self.layout.nodes().iter().zip(self.layout.speakers(root)) {
                if speaker != root {
                    let part = &mut all[ranks.start * each..ranks.end * each];
                    self.receive_into(speaker, (seq, step::BETWEEN), part)?;
                }
            }
        } else if is_speaker {
            self.send(root, (seq, step::BETWEEN), &of_node)?;
        }
        Ok(())
    }

    fn gather_up(&self, seq: u64, root: usize, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let (local, speakers) = (self.layout.local(), self.layout.speakers(root));
        let speaker = self.layout.speaker(root);
        let staged = self.stage_for(Operation::Gather, None);
        let mut own = match staged {
            Some(group) => {
                let mut parts = vec![Vec::new(); local.len()];
                let mut call = StagedCall::new(self, group, seq)?;
                call.collect(Some(speaker - local.start), mine, &mut parts)?;
                parts
            }
            None => Vec::with_capacity(local.len()),
        };
        if self.rank() != speaker {
            if staged.is_none() {
                self.send(speaker, (seq, step::UP), &pack(&[mine])?)?;
            }
            return Ok(None);
        }
        let unpack_of = |from: usize, parcel: &[u8], parts: usize| {
            unpack(parcel, parts, (self.member(from), seq)).map_err(failed)
        };
        for rank in local.filter(|_| staged.is_none()) {
            if rank == self.rank() {
                own.push(copy_of(mine)?);
            } else {
                let parcel = self.receive_any(rank, (seq, step::UP))?;
                own.append(&mut unpack_of(rank, &parcel, 1)?);
            }
        }
        if self.rank() != root {
            self.send(root, (seq, step::BETWEEN), &pack(&own)?)?;
            return Ok(None);
        }
        let mut all = Vec::with_capacity(self.nranks());
        for (ranks, speaker) in self.layout.nodes().iter().zip(speakers) {
            if speaker == root {
                all.append(&mut own);
            } else {
                let parcel = self.receive_any(speaker, (seq, step::BETWEEN))?;
                all.append(&mut unpack_of(speaker, &parcel, ranks.len())?);
            }
        }
        debug_assert_eq!(all.len(), self.nranks(), "each rank gave one");
        Ok(Some(all))
    }
}
