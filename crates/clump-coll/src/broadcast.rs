//! Broadcast: one rank's values for all ranks.

use crate::choice::Operation;
use crate::layout::{binomial, flat};
use crate::stage::call::StagedCall;
use crate::stage::group::StageGroup;
use crate::team::{check_bytes, copy_of};
use crate::{Plain, Team, step};
use clump_am::Result;
use zerocopy::IntoBytes;

impl Team {
    /// Makes `values` of `root` the values of all ranks (which must give equally many), along a
    /// binomial tree over the nodes and then one in each node: each node gets them once.
    ///
    /// # Errors
    /// A rank died or left; too many values for memory; there is no such root.
    pub fn broadcast<T: Plain>(&self, root: usize, values: &mut [T]) -> Result<()> {
        self.check_rank(root)?;
        check_bytes(size_of_val(values) as u64)?;
        self.together(Operation::Broadcast, Some(size_of_val(values)), |seq| {
            self.spread(seq, root, values)
        })
    }

    fn spread<T: Plain>(&self, seq: u64, root: usize, values: &mut [T]) -> Result<()> {
        let bytes = size_of_val(values);
        let staged = self.stage_for(Operation::Broadcast, Some(bytes));
        if let Some(group) = staged {
            return self.spread_staged(group, (seq, root), values.as_mut_bytes());
        }
        let mut data = match self.rank() == root {
            true => Some(copy_of(values.as_bytes())?),
            false => None,
        };
        let speakers = self.layout.speakers(root);
        if speakers.contains(&self.rank()) {
            data = Some(self.hand_down((seq, step::BETWEEN), &speakers, root, data, bytes)?);
        }
        let local: Vec<usize> = self.layout.local().collect();
        let speaker = speakers.into_iter().find(|speaker| local.contains(speaker)).unwrap_or(root);
        let data = self.hand_down((seq, step::DOWN), &local, speaker, data, bytes)?;
        copy_whole(values.as_mut_bytes(), &data);
        Ok(())
    }

    /// Spreads the bytes along a tree over one rank of each node, and in each node's memory.
    fn spread_staged(
        &self,
        group: &StageGroup,
        (seq, root): (u64, usize),
        bytes: &mut [u8],
    ) -> Result<()> {
        let (me, local, speaker) = (self.rank(), self.layout.local(), self.layout.speaker(root));
        let mut call = StagedCall::new(self, group, seq)?;
        if self.layout.is_spread() && me == speaker {
            let data = if me == root { Some(copy_of(bytes)?) } else { None };
            let speakers = self.layout.speakers(root);
            let data = self.hand_down((seq, step::BETWEEN), &speakers, root, data, bytes.len())?;
            copy_whole(bytes, &data);
        }
        call.spread(speaker - local.start, bytes)
    }

    /// Hands `bytes` bytes, the `data` of `root`, down a tree over `members`, of which this rank is
    /// one: a binomial one, or within a small enough node a flat one.
    pub(crate) fn hand_down(
        &self,
        (seq, level): (u64, u64),
        members: &[usize],
        root: usize,
        data: Option<Vec<u8>>,
        bytes: usize,
    ) -> Result<Vec<u8>> {
        let n = members.len();
        let place = |rank: usize| members.iter().position(|&member| member == rank).unwrap_or(0);
        let root = place(root);
        let member = |at: usize| members[(at + root) % n];
        let me = (place(self.rank()) + n - root) % n;
        let within = level == step::DOWN && self.layout.is_flat(bytes);
        let parent = if within { flat(me, n).0 } else { binomial(me, n).0 };
        let data = match (parent, data) {
            (Some(parent), _) => self.receive(member(parent), (seq, level), bytes)?,
            (None, data) => data.unwrap_or_default(),
        };
        let send = |child: usize| self.send(member(child), (seq, level), &data);
        if within {
            flat(me, n).1.try_for_each(send)?;
        } else {
            binomial(me, n).1.try_for_each(send)?;
        }
        Ok(data)
    }
}

/// Copies as many bytes as were asked for.
fn copy_whole(bytes: &mut [u8], data: &[u8]) {
    debug_assert_eq!(bytes.len(), data.len(), "as many as were asked for");
    if bytes.len() == data.len() {
        bytes.copy_from_slice(data);
    }
}
