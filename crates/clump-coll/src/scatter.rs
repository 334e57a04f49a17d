//! Scatter: one value of a rank for each rank.

use crate::arguments::check_bytes;
use crate::choice::Operation;
use crate::mailbox::failed;
use crate::parcel::{pack, unpack};
use crate::parts_memory::{EqualParts, equal_parts};
use crate::stage::call::StagedCall;
use crate::team::copy_of;
use crate::{Plain, Team, step};
use clump_am::Result;
use zerocopy::IntoBytes;

impl Team {
    /// Returns this rank's value of those that `root` gives, one for each rank, in rank order.
    /// `values` of other ranks are not read.
    ///
    /// # Errors
    /// Fails if a rank died or left; `root` did not give one value for each rank, or of another
    /// size; there is no such root.
    pub fn scatter<T: Plain>(&self, root: usize, values: &[T]) -> Result<T> {
        if self.rank() == root {
            self.prepared(|| self.check_one_each(values.len()))?;
        }
        let mut mine = T::new_zeroed();
        self.scatter_slice(root, values, std::slice::from_mut(&mut mine))?;
        Ok(mine)
    }

    /// Returns this rank's byte string of those that `root` gives, one for each rank, of any
    /// lengths. `parts` of other ranks are not read. Those of a node cross to it in one message.
    ///
    /// # Errors
    /// As for [`Team::scatter`]; no memory.
    pub fn scatter_bytes<B: AsRef<[u8]>>(&self, root: usize, parts: &[B]) -> Result<Vec<u8>> {
        self.prepared(|| self.check_rank(root))?;
        if self.rank() == root {
            self.prepared(|| self.check_one_each(parts.len()))?;
            let lengths = parts.iter().map(|part| part.as_ref().len() as u64);
            self.prepared(|| check_bytes(lengths.fold(0, u64::saturating_add)))?;
        }
        self.together(Operation::Scatter, None, |seq| self.scatter_down(seq, root, parts))
    }

    /// Writes this rank's values of those that `root` gives, equally many for each rank, in rank
    /// order, into `mine`. `all` of other ranks is not read. On one node no other memory is needed.
    ///
    /// # Errors
    /// Fails if a rank died or left; `root` did not give as many values for each rank as `mine`
    /// has room for; there is no such root.
    pub fn scatter_slice<T: Plain>(&self, root: usize, all: &[T], mine: &mut [T]) -> Result<()> {
        self.prepared(|| self.check_rank(root))?;
        let each = size_of_val(mine);
        let here = self.rank() == root;
        if here {
            self.prepared(|| {
                self.check_room(size_of_val(all), each)
                    .and_then(|()| check_bytes(size_of_val(all) as u64))
            })?;
        }
        let all = if here { all.as_bytes() } else { &[] };
        self.together(Operation::Scatter, Some(each), |seq| {
            self.scatter_equal(seq, root, all, mine.as_mut_bytes())
        })
    }

    /// Gives each rank its part, of equal lengths: those of a node to one of its ranks, which gives
    /// them to the others.
    fn scatter_equal(&self, seq: u64, root: usize, all: &[u8], mine: &mut [u8]) -> Result<()> {
        let (me, each, local) = (self.rank(), mine.len(), self.layout.local());
        let speaker = self.layout.speaker(root);
        let mut of_node = vec![0; if me == speaker && me != root { local.len() * each } else { 0 }];
        if me == root {
            for (ranks, to) in self.layout.nodes().iter().zip(self.layout.speakers(root)) {
                if to != root {
                    let part = &all[ranks.start * each..ranks.end * each];
                    self.send(to, (seq, step::BETWEEN), part)?;
                }
            }
        } else if me == speaker {
            self.receive_into(root, (seq, step::BETWEEN), &mut of_node)?;
        }
        let own = match me == root {
            true => &all[local.start * each..local.end * each],
            false => &of_node[..],
        };
        if let Some(group) = self.stage_for(Operation::Scatter, None) {
            let mut call = StagedCall::new(self, group, seq)?;
            let parts = if me == speaker { equal_parts(own, call.len()) } else { Vec::new() };
            let parts = (me == speaker).then_some(&parts[..]);
            let at = call.me();
            return call.scatter(speaker - local.start, parts, &mut EqualParts::of_one(mine, at));
        }
        if me != speaker {
            return self.receive_into(speaker, (seq, step::DOWN), mine);
        }
        for rank in local.clone() {
            let at = (rank - local.start) * each;
            if rank == me {
                mine.copy_from_slice(&own[at..at + each]);
            } else {
                self.send(rank, (seq, step::DOWN), &own[at..at + each])?;
            }
        }
        Ok(())
    }

    fn scatter_down<B: AsRef<[u8]>>(&self, seq: u64, root: usize, parts: &[B]) -> Result<Vec<u8>> {
        let local = self.layout.local();
        let speaker = self.layout.speaker(root);
        let mut staged = match self.stage_for(Operation::Scatter, None) {
            Some(group) => Some(StagedCall::new(self, group, seq)?),
            None => None,
        };
        if self.rank() == root {
            for (ranks, to) in self.layout.nodes().iter().zip(self.layout.speakers(root)) {
                if to != root {
                    self.send(to, (seq, step::BETWEEN), &pack(&parts[ranks.clone()])?)?;
                }
            }
            if let Some(call) = &mut staged {
                let parts: Vec<&[u8]> = parts[local.clone()].iter().map(B::as_ref).collect();
                return own_part(call, root - local.start, Some(&parts));
            }
            for rank in local.filter(|&rank| rank != root) {
                self.send(rank, (seq, step::DOWN), &pack(&parts[rank..=rank])?)?;
            }
            return copy_of(parts[root].as_ref());
        }
        if let Some(call) = staged.as_mut().filter(|_| self.rank() != speaker) {
            return own_part(call, speaker - local.start, None);
        }
        let (from, key, count) = match self.rank() == speaker {
            true => (root, (seq, step::BETWEEN), local.len()),
            false => (speaker, (seq, step::DOWN), 1),
        };
        let parcel = self.receive_any(from, key)?;
        let mut got = unpack(&parcel, count, (self.member(from), seq)).map_err(failed)?;
        if self.rank() != speaker {
            return Ok(got.pop().unwrap_or_default());
        }
        debug_assert_eq!(got.len(), local.len(), "one for each rank of this node");
        if let Some(call) = &mut staged {
            let parts: Vec<&[u8]> = got.iter().map(Vec::as_slice).collect();
            return own_part(call, speaker - local.start, Some(&parts));
        }
        let mut mine = Vec::new();
        for (rank, part) in local.zip(got) {
            if rank == speaker {
                mine = part;
            } else {
                self.send(rank, (seq, step::DOWN), &pack(&[part])?)?;
            }
        }
        Ok(mine)
    }
}

/// Returns a member's part of those that `root` gives.
fn own_part(call: &mut StagedCall<'_>, root: usize, parts: Option<&[&[u8]]>) -> Result<Vec<u8>> {
    let mut mine = vec![Vec::new(); call.len()];
    call.scatter(root, parts, &mut mine)?;
    Ok(mine.swap_remove(call.me()))
}
