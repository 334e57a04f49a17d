//! Broadcast: one rank's values for all ranks.

use crate::layout::{binomial, flat};
use crate::team::{check_bytes, copy_of};
use crate::{Plain, Team, step};
use clump_am::Result;
use clump_trace::Counter;
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
        self.together(Counter::Broadcasts, |seq| self.spread(seq, root, values))
    }

    fn spread<T: Plain>(&self, seq: u64, root: usize, values: &mut [T]) -> Result<()> {
        let bytes = size_of_val(values);
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
        for (value, chunk) in values.iter_mut().zip(data.chunks_exact(size_of::<T>().max(1))) {
            if let Ok(read) = T::read_from_bytes(chunk) {
                *value = read;
            }
        }
        Ok(())
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
