//! All-gather: the values of all ranks, for all ranks.

use crate::team::{check_bytes, copy_of};
use crate::{Plain, Team, step};
use clump_am::Result;
use clump_trace::Counter;

impl Team {
    /// Returns all ranks' values, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left, or gave a value of another size.
    pub fn all_gather<T: Plain>(&self, value: T) -> Result<Vec<T>> {
        let lengths = vec![size_of::<T>(); self.nranks()];
        let all = self.gather_all(value.as_bytes().to_vec(), &lengths)?;
        Ok(all.iter().filter_map(|bytes| T::read_from_bytes(bytes).ok()).collect())
    }

    /// Returns all ranks' byte strings, of any lengths, in rank order.
    ///
    /// # Errors
    /// Fails if a rank died or left.
    pub fn all_gather_bytes(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.all_gather(mine.len() as u64)?;
        // All ranks know the same lengths, so all refuse, or none.
        check_bytes(lengths.iter().fold(0, |all: u64, &len| all.saturating_add(len)))?;
        let lengths: Vec<usize> = lengths.iter().map(|&len| len as usize).collect();
        self.gather_all(copy_of(mine)?, &lengths)
    }

    /// Gathers the contributions of all ranks. On one node all ranks pass them on
    /// ([`Team::pass_round`]). On several, the ranks of each node give theirs to the lowest rank,
    /// the lowest ranks pass on whole nodes' contributions, and hand all down: then every
    /// contribution crosses to each node once, in the fewest messages that nodes need.
    fn gather_all(&self, mine: Vec<u8>, lengths: &[usize]) -> Result<Vec<Vec<u8>>> {
        self.together(Counter::AllGathers, |seq| self.gather_in(seq, mine, lengths))
    }

    fn gather_in(&self, seq: u64, mine: Vec<u8>, lengths: &[usize]) -> Result<Vec<Vec<u8>>> {
        if !self.layout.is_spread() {
            let members: Vec<usize> = (0..self.nranks()).collect();
            return self.pass_round(seq, &members, mine, lengths);
        }
        let (leader, local) = (self.layout.leader(), self.layout.local());
        let mut whole = None;
        if self.rank() == leader {
            let mut part = mine;
            for rank in local.clone().skip(1) {
                part.extend(self.receive(rank, (seq, step::UP), lengths[rank])?);
            }
            let of_nodes = self.layout.nodes().iter();
            let of_nodes: Vec<usize> =
                of_nodes.map(|ranks| lengths[ranks.clone()].iter().sum()).collect();
            whole = Some(self.pass_round(seq, &self.layout.leaders(), part, &of_nodes)?.concat());
        } else {
            self.send(leader, (seq, step::UP), &mine)?;
        }
        let local: Vec<usize> = local.collect();
        let bytes = lengths.iter().sum();
        let whole = self.hand_down((seq, step::DOWN), &local, leader, whole, bytes)?;
        let mut rest = whole.as_slice();
        let cut = |&len: &usize| {
            let (part, behind) = rest.split_at(len);
            rest = behind;
            part.to_vec()
        };
        Ok(lengths.iter().map(cut).collect())
    }

    /// Runs Bruck's all-gather: in round k every member passes on what it knows to the one 2^k
    /// before it, so it takes ceil(log2 N) rounds at any N. Contributions and `lengths` are in the
    /// order of `members`.
    fn pass_round(
        &self,
        seq: u64,
        members: &[usize],
        mine: Vec<u8>,
        lengths: &[usize],
    ) -> Result<Vec<Vec<u8>>> {
        let n = members.len();
        let me = members.iter().position(|&member| member == self.rank()).unwrap_or(0);
        // known[i] is the contribution of member me + i.
        let mut known = vec![mine];
        let mut round = step::BETWEEN;
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
