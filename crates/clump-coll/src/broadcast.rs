//! Broadcast: one rank's values for all ranks.

use crate::arguments::check_bytes;
use crate::choice::Operation;
use crate::layout::{binomial, flat};
use crate::stage::call::StagedCall;
use crate::stage::group::StageGroup;
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
        self.prepared(|| {
            self.check_rank(root).and_then(|()| check_bytes(size_of_val(values) as u64))
        })?;
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
        let bytes = values.as_mut_bytes();
        let speakers = self.layout.speakers(root);
        if speakers.contains(&self.rank()) {
            self.hand_down((seq, step::BETWEEN), &speakers, root, bytes)?;
        }
        let local: Vec<usize> = self.layout.local().collect();
        let speaker = speakers.into_iter().find(|speaker| local.contains(speaker)).unwrap_or(root);
        self.hand_down((seq, step::DOWN), &local, speaker, bytes)
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
            let speakers = self.layout.speakers(root);
            self.hand_down((seq, step::BETWEEN), &speakers, root, bytes)?;
        }
        call.spread(speaker - local.start, bytes)
    }

    /// Hands the bytes of `root` down a tree over `members`, of which this rank is one: a binomial
    /// one, or within a small enough node a flat one. All have room for as many.
    pub(crate) fn hand_down(
        &self,
        (seq, level): (u64, u64),
        members: &[usize],
        root: usize,
        bytes: &mut [u8],
    ) -> Result<()> {
        let n = members.len();
        let place = |rank: usize| members.iter().position(|&member| member == rank).unwrap_or(0);
        let root = place(root);
        let member = |at: usize| members[(at + root) % n];
        let me = (place(self.rank()) + n - root) % n;
        let within = level == step::DOWN && self.layout.is_flat(bytes.len());
        let parent = if within { flat(me, n).0 } else { binomial(me, n).0 };
        if let Some(parent) = parent {
            self.receive_into(member(parent), (seq, level), bytes)?;
        }
        let send = |child: usize| self.send(member(child), (seq, level), bytes);
        if within { flat(me, n).1.try_for_each(send) } else { binomial(me, n).1.try_for_each(send) }
    }
}
