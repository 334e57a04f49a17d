//! All-gather: the values of all ranks, for all ranks.

use crate::choice::Operation;
use crate::mailbox::failed;
use crate::parcel::{pack, unpack};
use crate::parts_memory::EqualParts;
use crate::stage::call::StagedCall;
use crate::stage::group::StageGroup;
use crate::team::{check_bytes, copy_of};
use crate::{Plain, Team, step};
use clump_am::Result;
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
            check_bytes(mine.len() as u64)?;
            let gather = |seq| self.gather_staged(group, seq, mine);
            return self.together(Operation::AllGather, None, gather);
        }
        let lengths = self.all_gather(mine.len() as u64)?;
        // All ranks know the same lengths, so all refuse, or none.
        check_bytes(lengths.iter().fold(0, |all: u64, &len| all.saturating_add(len)))?;
        let lengths: Vec<usize> = lengths.iter().map(|&len| len as usize).collect();
        let gather = |seq| self.gather_by_messages(seq, copy_of(mine)?, &lengths);
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
        self.check_room(size_of_val(all), size_of_val(mine))?;
        let (mine, all) = (mine.as_bytes(), all.as_mut_bytes());
        check_bytes(all.len() as u64)?;
        let staged = self.stage_for(Operation::AllGather, None);
        self.together(Operation::AllGather, Some(mine.len()), |seq| {
            if let Some(group) = staged {
                return self.gather_equal_staged(group, seq, mine, all);
            }
            let lengths = vec![mine.len(); self.nranks()];
            all.copy_from_slice(&self.gather_by_messages(seq, copy_of(mine)?, &lengths)?);
            Ok(())
        })
    }

    /// Returns the contributions of all ranks, one behind the other. On one node all ranks pass
    /// them on ([`Team::pass_round`]). On several, the ranks of each node give theirs to the lowest
    /// rank, the lowest ranks pass on whole nodes' contributions, and hand all down: then every
    /// contribution crosses to each node once, in the fewest messages that nodes need.
    fn gather_by_messages(&self, seq: u64, mine: Vec<u8>, lengths: &[usize]) -> Result<Vec<u8>> {
        if !self.layout.is_spread() {
            let members: Vec<usize> = (0..self.nranks()).collect();
            return Ok(self.pass_round((seq, step::BETWEEN), &members, mine, lengths)?.concat());
        }
        let (leader, local) = (self.layout.leader(), self.layout.local());
        let mut whole = None;
        if self.rank() == leader {
            let mut part = mine;
            for rank in local.clone().skip(1) {
                part.extend(self.receive(rank, (seq, step::UP), lengths[rank])?);
            }
            whole = Some(self.pass_nodes(seq, part, lengths)?);
        } else {
            self.send(leader, (seq, step::UP), &mine)?;
        }
        let local: Vec<usize> = local.collect();
        self.hand_down((seq, step::DOWN), &local, leader, whole, lengths.iter().sum())
    }

    /// For the lowest rank of a node: passes its ranks' contributions to other nodes. Returns those
    /// of all ranks, one behind the other.
    fn pass_nodes(&self, seq: u64, of_node: Vec<u8>, lengths: &[usize]) -> Result<Vec<u8>> {
        let nodes = self.layout.nodes().iter();
        let bytes: Vec<usize> = nodes.map(|ranks| lengths[ranks.clone()].iter().sum()).collect();
        let (key, leaders) = ((seq, step::BETWEEN), self.layout.leaders());
        Ok(self.pass_round(key, &leaders, of_node, &bytes)?.concat())
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
        let members = call.len();
        let mut of_node = vec![0; if call.me() == 0 { members * mine.len() } else { 0 }];
        call.collect(Some(0), mine, &mut EqualParts::of_all(&mut of_node, members))?;
        call.next_phase();
        if call.me() == 0 {
            let lengths = vec![mine.len(); self.nranks()];
            all.copy_from_slice(&self.pass_nodes(seq, of_node, &lengths)?);
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
            check_bytes(lengths.iter().fold(0, |all: u64, &len| all.saturating_add(len as u64)))?;
            let bytes = self.pass_nodes(seq, own.concat(), &lengths)?;
            whole = Some(pack(&cut(&bytes, &lengths))?);
        }
        let whole = call.spread_any(0, whole)?;
        unpack(&whole, self.nranks(), (self.member(self.layout.leader()), seq)).map_err(failed)
    }

    /// For the lowest rank of a node: tells the others the lengths of its node's contributions.
    /// Returns those of all.
    fn pass_lengths(&self, seq: u64, own: &[Vec<u8>]) -> Result<Vec<usize>> {
        let words = own.iter().flat_map(|part| (part.len() as u64).to_le_bytes()).collect();
        let bytes = self.layout.nodes().iter().map(|ranks| ranks.len() * size_of::<u64>());
        let (key, leaders) = ((seq, step::LENGTHS), self.layout.leaders());
        let all = self.pass_round(key, &leaders, words, &bytes.collect::<Vec<_>>())?.concat();
        let word = |word: &[u8; 8]| usize::try_from(u64::from_le_bytes(*word));
        let lengths = all.as_chunks().0.iter().map(|it| word(it).unwrap_or(usize::MAX));
        Ok(lengths.collect())
    }

    /// Runs Bruck's all-gather: in round k every member passes on what it knows to the one 2^k
    /// before it, so it takes ceil(log2 N) rounds at any N. Contributions and `lengths` are in the
    /// order of `members`.
    pub(crate) fn pass_round(
        &self,
        (seq, mut round): (u64, u64),
        members: &[usize],
        mine: Vec<u8>,
        lengths: &[usize],
    ) -> Result<Vec<Vec<u8>>> {
        let n = members.len();
        let me = members.iter().position(|&member| member == self.rank()).unwrap_or(0);
        // known[i] is the contribution of member me + i.
        let mut known = vec![mine];
        while known.len() < n {
            let have = known.len();
            let take = have.min(n - have);
            let to = (me + n - have) % n;
            let from = (me + have) % n;
            self.send(members[to], (seq, round), &known[..take].concat())?;
            let sizes = (0..take).map(|i| lengths[(from + i) % n]);
            let bytes: usize = sizes.clone().sum();
            let got = self.receive(members[from], (seq, round), bytes)?;
            let mut at = 0;
            for size in sizes {
                known.push(got[at..at + size].to_vec());
                at += size;
            }
            round += 1;
        }
        known.rotate_right(me % n);
        Ok(known)
    }
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
