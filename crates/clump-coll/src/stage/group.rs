//! The ranks of a team on one node, and the memory by which they give each other contributions.

use super::area::{AREA, Awaited, Front, MAX_MEMBERS, long_slot};
use super::numbering::SLOTS;
use clump_am::{ErrorKind, Result, Segment};
use clump_os::fence;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankState;
use std::sync::OnceLock;

/// The ranks of a team on this node.
#[derive(Debug)]
pub(crate) struct StageGroup {
    node: NodeMemory,
    /// The number of the team.
    team: u64,
    /// Ranks of the job.
    ranks: Vec<u32>,
    /// Areas of the ranks.
    areas: Vec<u32>,
    me: usize,
    front: OnceLock<Front>,
    long: Vec<OnceLock<Segment>>,
    /// By slot of this rank: the contribution that it holds.
    written: [AtomicU64; SLOTS],
    /// By member: up to which contribution it is known to have read those of others.
    known: Vec<AtomicU64>,
}

impl StageGroup {
    /// Creates the group of `ranks`, which use these areas of theirs for `team`; this one is at
    /// `me`.
    pub(crate) fn new(
        node: &NodeMemory,
        team: u64,
        (ranks, areas): (Vec<u32>, Vec<u32>),
        me: usize,
    ) -> Self {
        debug_assert!(ranks.len() == areas.len() && me < ranks.len(), "an area for each rank");
        let long = ranks.iter().map(|_| OnceLock::new()).collect();
        let known = ranks.iter().map(|_| AtomicU64::new(0)).collect();
        let (node, front, written) = (node.clone(), OnceLock::new(), Default::default());
        Self { node, team, ranks, areas, me, front, long, written, known }
    }

    /// Returns the number of ranks.
    pub(crate) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the place of this rank.
    pub(crate) fn me(&self) -> usize {
        self.me
    }

    /// Returns a member's rank of the job.
    pub(crate) fn rank(&self, member: usize) -> u32 {
        debug_assert!(member < self.ranks.len(), "a member of the group");
        self.ranks[member]
    }

    /// Returns the front, which is mapped when it is first used.
    pub(crate) fn front(&self) -> Result<&Front> {
        if let Some(front) = self.front.get() {
            return Ok(front);
        }
        let (rank, at) = (self.ranks[0], u64::from(self.areas[0]) * AREA);
        let name = self.node.endpoint_block(rank, 0)?.segment().ok_or(ErrorKind::Overwritten)?;
        let found = self.node.exported(name)?.filter(|(_, extent)| at + AREA <= extent.bytes);
        let front = found.and_then(|(cells, _)| Front::new(cells, at));
        let front = front.ok_or(ErrorKind::Overwritten)?;
        Ok(self.front.get_or_init(|| front))
    }

    /// Returns the memory of a member's long slots, and where `slot` begins.
    pub(crate) fn long(&self, member: usize, slot: usize) -> Result<(&Segment, u64)> {
        let at = u64::from(self.areas[member]) * AREA + long_slot(slot);
        if let Some(segment) = self.long[member].get() {
            return Ok((segment, at));
        }
        let rank = self.ranks[member];
        let name = self.node.endpoint_block(rank, 0)?.segment().ok_or(ErrorKind::Overwritten)?;
        let segment = Segment::exported(&self.node, name)?.ok_or(ErrorKind::Overwritten)?;
        Ok((self.long[member].get_or_init(|| segment), at))
    }

    /// Returns the contribution that a slot of this rank holds.
    pub(crate) fn written(&self, slot: usize) -> u64 {
        debug_assert!(slot < SLOTS, "a slot of an area");
        self.written[slot].load(Ordering::Relaxed)
    }

    /// Notes the contribution that a slot of this rank holds from now on.
    pub(crate) fn set_written(&self, slot: usize, number: u64) {
        self.written[slot].store(number, Ordering::Relaxed);
    }

    /// Notes that a member has read everything up to `number`.
    pub(crate) fn note_taken(&self, member: usize, number: u64) {
        self.known[member].fetch_max(number, Ordering::Relaxed);
    }

    /// Returns the members that may not have read a contribution yet, a bit for each.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub(crate) fn lacks(&self, number: u64) -> Result<u64> {
        let awaited = Awaited::Taken(number);
        Ok(if number == 0 { 0 } else { self.missing(self.front()?, awaited, self.all_others()) })
    }

    /// Returns the bits of all other members.
    pub(crate) fn all_others(&self) -> u64 {
        u64::MAX >> (MAX_MEMBERS - self.len()) & !(1 << self.me)
    }

    /// Returns those of `of` that have not done what is awaited of them, a bit for each.
    pub(crate) fn missing(&self, front: &Front, awaited: Awaited, of: u64) -> u64 {
        let is_missing = |&member: &usize| match awaited {
            Awaited::Posted(_) => !front.is_done(member, awaited),
            Awaited::Taken(number) => {
                if self.known[member].load(Ordering::Relaxed) >= number {
                    return false;
                }
                let taken = front.taken(member);
                self.note_taken(member, taken);
                taken < number
            }
        };
        bits(of).filter(is_missing).fold(0, |all, member| all | 1 << member)
    }

    /// Wakes members that sleep and that have all they wait for, after this one made something
    /// known.
    pub(crate) fn wake(&self, front: &Front) {
        fence::light(self.node.fence());
        if front.anyone_asleep() {
            self.wake_complete(front);
        }
    }

    #[cold]
    fn wake_complete(&self, front: &Front) {
        // Of several members that complete what a sleeper waits for, one sees what all have done.
        fence::full();
        for member in bits(self.all_others()) {
            if let Some((awaited, of)) = front.awaited(member)
                && of >> self.me & 1 == 1
                && bits(of).all(|other| front.is_done(other, awaited))
            {
                self.node.wake_sleeper(self.ranks[member]);
            }
        }
    }

    /// Returns true if no member uses the memory any more after collective `last`.
    pub(crate) fn is_over(&self, last: u64) -> bool {
        let Ok(front) = self.front() else { return false };
        let is_gone = |member: usize| {
            let rank = self.node.peer(self.ranks[member]);
            rank.is_some_and(|rank| matches!(rank.state(), RankState::Finalized | RankState::Dead))
        };
        let is_done = |member| front.taken(member) >= last || is_gone(member);
        front.owner() != self.team || (0..self.len()).all(is_done)
    }
}

/// Returns the places of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (next < u64::BITS).then_some(next as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_lowest() {
        assert_eq!(bits(0).count(), 0);
        assert_eq!(bits(1 << 63 | 0b101).collect::<Vec<_>>(), [0, 2, 63]);
    }
}
