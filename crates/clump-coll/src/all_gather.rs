//! All-gather: the values of all ranks, for all ranks.

use crate::arguments::check_bytes;
use crate::choice::Operation;
use crate::mailbox::failed;
use crate::parcel::{pack, unpack};
use crate::parts_memory::{EqualParts, zeroed};
use crate::stage::call::StagedCall;
use crate::stage::group::StageGroup;
use crate::{Plain, Team, step};
use clump_am::Result;
use std::ops::Range;
use zerocopy::IntoBytes;

impl Team {
    /// Returns all ranks' values, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave a value of another size.
    pub fn all_gather<T: Plain>(&self, value: T) -> Result<Vec<T>> {
        let mut all = vec![value; self.nranks()];
        self.all_gather_slice(&[value], &mut all)?;
        Ok(all)
    }

    /// Returns all ranks' byte strings, of any lengths, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        if let Some(group) = self.stage_for(Operation::AllGather, None) {
            self.prepared(|| check_bytes(mine.len() as u64))?;
            let gather = |seq| self.gather_staged(group, seq, mine);
            return self.together(Operation::AllGather, None, gather);
        }
        let lengths = self.all_gather(mine.len() as u64)?;
        // All ranks know the same lengths, so all refuse, or none.
        self.prepared(|| {
            check_bytes(lengths.iter().fold(0, |all: u64, &len| all.saturating_add(len)))
        })?;
        let lengths: Vec<usize> = lengths.iter().map(|&len| len as usize).collect();
        // Where a rank has no memory for it, it reports so to the others: they are in the same
        // collective.
        let gather = |seq| {
            let mut all = zeroed(lengths.iter().sum::<usize>() as u64)?;
            self.gather_by_messages(seq, mine, &lengths, &mut all)?;
            Ok(all)
        };
        let all = self.together(Operation::AllGather, None, gather)?;
        Ok(cut(&all, &lengths).into_iter().map(<[u8]>::to_vec).collect())
    }

    /// Writes all ranks' values, of equal numbers, into `all`, in rank order. On one node no other
    /// memory is needed.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave another number of values; `all` has not room for as
    /// many of each rank.
    pub fn all_gather_slice<T: Plain>(&self, mine: &[T], all: &mut [T]) -> Result<()> {
        self.prepared(|| self.check_room(size_of_val(all), size_of_val(mine)))?;
        let (mine, all) = (mine.as_bytes(), all.as_mut_bytes());
        self.prepared(|| check_bytes(all.len() as u64))?;
        let staged = self.stage_for(Operation::AllGather, None);
        self.together(Operation::AllGather, Some(mine.len()), |seq| {
            if let Some(group) = staged {
                return self.gather_equal_staged(group, seq, mine, all);
            }
            let lengths = vec![mine.len(); self.nranks()];
            self.gather_by_messages(seq, mine, &lengths, all)
        })
    }

    /// Writes the contributions of all ranks, one behind the other, into `all`. On one node all
    /// ranks pass them on ([`Team::pass_round`]). On several, the ranks of each node give theirs to
    /// the lowest rank, the lowest ranks pass on whole nodes' contributions, and hand all down:
    /// then every contribution crosses to each node once, in the fewest messages that nodes need.
    fn gather_by_messages(
        &self,
        seq: u64,
        mine: &[u8],
        lengths: &[usize],
        all: &mut [u8],
    ) -> Result<()> {
        let place = |ranks: Range<usize>| place_of(lengths, ranks);
        let (me, leader, local) = (self.rank(), self.layout.leader(), self.layout.local());
        all[place(me..me + 1)].copy_from_slice(mine);
        if !self.layout.is_spread() {
            let members: Vec<usize> = (0..self.nranks()).collect();
            return self.pass_round((seq, step::BETWEEN), &members, lengths, all);
        }
        if me == leader {
            for rank in local.clone().skip(1) {
                self.receive_into(rank, (seq, step::UP), &mut all[place(rank..rank + 1)])?;
            }
            self.pass_nodes(seq, lengths, all)?;
        } else {
            self.send(leader, (seq, step::UP), mine)?;
        }
        self.hand_down((seq, step::DOWN), &local.collect::<Vec<_>>(), leader, all)
    }

    /// For the lowest rank of a node, whose ranks' contributions lie in their places in `all`:
    /// passes them to other nodes, and takes theirs.
    pub(crate) fn pass_nodes(&self, seq: u64, lengths: &[usize], all: &mut [u8]) -> Result<()> {
        let nodes = self.layout.nodes().iter();
        let bytes: Vec<usize> = nodes.map(|ranks| lengths[ranks.clone()].iter().sum()).collect();
        self.pass_round((seq, step::BETWEEN), &self.layout.leaders(), &bytes, all)
    }

    /// Writes the contributions of this node's ranks, of equal lengths, into their places in `all`
    /// at the lowest.
    pub(crate) fn collect_node(
        &self,
        call: &mut StagedCall<'_>,
        mine: &[u8],
        all: &mut [u8],
    ) -> Result<()> {
        let (members, each, local) = (call.len(), mine.len(), self.layout.local());
        let here = call.me() == 0;
        let own = if here { &mut all[local.start * each..local.end * each] } else { &mut [] };
        call.collect(Some(0), mine, &mut EqualParts::of_all(own, members))
    }

    /// Gathers contributions of equal lengths in the memory of each node, and between the lowest
    /// ranks by messages.
    fn gather_equal_staged(
        &self,
        group: &StageGroup,
        seq: u64,
        mine: &[u8],
        all: &mut [u8],
    ) -> Result<()> {
        let mut call = StagedCall::new(self, group, seq)?;
        if self.is_one_node() {
            return call.collect(None, mine, &mut EqualParts::of_all(all, self.nranks()));
        }
        self.collect_node(&mut call, mine, all)?;
        call.next_phase();
        if call.me() == 0 {
            self.pass_nodes(seq, &vec![mine.len(); self.nranks()], all)?;
        }
        call.spread(0, all)
    }

    /// Gathers contributions of any lengths, as [`Team::gather_equal_staged`] does equal ones.
    fn gather_staged(&self, group: &StageGroup, seq: u64, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut call = StagedCall::new(self, group, seq)?;
        let mut own = vec![Vec::new(); call.len()];
        if self.is_one_node() {
            call.collect(None, mine, &mut own)?;
            return Ok(own);
        }
        call.collect(Some(0), mine, &mut own)?;
        call.next_phase();
        let mut whole = None;
        if call.me() == 0 {
            let lengths = self.pass_lengths(seq, &own)?;
            let total = lengths.iter().fold(0, |all: u64, &len| all.saturating_add(len as u64));
            let mut all = zeroed(total)?;
            all[place_of(&lengths, self.layout.local())].copy_from_slice(&own.concat());
            self.pass_nodes(seq, &lengths, &mut all)?;
            whole = Some(pack(&cut(&all, &lengths))?);
        }
        let whole = call.spread_any(0, whole)?;
        unpack(&whole, self.nranks(), (self.member(self.layout.leader()), seq)).map_err(failed)
    }

    /// For the lowest rank of a node: tells the others the lengths of its node's contributions.
    /// Returns those of all.
    fn pass_lengths(&self, seq: u64, own: &[Vec<u8>]) -> Result<Vec<usize>> {
        let mut words = vec![0_u64; self.nranks()];
        let here = words[self.layout.local()].iter_mut().zip(own);
        here.for_each(|(word, part)| *word = (part.len() as u64).to_le());
        let bytes = self.layout.nodes().iter().map(|ranks| ranks.len() * size_of::<u64>());
        let (key, leaders) = ((seq, step::LENGTHS), self.layout.leaders());
        self.pass_round(key, &leaders, &bytes.collect::<Vec<_>>(), words.as_mut_bytes())?;
        let length = |word: u64| usize::try_from(u64::from_le(word)).unwrap_or(usize::MAX);
        Ok(words.into_iter().map(length).collect())
    }

    /// Runs Bruck's all-gather: in round k every member passes on what it knows to the one 2^k
    /// before it, so it takes ceil(log2 N) rounds at any N. Contributions, of these lengths in the
    /// order of `members`, have their places in `all`, in which this member's lies.
    fn pass_round(
        &self,
        (seq, mut round): (u64, u64),
        members: &[usize],
        lengths: &[usize],
        all: &mut [u8],
    ) -> Result<()> {
        let n = members.len();
        debug_assert_eq!(all.len(), lengths.iter().sum::<usize>(), "room for all");
        let me = members.iter().position(|&member| member == self.rank()).unwrap_or(0);
        // Those of `count` members from `first` on, around the end: two places, the second of
        // which may be empty.
        let places = |first: usize, count: usize| {
            let end = n.min(first + count);
            [place_of(lengths, first..end), place_of(lengths, 0..first + count - end)]
        };
        let mut have = 1;
        while have < n {
            let take = have.min(n - have);
            let (to, from) = ((me + n - have) % n, (me + have) % n);
            match places(me, take) {
                [one, rest] if rest.is_empty() => {
                    self.send(members[to], (seq, round), &all[one])?;
                }
                both => {
                    let bytes = both.map(|place| &all[place]).concat();
                    self.send(members[to], (seq, round), &bytes)?;
                }
            }
            match places(from, take) {
                [one, rest] if rest.is_empty() => {
                    self.receive_into(members[from], (seq, round), &mut all[one])?;
                }
                [one, rest] => {
                    let bytes =
                        self.receive(members[from], (seq, round), one.len() + rest.len())?;
                    let (first, second) = bytes.split_at(one.len());
                    all[one].copy_from_slice(first);
                    all[rest].copy_from_slice(second);
                }
            }
            have += take;
            round += 1;
        }
        Ok(())
    }
}

/// Returns the place of the contributions of some members among those of all.
fn place_of(lengths: &[usize], members: Range<usize>) -> Range<usize> {
    debug_assert!(members.end <= lengths.len(), "they are members");
    let start: usize = lengths[..members.start].iter().sum();
    start..start + lengths[members].iter().sum::<usize>()
}

/// Cuts bytes into parts of these lengths.
fn cut<'a>(bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    debug_assert_eq!(bytes.len(), lengths.iter().sum::<usize>(), "as many as were asked for");
    let mut rest = bytes;
    let next = |&len: &usize| {
        let (part, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        rest = behind;
        part
    };
    lengths.iter().map(next).collect()
}
